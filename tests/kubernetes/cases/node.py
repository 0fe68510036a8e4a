# SPDX-License-Identifier: Apache-2.0

"""Pods on a real node: scheduled, attached, preloaded, measured, refused."""

import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import time
import typing
from typing import Any

import yaml
from kubernetes.client import ApiException
from kubernetes.client import CustomObjectsApi
from kubernetes.client import NodeV1Api

from sriov_rt.magnum import node_networks
from sriov_rt.pods import cluster as clusters
from sriov_rt.pods import feasible_nodes
from sriov_rt.pods import pod_request
from sriov_rt.pods import profiles
from tests.kubernetes import base
from tests.packages import agent_image
from tests.testbed import infrastructure
from tests.testbed import network
from tests.testbed import paths
from tests.testbed import standin
from tests.testbed import walk
from tests.testbed.isolation import sh
from tests.testbed.kube import device_plugin
from tests.testbed.kube import node
from tests.testbed.kube.host_tree import Card
from tests.testbed.waiting import wait_for

CARD = "feature.node.kubernetes.io/pci-1924.present"
DOMAIN = "sriov-rt.openstack.org"
KATA = "katacontainers.io/kata-runtime"
ONLOAD = "solarflare.com/sfc"
#: A VF that no machine here has: the files of its node say that it does.
VF = "0000:5e:00.1"
INSIDE = "/opt/onload/usr/lib64"
ENVIRONMENT = {
    "LD_PRELOAD": f"{INSIDE}/libonload.so",
    "EF_POLL_USEC": "100000",
}
REQUESTS = {
    f"{DOMAIN}/onload-profile": "latency",
    f"{DOMAIN}/onload-network": "onload-network",
}

#: Manifests of the agent, and what an operator writes into the Secret.
MANIFESTS = paths.CHECKOUT / "etc/kubernetes/agent.yaml"
QUEUE = f"rabbit://guest:guest@{network.CONTROLLER_ADDRESS}:5672/"
CONFIGURATION = f"""\
[DEFAULT]
host = {node.NAME}
transport_url = {QUEUE}
[agent]
root = /host
"""
#: What root may find otherwise a moment later, and what an image is of.
CHANGES = {"audit", "observed_at", "irqs", "labels", "version"}
PORT = "5f3c0a52-5d6e-4a53-9c0c-1d8f5b1c2a01"
NEUTRON_NETWORK = "0d8a7b1e-2f4c-4a86-8a55-7a0f6f0e9b02"

#: As published for Onload in pods, with a range of the node's own.
NETWORK = {
    "cniVersion": "0.3.1",
    "type": "macvlan",
    "name": "onload-network",
    "master": node.PARENT,
    "mode": "bridge",
    "ipam": {
        "type": "host-local",
        "subnet": "172.20.0.0/16",
        "rangeStart": "172.20.10.1",
        "rangeEnd": "172.20.10.253",
    },
}


#: What kubectl says of objects that were there before, from elsewhere.
_UNAPPLIED = re.compile(
    r"^Warning: resource \S+ is missing the kubectl\S+ annotation .*\n",
    re.MULTILINE,
)


class NodeCases(base.KubernetesTestCase):
    """One node for all cases; each takes its pods away."""

    @classmethod
    def setUpClass(cls) -> None:
        node.isolate()
        super().setUpClass()
        cls.machine = node.Node(cls.kube)
        core = cls.kube.core
        cls.kube.apply(base.network_definitions())
        core.create_namespace({"metadata": {"name": "sriov-rt"}})
        # What the controller manager would make in each namespace.
        account = {"metadata": {"name": "default"}}
        trusted = {
            "metadata": {"name": "kube-root-ca.crt"},
            "data": {"ca.crt": ""},
        }
        for each in ("default", "sriov-rt"):
            core.create_namespaced_service_account(each, account)
            core.create_namespaced_config_map(each, trusted)
        cls.kube.apply(profiles.config_map({"latency": ENVIRONMENT}, ONLOAD))
        for name in (
            "pod-policies/policies.yaml",
            "onload-pods/policy.yaml",
            "kata/runtimeclass.yaml",
        ):
            cls.kube.apply(*base.objects(base.ADDONS / name))
        cls.machine.start()
        cls.addClassCleanup(cls.machine.stop)
        cls.kube.install_nfd()
        tree = cls.kube.tree(node.NAME)
        tree.plug(Card())
        cls.kube.start_worker(node.NAME, tree)
        cls.kube.nodes.wait_for_label(node.NAME, CARD, "true")
        # A device plugin would announce it.
        cls.kube.nodes.set_resources(node.NAME, {ONLOAD: "4"})
        cls.add_network("onload-network", NETWORK)

    @classmethod
    def add_network(cls, name: str, config: Any, **annotations: str) -> None:
        CustomObjectsApi(cls.kube.admin()).create_namespaced_custom_object(
            "k8s.cni.cncf.io",
            "v1",
            "default",
            "network-attachment-definitions",
            {
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"config": json.dumps(config)},
            },
        )

    machine: typing.ClassVar[node.Node]

    def pod(self, name: str, **more: Any) -> dict[str, Any]:
        annotations = more.pop("annotations", {})
        container = more.pop("container", {})
        return {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 1,
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "c",
                        "image": node.IMAGE,
                        "imagePullPolicy": "Never",
                        **container,
                    }
                ],
                **more,
            },
        }

    def create(self, given: Any) -> None:
        self.kube.core.create_namespaced_pod("default", given)
        self.addCleanup(self.delete, given["metadata"]["name"])

    def delete(self, name: str) -> None:
        try:
            self.kube.core.delete_namespaced_pod(
                name, "default", grace_period_seconds=0
            )
        except ApiException as error:
            if error.status != 404:
                raise
        wait_for(f"{name} is gone", lambda: not self.exists(name), timeout=60)

    def exists(self, name: str) -> bool:
        found = self.kube.core.list_namespaced_pod("default").items
        return any(each.metadata.name == name for each in found)

    def read(self, name: str) -> Any:
        return self.kube.core.read_namespaced_pod(name, "default")

    def wait_until_running(self, name: str) -> Any:
        began = time.monotonic()
        wait_for(
            f"{name} runs",
            lambda: self.read(name).status.phase == "Running",
            timeout=120,
        )
        print(f"pod {name} runs after {time.monotonic() - began:.1f} s")
        return self.read(name)

    def pending(self, name: str) -> str:
        """Return why the scheduler finds no node, once it says so."""

        def why() -> str:
            return " ".join(
                each.message or ""
                for each in self.read(name).status.conditions or ()
                if each.reason == "Unschedulable"
            )

        wait_for(f"{name} is found unschedulable", why, timeout=60)
        return why()

    def explain(self, given: Any) -> list[str]:
        """Return the codes of pod explain for the node."""
        get = clusters.connect(str(self.kube.kubeconfig), None)
        found = clusters.read(get)
        request = pod_request.read(
            given, feasible_nodes.find_class(given, found)
        )
        (mine,) = [
            each
            for each in feasible_nodes.judge(request, found, time.time())
            if each.node == node.NAME
        ]
        return [each.code for each in mine.reasons]

    def pid(self, name: str) -> int:
        """Return the process of a pod's container, as seen from here."""
        uid = self.read(name).metadata.uid
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                group = (path / "cgroup").read_text()
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if uid in group and b"1000000" in words:
                return int(path.name)
        raise AssertionError(f"no process of {name}")

    def test_the_walkthrough(self) -> None:
        place = self.machine.onload.parent / "walk"
        nodes = place / "dev"
        nodes.mkdir(parents=True)
        for name in device_plugin.OnloadPlugin.DEVICES:
            os.mknod(nodes / name, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        environment = walk.install(place)
        (place / "kubectl").symlink_to(
            self.machine.programs.program("kubectl")
        )
        shipped = paths.CHECKOUT / "etc"
        # The page's own paths are the machine's, too.
        instead = {
            "/usr/share/sriov-rt": str(shipped),
            "/etc/sriov_rt": str(place / "etc"),
        }
        plugin = device_plugin.OnloadPlugin(nodes, self.machine.onload, INSIDE)
        # That of the other cases would count as Onload's as well.
        self.kube.nodes.set_resources(node.NAME, {ONLOAD: None})
        self.addCleanup(
            self.kube.nodes.set_resources, node.NAME, {ONLOAD: "4"}
        )
        controllers = self.machine.controllers(
            "daemonset-controller", "garbage-collector-controller"
        )
        controllers.start(self.kube.place)
        self.addCleanup(controllers.stop, self.kube.place)
        self.addCleanup(plugin.stop)
        self.addCleanup(
            self.kube.apply,
            profiles.config_map({"latency": ENVIRONMENT}, ONLOAD),
        )

        def shell(script: str) -> tuple[int, str]:
            for page, bed in instead.items():
                script = script.replace(page, bed)
            done = subprocess.run(
                ("sh", "-c", script),
                cwd=place,
                env={**environment, "KUBECONFIG": str(self.kube.kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=300,
            )
            print(f"$ {script}\n{done.stdout}", flush=True)
            # The images of the DaemonSet are not to be had: this stands in.
            if "onload-plugin/daemonset.yaml" in script:
                (plugin.stop if " delete " in script else plugin.start)()
            return done.returncode, _UNAPPLIED.sub("", done.stdout)

        walk.run(self, walk.PAGES / "onload.rst", shell)

    def test_a_pod_answers_over_its_macvlan_and_is_measured(self) -> None:
        given = self.pod(
            "netperf",
            annotations={"k8s.v1.cni.cncf.io/networks": "onload-network"},
            nodeSelector={CARD: "true"},
        )
        self.assertEqual([], self.explain(given))
        self.create(given)
        found = self.wait_until_running("netperf")
        (attached,) = [
            each
            for each in json.loads(
                found.metadata.annotations["k8s.v1.cni.cncf.io/network-status"]
            )
            if each.get("interface") == "net1"
        ]
        (address,) = attached["ips"]
        self.assertTrue(address.startswith("172.20.10."))
        print(f"net1 of the pod has {address}")
        pinged = subprocess.run(
            ("ip", "netns", "exec", "far", "ping", "-c2", "-W2", address),
            capture_output=True,
            text=True,
            check=False,
        )
        print(pinged.stdout)
        self.assertEqual(0, pinged.returncode, pinged.stdout)
        measured = subprocess.run(
            (
                *(sys.executable, "-m", "sriov_rt.cmd.main", "verify"),
                *("network", "--to", node.FAR_ADDRESS, "--name", "macvlan"),
                *("--namespace", f"pid:{self.pid('netperf')}"),
                *("--server-namespace", "far", "--duration", "2s"),
                *("--streams", "1", "--streams", "36"),
                *("--output", str(self.machine.onload.parent / "results")),
            ),
            cwd=paths.CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        print(measured.stdout, measured.stderr)
        self.assertIn(measured.returncode, (0, 1), measured.stderr)
        self.assertIn("macvlan", measured.stdout)

    def test_the_stand_in_for_onload_is_preloaded_by_the_policy(self) -> None:
        mount = {
            "name": "onload",
            "hostPath": {"path": str(self.machine.onload)},
        }
        given = self.pod(
            "accelerated",
            annotations=REQUESTS,
            nodeSelector={CARD: "true"},
            volumes=[mount],
            container={
                "command": ["/bin/sockets"],
                "volumeMounts": [{"name": "onload", "mountPath": INSIDE}],
            },
        )
        self.create(given)
        wait_for(
            "it has ended",
            lambda: (
                self.read("accelerated").status.phase
                in ("Succeeded", "Failed")
            ),
            timeout=120,
        )
        said = self.log("accelerated")
        print(said)
        self.assertIn(f"LD_PRELOAD={INSIDE}/libonload.so", said)
        self.assertIn("EF_POLL_USEC=100000", said)
        self.assertIn("stand-in for libonload.so: 3 socket calls", said)
        self.assertIn("stand-in", standin.SONAME)

    def log(self, name: str) -> str:
        uid = self.read(name).metadata.uid
        (path,) = pathlib.Path("/var/log/pods").glob(f"*{uid}/c/*.log")
        return path.read_text()

    def test_a_second_accelerated_pod_of_the_network_stays_pending(
        self,
    ) -> None:
        for name in ("first", "second"):
            self.create(self.pod(name, annotations=REQUESTS))
            if name == "first":
                self.wait_until_running(name)
        said = self.pending("second")
        print(said)
        self.assertIn("anti-affinity", said)
        second = self.kube.core.read_namespaced_pod(
            "second", "default", _preload_content=False
        )
        self.assertEqual(["pod_spread"], self.explain(json.loads(second.data)))
        done = subprocess.run(
            (
                *(sys.executable, "-m", "sriov_rt.cmd.main", "pod"),
                *("explain", "second", "--kubeconfig"),
                str(self.kube.kubeconfig),
            ),
            cwd=paths.CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout, done.stderr)
        self.assertEqual(1, done.returncode)
        self.assertIn("default/first", done.stdout)

    def test_what_the_scheduler_finds_pod_explain_finds_or_quotes(
        self,
    ) -> None:
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        term = {
            "matchExpressions": [
                {"key": CARD, "operator": "NotIn", "values": ["true"]}
            ]
        }
        affinity = {"nodeAffinity": {key: {"nodeSelectorTerms": [term]}}}
        terms: list[dict[str, Any]] = [{}]
        empty = {"nodeAffinity": {key: {"nodeSelectorTerms": terms}}}
        unmatched = "didn't match Pod's node affinity/selector"
        cases: dict[str, tuple[dict[str, Any], str, list[str]]] = {
            "label": (
                {"nodeSelector": {"absent": "true"}},
                unmatched,
                ["pod_label_missing"],
            ),
            "affinity": (
                {"affinity": affinity},
                unmatched,
                ["pod_label_differs"],
            ),
            "empty": ({"affinity": empty}, unmatched, ["pod_term_empty"]),
            # Its rules are not ours: what it says is quoted.
            "cpu": (
                {"container": {"resources": {"requests": {"cpu": "64"}}}},
                "Insufficient cpu",
                [],
            ),
            "device": (
                {"container": {"resources": {"limits": {"x.com/vf": "1"}}}},
                "Insufficient x.com/vf",
                [],
            ),
        }
        for name, (more, said, codes) in cases.items():
            given = self.pod(name, **more)
            with self.subTest(name):
                self.create(given)
                found = self.pending(name)
                print(f"{name}: {found}")
                self.assertIn(said, found)
                self.assertEqual(codes, self.explain(given))
                self.assertIn(said, self.quoted(name))
        self.kube.core.patch_node(
            node.NAME,
            {"spec": {"taints": [{"key": "rt", "effect": "NoSchedule"}]}},
        )
        self.addCleanup(
            self.kube.core.patch_node, node.NAME, {"spec": {"taints": None}}
        )
        self.create(self.pod("tainted"))
        self.pending("tainted")
        self.assertIn("untolerated taint", self.quoted("tainted"))

    def quoted(self, name: str) -> str:
        """Return the line that pod explain has above its table."""
        done = subprocess.run(
            (
                *(sys.executable, "-m", "sriov_rt.cmd.main", "pod"),
                *("explain", name, "--kubeconfig"),
                str(self.kube.kubeconfig),
            ),
            cwd=paths.CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout, done.stderr)
        self.assertEqual(1, done.returncode, done.stderr)
        return done.stdout.splitlines()[0]

    def test_kata_up_to_the_call_of_its_runtime(self) -> None:
        self.kube.nodes.label(node.NAME, {KATA: "true"})
        self.addCleanup(self.kube.nodes.label, node.NAME, {KATA: None})
        limits = {"cpu": "1", "memory": "64Mi"}
        annotations = {
            "io.katacontainers.config.hypervisor.kernel": "/tmp/evil",
            "k8s.v1.cni.cncf.io/networks": "onload-network",
        }
        self.create(
            self.pod(
                "sandboxed",
                annotations=annotations,
                runtimeClassName="kata-rt",
                container={"resources": {"limits": limits}},
            )
        )
        found = self.wait_until_running("sandboxed")
        self.assertEqual(
            {"cpu": "250m", "memory": "320Mi"}, found.spec.overhead
        )
        recorded = [
            json.loads(path.read_text())
            for path in self.machine.specifications.glob("*.json")
        ]
        kinds = {
            each["annotations"]["io.kubernetes.cri.container-type"]: each
            for each in recorded
            # A pod of another case may have been given to it as well.
            if each["annotations"]["io.kubernetes.cri.sandbox-name"]
            == "sandboxed"
        }
        sandbox, container = kinds["sandbox"], kinds["container"]
        print(
            "a stand-in for Kata's shim was given: "
            f"cpu {container['linux']['resources']['cpu']}, annotations "
            f"{sorted(sandbox['annotations'])}"
        )
        cpu = container["linux"]["resources"]["cpu"]
        # A whole CPU of its own, which no quota throttles.
        self.assertTrue(cpu["cpus"].isdigit(), cpu)
        self.assertEqual(1024, cpu["shares"])
        self.assertFalse(
            [
                each
                for each in container["process"]["env"]
                if each.startswith(("LD_PRELOAD=", "EF_"))
            ]
        )
        # It reaches Kata, which takes those of enable_annotations: none.
        self.assertIn(
            "io.katacontainers.config.hypervisor.kernel",
            sandbox["annotations"],
        )

    def configure_vfs(self) -> pathlib.Path:
        """Let a node's own script write its files, for a VF of its port.

        Returns the directory that stands for the node's root. The interface
        with the port's MAC is the cable's; that it is a VF is made up.
        """
        root = self.machine.onload.parent / "root"
        shown = subprocess.run(
            ("ip", "-json", "link", "show", "dev", node.PARENT),
            check=True,
            stdout=subprocess.PIPE,
        )
        mac = json.loads(shown.stdout)[0]["address"]
        port = {
            "networks": [{"link": "l0", "network_id": "n0"}],
            "links": [{"id": "l0", "ethernet_mac_address": mac}],
        }
        link = root / "sys/class/net" / node.PARENT
        function = root / "sys/devices/pci0000:5d" / VF
        for each in (link, function, root / "bin", root / "etc/sriov-rt"):
            each.mkdir(parents=True)
        (link / "address").write_text(f"{mac}\n")
        (link / "device").symlink_to(function)
        program = root / "bin" / "cloud-init"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(port)}'\n")
        program.chmod(0o755)
        (root / "etc/sriov-rt/pod-networks.json").write_text(
            json.dumps(
                {
                    "kind": "vf",
                    "mode": None,
                    "pods": 110,
                    "networks": [
                        {
                            "name": "fast0-vf",
                            "id": "n0",
                            "subnet": "172.21.0.0/16",
                            "resource": "fast0",
                        }
                    ],
                }
            )
        )
        address = ("ip", "address", "add", "10.77.100.5/24")
        subprocess.run((*address, "dev", node.PARENT), check=True)
        subprocess.run(
            (sys.executable, node_networks.__file__),
            check=True,
            env={
                **os.environ,
                "PATH": f"{program.parent}:{os.environ['PATH']}",
                "SRIOV_RT_ROOT": str(root),
            },
        )
        return root

    def test_a_vf_is_allocated_to_a_sandbox_and_named_to_the_plug_in(
        self,
    ) -> None:
        root = self.configure_vfs()
        nodes = root / "dev/vfio"
        nodes.mkdir(parents=True)
        for name in ("vfio", "17"):
            os.mknod(nodes / name, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        configuration = root / "etc/pcidp/config.json"
        plugin = device_plugin.VfPlugin(configuration, {VF: 17}, nodes)
        self.addCleanup(plugin.stop)
        plugin.start()
        resource = f"{DOMAIN}/fast0"
        wait_for(
            f"the kubelet announces {resource}",
            lambda: (
                self.kube.core.read_node(node.NAME).status.allocatable.get(
                    resource
                )
                == "1"
            ),
            timeout=60,
        )
        self.kube.nodes.label(node.NAME, {KATA: "true"})
        self.addCleanup(self.kube.nodes.label, node.NAME, {KATA: None})
        limits = {"cpu": "1", "memory": "64Mi", resource: "1"}
        self.create(
            self.pod(
                "with-vf",
                runtimeClassName="kata-rt",
                container={"resources": {"limits": limits}},
            )
        )
        self.wait_until_running("with-vf")
        found = self.specification("with-vf")
        devices = {each["path"] for each in found["linux"]["devices"]}
        print(f"a stand-in for Kata's shim was given: {sorted(devices)}")
        self.assertLessEqual({"/dev/vfio/vfio", "/dev/vfio/17"}, devices)
        self.assertIn(
            VF,
            [
                each.partition("=")[2]
                for each in found["process"]["env"]
                if each.startswith("PCIDEVICE_")
            ],
        )
        self.delete("with-vf")
        # Multus gives the plug-in the VF that the kubelet has allocated. No
        # VF of that address is on this machine.
        self.add_network(
            "fast0-vf",
            {
                "cniVersion": "1.0.0",
                "name": "fast0-vf",
                "plugins": [{"type": "sriov-rt-vf"}, {"type": "host-device"}],
            },
            **{"k8s.v1.cni.cncf.io/resourceName": resource},
        )
        self.create(
            self.pod(
                "attached",
                annotations={"k8s.v1.cni.cncf.io/networks": "fast0-vf"},
                container={"resources": {"limits": {resource: "1"}}},
            )
        )
        said = self.said_of("attached", "sriov-rt-vf")
        print(said[:600])
        self.assertIn(VF, said)

    def specification(self, name: str) -> Any:
        """Return the OCI specification of a pod's container, as recorded."""
        for path in self.machine.specifications.glob("*.json"):
            found = json.loads(path.read_text())
            of = {
                each.rpartition(".")[2]: value
                for each, value in found["annotations"].items()
            }
            if (of["sandbox-name"], of["container-type"]) == (
                name,
                "container",
            ):
                return found
        raise AssertionError(f"no specification of {name}")

    def said_of(self, name: str, word: str) -> str:
        """Return events of a pod with a word, once there are some."""

        def said() -> str:
            found = self.kube.core.list_namespaced_event(
                "default", field_selector=f"involvedObject.name={name}"
            )
            return " ".join(
                each.message
                for each in found.items
                if word in (each.message or "")
            )

        wait_for(f"it is said why {name} does not start", said, timeout=60)
        return said()

    def test_the_plug_in_is_called_by_multus_and_its_sentence_is_told(
        self,
    ) -> None:
        # No VF is here that could be allocated: Multus has no deviceID.
        self.kube.nodes.set_resources(node.NAME, {"intel.com/fast": "1"})
        self.addCleanup(
            self.kube.nodes.set_resources, node.NAME, {"intel.com/fast": None}
        )
        self.add_network(
            "vfs",
            {
                "cniVersion": "1.0.0",
                "name": "vfs",
                "plugins": [{"type": "sriov-rt-vf"}, {"type": "host-device"}],
            },
            **{"k8s.v1.cni.cncf.io/resourceName": "intel.com/fast"},
        )
        given = self.pod(
            "vf",
            annotations={"k8s.v1.cni.cncf.io/networks": "vfs"},
            container={"resources": {"limits": {"intel.com/fast": "1"}}},
        )
        self.create(given)
        said = self.said_of("vf", "sriov-rt-vf")
        print(said[:600])
        self.assertIn("network vfs has no deviceID", said)

    def test_a_handler_that_the_node_lacks_is_named(self) -> None:
        NodeV1Api(self.kube.admin()).create_runtime_class(
            {"metadata": {"name": "kata-none"}, "handler": "kata-none"}
        )

        def created() -> bool:
            try:
                self.create(self.pod("none", runtimeClassName="kata-none"))
            except ApiException as error:
                if "not found" not in str(error.body):
                    raise
                return False
            return True

        wait_for("the class is known", created, timeout=30)

        said = self.said_of("none", "runtime")
        print(said[:300])
        self.assertIn('no runtime for "kata-none" is configured', said)

    def test_kata_with_onload_is_refused(self) -> None:
        with self.assertRaises(ApiException) as caught:
            self.create(
                self.pod(
                    "both", annotations=REQUESTS, runtimeClassName="kata-rt"
                )
            )
        said = json.loads(caught.exception.body)["message"]
        print(said)
        self.assertIn("have a kernel of their own", said)

    def start_queue(self) -> None:
        """Start a RabbitMQ in the node's network."""
        place = self.kube.place
        sh(
            "ip",
            "addr",
            "add",
            f"{network.CONTROLLER_ADDRESS}/32",
            "dev",
            "lo",
        )
        infrastructure.configure_rabbitmq(place)
        environment = {"PATH": os.environ["PATH"], "HOME": str(place.data)}
        queue = infrastructure.rabbitmq(place, environment)
        queue.start(place)
        self.addCleanup(queue.stop, place)
        queue.wait(place)

    def agent_pod(self) -> dict[str, Any]:
        """Return the pod that the controller of DaemonSets would make here."""
        secret, daemon_set = yaml.safe_load_all(MANIFESTS.read_text())
        secret["stringData"] = {"sriov-rt.conf": CONFIGURATION}
        template = daemon_set["spec"]["template"]
        spec = template["spec"]
        for each in (*spec["initContainers"], *spec["containers"]):
            each["image"] = agent_image.NAME
            each["imagePullPolicy"] = "Never"
        self.kube.apply(secret, daemon_set)
        ((label, value),) = spec["nodeSelector"].items()
        self.kube.core.patch_node(
            node.NAME, {"metadata": {"labels": {label: value}}}
        )
        template["metadata"]["name"] = "agent"
        return typing.cast(dict[str, Any], template)

    def test_the_agent_of_the_manifests_finds_what_root_does(self) -> None:
        """As a user with two capabilities, of the host and of all of it."""
        self.machine.load(pathlib.Path(os.environ[node.AGENT_ARCHIVE]))
        self.start_queue()
        self.sriov_rt(
            *("vif", "plug", "--port", PORT, "--owner", "guest"),
            *("--kind", "macvlan", "--parent", node.PARENT),
            *("--namespace", "far", "--onload", NEUTRON_NETWORK),
        )
        self.addCleanup(self.sriov_rt, "vif", "unplug", PORT)
        core = self.kube.core
        core.create_namespaced_pod("sriov-rt", self.agent_pod())
        try:
            wait_for(
                "the agent runs",
                lambda: (
                    core.read_namespaced_pod("agent", "sriov-rt").status.phase
                    == "Running"
                ),
                timeout=180,
            )
            shown = self.sriov_rt(
                *("agent", "show", node.NAME, "--wait", "60"),
                *("--transport-url", QUEUE),
            )
        finally:
            core.delete_namespaced_pod("agent", "sriov-rt")
            wait_for(
                "the agent has stopped",
                lambda: not core.list_namespaced_pod("sriov-rt").items,
                timeout=60,
            )
        found = shown["facts"]
        print(json.dumps(found, indent=1))
        (endpoint,) = found["vifs"]["endpoints"]
        self.assertEqual(PORT, endpoint["port"])
        own = self.sriov_rt("host", "show")
        self.maxDiff = None
        self.assertEqual(
            {name: own[name] for name in own.keys() - CHANGES},
            {name: found[name] for name in own.keys() - CHANGES},
        )

    def sriov_rt(self, *words: str) -> Any:
        """Return what a command of ours says as JSON."""
        done = subprocess.run(
            (sys.executable, "-m", "sriov_rt.cmd.main", *words, "--json"),
            cwd=paths.CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)
