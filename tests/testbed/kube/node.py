# SPDX-License-Identifier: Apache-2.0

"""A Kubernetes node on this machine: kubelet, containerd, CNI and Multus.

For a process in mount, network, PID and UTS namespaces of its own, as
:func:`tests.kubernetes.test_node.inside` makes them: what is mounted here
over directories of the machine ends with them.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.testbed import standin
from tests.testbed.isolation import sh
from tests.testbed.kube import pod_image
from tests.testbed.kube.cluster import Kube
from tests.testbed.kube.kubeconfig import Credentials
from tests.testbed.kube.kubeconfig import write
from tests.testbed.kube.node_programs import NodePrograms
from tests.testbed.paths import CHECKOUT
from tests.testbed.service import Service
from tests.testbed.waiting import wait_for

NAME = "rt-node"
#: Its address, on a bridge that the pods' first interface is on.
ADDRESS = "10.123.0.1"
#: The parent of the pods' macvlans, and the other end of its cable.
PARENT, FAR = "sfc0", "sfc0p"
#: Of what is at the far end of the cable.
FAR_ADDRESS = "172.20.0.1"

#: Names the archive with the agent's image, which is built outside.
AGENT_ARCHIVE = "SRIOV_RT_AGENT_ARCHIVE"

IMAGE = "localhost/sriov-rt:1"
SANDBOX = pod_image.SANDBOX

#: Handlers of containerd: one with the stand-in for Kata's shim.
KATA = "kata-rt"

#: The kubelet's own, below the root as on any node.
_CGROUP = "kubepods"
_YEAR = 365 * 86400.0

#: Directories of the machine that the node's programs write to.
_OWN = (
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    "/var/lib/cni",
    "/etc/cni",
    "/opt/cni",
    "/var/lib/sriov-rt",
)

#: What the kubelet would set for the whole machine: it finds it set.
_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

#: Debian's shim under the name that containerd looks for, which notes the
#: OCI specification that it was given. It is no Kata: runc runs the pod.
_SHIM = """\
#!/bin/sh
# A stand-in for Kata's shim: it records the OCI specification.
[ -f config.json ] && cp config.json "{records}/$(basename "$PWD").json"
exec containerd-shim-runc-v2 "$@"
"""

#: The plug-in of the checkout, as an installed package has it.
_PLUGIN = """\
#!/bin/sh
PYTHONPATH={top} exec {python} -m sriov_rt.cmd.cni
"""


def isolate() -> None:
    """Make a machine of the namespaces that this process has alone."""
    sh("mount", "--make-rshared", "/")
    sh("mount", "-t", "tmpfs", "tmpfs", "/run")
    sh("ip", "link", "set", "lo", "up")
    sh("hostname", NAME)


class Node:
    """The one node of a control plane.

    :param kube: the control plane, in the same network namespace.
    """

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self._place = kube.place
        self.programs = NodePrograms(kube.place.cache)
        self._data = kube.place.data / "node"
        path = os.environ.get("PATH", os.defpath)
        self._environment = {
            "PATH": f"{self._data / 'bin'}:{path}",
            "HOME": str(kube.place.run),
        }

    @property
    def specifications(self) -> pathlib.Path:
        """Return the directory with what the stand-in shim was given."""
        return self._data / "specifications"

    def start(self) -> None:
        """Start the scheduler and the node, and wait until it is ready.

        :raises errors.TestbedError: when a part doesn't come up.
        """
        shutil.rmtree(self._data, ignore_errors=True)
        self._mount()
        self._wire()
        _make_groups()
        self._write_plugins()
        self._write_shim()
        self._scheduler().start(self._place)
        containerd = self._containerd()
        containerd.start(self._place)
        containerd.wait(self._place)
        for name, program in ((IMAGE, None), (SANDBOX, "sleep")):
            self._import(name, program)
        self._kubelet().start(self._place)
        wait_for("the node is ready", self._ready, timeout=120)
        # The controller manager would take it away.
        self.kube.core.patch_node(NAME, {"spec": {"taints": None}})

    def stop(self) -> None:
        """Stop the node, and remove its groups; pods end with it."""
        for each in (self._kubelet(), self._scheduler(), self._containerd()):
            each.stop(self._place)

    def _mount(self) -> None:
        for each in _OWN:
            own = self._data / each.strip("/").replace("/", "-")
            own.mkdir(parents=True)
            pathlib.Path(each).mkdir(parents=True, exist_ok=True)
            sh("mount", "--bind", str(own), each)
        sh("mount", "--make-rshared", "/var/lib/kubelet")
        for name, value in _SYSCTLS.items():
            file = self._data / name.replace("/", "-")
            file.write_text(f"{value}\n")
            sh("mount", "--bind", str(file), f"/proc/sys/{name}")

    def _wire(self) -> None:
        sh("ip", "link", "add", "k0", "type", "bridge")
        sh("ip", "addr", "add", f"{ADDRESS}/24", "dev", "k0")
        sh("ip", "link", "set", "k0", "up")
        sh("ip", "route", "add", "default", "via", "10.123.0.254")
        sh("ip", "netns", "add", "far")
        sh("ip", "link", "add", PARENT, "type", "veth", "peer", "name", FAR)
        sh("ip", "link", "set", FAR, "netns", "far")
        sh("ip", "link", "set", PARENT, "up")
        far = ("ip", "-n", "far")
        sh(*far, "addr", "add", f"{FAR_ADDRESS}/16", "dev", FAR)
        sh(*far, "link", "set", FAR, "up")
        sh(*far, "link", "set", "lo", "up")

    def _write_plugins(self) -> None:
        plugins = pathlib.Path("/opt/cni/bin")
        shutil.copytree("/usr/lib/cni", plugins)
        shutil.copy(self.programs.program("multus"), plugins)
        ours = plugins / "sriov-rt-vf"
        ours.write_text(_PLUGIN.format(python=sys.executable, top=CHECKOUT))
        ours.chmod(0o755)
        first = {
            "cniVersion": "0.4.0",
            "name": "k0",
            "type": "bridge",
            "bridge": "k0",
            "ipam": {
                "type": "host-local",
                "ranges": [
                    [{"subnet": "10.123.0.0/24", "rangeStart": "10.123.0.10"}]
                ],
            },
        }
        multus = {
            "cniVersion": "0.4.0",
            "name": "multus-cni-network",
            "type": "multus",
            "kubeconfig": str(self.kube.kubeconfig),
            "delegates": [first],
        }
        directory = pathlib.Path("/etc/cni/net.d")
        directory.mkdir(parents=True)
        (directory / "00-multus.conf").write_text(json.dumps(multus))

    def _write_shim(self) -> None:
        self.specifications.mkdir(parents=True)
        shim = self._data / "bin" / "containerd-shim-kata-v2"
        shim.parent.mkdir()
        shim.write_text(_SHIM.format(records=self.specifications))
        shim.chmod(0o755)

    def _scheduler(self) -> Service:
        name = "kube-scheduler"
        return self._client(
            name,
            "system:kube-scheduler",
            "",
            str(self.programs.program(name)),
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )

    def controllers(self, *names: str) -> Service:
        """Return the controller manager with some of its controllers.

        :param names: as in "daemonset-controller".
        """
        name = "kube-controller-manager"
        return Service(
            name=name,
            command=(
                str(self.programs.program(name)),
                f"--kubeconfig={self.kube.kubeconfig}",
                f"--controllers={','.join(names)}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
            ),
            environment=self._environment,
        )

    def _kubelet(self) -> Service:
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": (
                "unix:///run/containerd/containerd.sock"
            ),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {
                    "clientCAFile": str(self.kube.server.authority.certificate)
                },
            },
            "authorization": {"mode": "Webhook"},
            "evictionHard": {
                "memory.available": "50Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "localStorageCapacityIsolation": False,
            "resolvConf": "",
            "volumePluginDir": str(self._data / "volume-plugins"),
            # As on a realtime node: whole CPUs of Guaranteed pods are theirs.
            "cpuManagerPolicy": "static",
            "kubeReserved": {"cpu": "100m"},
        }
        file = self._data / "kubelet.json"
        file.write_text(json.dumps(configuration))
        return self._client(
            "kubelet",
            f"system:node:{NAME}",
            "system:nodes",
            str(self.programs.program("kubelet")),
            f"--config={file}",
            f"--cert-dir={self._data / 'kubelet-pki'}",
            f"--node-ip={ADDRESS}",
            f"--hostname-override={NAME}",
        )

    def _client(
        self, name: str, user: str, group: str, *command: str
    ) -> Service:
        """Return a service that signs in at the API server."""
        etc = self._place.etc
        pem = etc / f"{name}.pem"
        if not pem.exists():
            self.kube.server.authority.issue(
                pem, user, organization=group, seconds=_YEAR
            )
        kubeconfig = etc / f"{name}.kubeconfig"
        write(
            kubeconfig,
            self.kube.server.url,
            self.kube.server.authority.certificate,
            Credentials(pem=pem),
        )
        return Service(
            name=name,
            command=(*command, f"--kubeconfig={kubeconfig}"),
            environment=self._environment,
        )

    def _containerd(self) -> Service:
        cri = '[plugins."io.containerd.grpc.v1.cri"'
        runtimes = f"{cri}.containerd.runtimes"
        text = f"""\
version = 2
root = "{self._data / "containerd"}"
state = "/run/containerd-state"
[grpc]
  address = "/run/containerd/containerd.sock"
{cri}]
  sandbox_image = "{SANDBOX}"
  disable_apparmor = true
  disable_tcp_service = true
  restrict_oom_score_adj = true
{runtimes}.runc]
  runtime_type = "io.containerd.runc.v2"
{runtimes}.{KATA}]
  runtime_type = "io.containerd.kata.v2"
  pod_annotations = ["io.katacontainers.*"]
{cri}.cni]
  bin_dir = "/opt/cni/bin"
  conf_dir = "/etc/cni/net.d"
"""
        file = self._data / "containerd.toml"
        file.write_text(text)
        return Service(
            name="containerd",
            command=("containerd", "--config", str(file)),
            environment=self._environment,
            ready=lambda: self._ctr("version").returncode == 0,
        )

    def _ctr(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ("ctr", "-n", "k8s.io", *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            check=False,
            timeout=300,
        )

    def load(self, archive: pathlib.Path) -> None:
        """Give containerd the images of an archive.

        :param archive: as 'docker save' writes it.
        """
        done = self._ctr("images", "import", str(archive))
        assert done.returncode == 0, done.stderr

    def _import(self, name: str, program: str | None) -> None:
        """Give containerd an image: busybox, or one program of it."""
        file = self._data / "image.tar"
        tree = self._data / "image"
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "bin").mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "bin" / "busybox")
        for each in ("sh", "sleep", "cat", "ip", "ping", "env"):
            (tree / "bin" / each).symlink_to("busybox")
        if program is None:
            self._add_program(tree)
        command = ["/bin/sleep", "1000000"]
        pod_image.archive(tree, file, name, command)
        self.load(file)

    def _add_program(self, tree: pathlib.Path) -> None:
        """Add what the stand-in can be preloaded into, and the stand-in."""
        built = standin.build(self._data, "sockets", standin.PROGRAM)
        shutil.copy(built, tree / "bin" / "sockets")
        standin.copy_libraries(built, tree)
        library = standin.library(self._data / "onload")
        standin.copy_libraries(library, tree)

    @property
    def onload(self) -> pathlib.Path:
        """Return the directory of the node with Onload's stand-in."""
        return self._data / "onload" / "lib"

    def _ready(self) -> bool:
        found = self.kube.core.list_node().items
        return any(
            condition.type == "Ready" and condition.status == "True"
            for each in found
            for condition in each.status.conditions or ()
        )


def _groups(*kinds: str) -> Iterator[pathlib.Path]:
    """Yield the kubelet's group in each hierarchy.

    :param kinds: of file systems.
    """
    for line in (
        pathlib.Path("/proc/self/mounts")
        .read_text(errors="surrogateescape")
        .splitlines()
    ):
        _, mount, kind, *_ = line.split()
        if kind in kinds:
            yield pathlib.Path(mount, _CGROUP)


def _make_groups() -> None:
    for own in _groups("cgroup"):
        own.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (own / name).exists():
                (own / name).write_text((own.parent / name).read_text())


def remove_groups() -> None:
    """Remove what the node's pods were in, once they have ended.

    :raises errors.TimedOut: if one is still in use.
    """

    # runc makes one in version 2's hierarchy as well.
    every = tuple(_groups("cgroup", "cgroup2"))

    def removed() -> bool:
        for own in every:
            for directory, _, _ in os.walk(own, topdown=False):
                with contextlib.suppress(OSError):
                    pathlib.Path(directory).rmdir()
        return not any(own.exists() for own in every)

    wait_for("the node's control groups are gone", removed, timeout=30)
