# SPDX-License-Identifier: Apache-2.0

"""The image of a worker, and user data of a nodegroup that it takes.

kubeadm and cloud-init judge what they are given; then a machine boots it.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from sriov_rt.magnum import nodegroup
from tests import periodic
from tests.testbed import debian_tree
from tests.testbed import packages
from tests.testbed.kube import programs
from tests.testbed.kube.node_programs import NodePrograms
from tests.testbed.kube.worker import image
from tests.testbed.kube.worker import user_data
from tests.testbed.paths import CHECKOUT
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress
from tests.testbed.waiting import run

#: Debian packages that its machine and its config drive need.
PACKAGES = ("genisoimage", "qemu-system-x86")

#: That a boot on two busy cores may take, with what follows it.
_SECONDS = 1500

#: One vCPU for the kubelet and the like, one for a realtime pod.
FLAVOR = nodegroup.Flavor(
    "rt.node",
    2,
    2048,
    {
        "hw:cpu_policy": "dedicated",
        "hw:cpu_realtime": "yes",
        "hw:cpu_realtime_mask": "^0",
        "sriov_rt:realtime": "required",
    },
)
#: How a node finds its cluster; nobody has this token.
DISCOVERY = {
    "bootstrapToken": {
        "token": f"{'a' * 6}.{'b' * 16}",
        "apiServerEndpoint": "192.0.2.1:6443",
        "caCertHashes": [f"sha256:{'c' * 64}"],
    }
}


@periodic.periodic
class WorkerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Paths.from_environment()
        self.place.make()
        self.files = image.prepare(self.place, Progress())
        self.scratch = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        rendered = nodegroup.render(
            nodegroup.Nodegroup("realtime", "realtime", {}),
            FLAVOR,
            nodegroup.Settings(),
            dict,
        )
        self.text = user_data.render(rendered.values, DISCOVERY, "worker-0")

    def test_kubeadm_takes_the_arguments_of_the_kubelet(self) -> None:
        _, _, body = self.text.partition("\n")
        join = json.loads(body)["write_files"][-1]["content"]
        self.validate(join)
        found = json.loads(join)["nodeRegistration"]
        arguments = {
            each["name"]: each["value"] for each in found["kubeletExtraArgs"]
        }
        self.assertEqual("0", arguments["reserved-cpus"])
        self.assertEqual("static", arguments["cpu-manager-policy"])
        with self.assertRaises(subprocess.CalledProcessError):
            self.validate(join.replace("kubeletExtraArgs", "kubeletArgs"))

    def validate(self, join: str) -> None:
        file = self.scratch / "join.json"
        file.write_text(join)
        kubeadm = NodePrograms(self.place.cache).program("kubeadm")
        subprocess.run(
            (str(kubeadm), "config", "validate", "--config", str(file)),
            check=True,
            capture_output=True,
            timeout=120,
        )

    def test_cloud_init_takes_the_user_data(self) -> None:
        tree = debian_tree.make(
            image.SUITE, image.PACKAGES, self.place.log / "worker.log"
        )
        root = self.scratch / "root"
        debian_tree.copy(tree, root)
        for text, expected in (
            (self.text, 0),
            (self.text.replace('"write_files": [', '"write_files": [1,'), 1),
        ):
            (root / "user-data").write_text(text)
            done = subprocess.run(
                ("chroot", root, "cloud-init", "schema", "-c", "/user-data"),
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            self.assertEqual(expected, done.returncode, done.stderr)

    def test_the_disk_has_what_a_node_needs(self) -> None:
        run(("e2fsck", "-fn", str(self.files.disk)), timeout=300)
        for path in (
            *("usr/bin/kubelet", "usr/bin/kubeadm", "usr/bin/containerd"),
            "usr/share/worker-images/pause.tar",
            "etc/systemd/system/multi-user.target.wants/kubelet.service",
        ):
            with self.subTest(path):
                found = run(
                    ("debugfs", "-R", f"stat /{path}", str(self.files.disk)),
                    timeout=60,
                )
                self.assertIn("Inode:", found)


@periodic.periodic
class BootTest(unittest.TestCase):
    """The case runs in namespaces, which end all that it starts."""

    def test_a_machine_boots_it(self) -> None:
        found = Paths.from_environment()
        place = Paths(found.cache, found.state / "worker")
        place.make()
        packages.install(PACKAGES, place.log / "apt.log")
        programs.Programs.in_cache(place.cache).prepare(place.log, Progress())
        image.prepare(place, Progress())
        done = subprocess.run(
            (
                *("unshare", "-n", "-m", "-p", "-f", "--kill-child"),
                *("--mount-proc", sys.executable, "-m", "unittest", "-v"),
                "tests.kubernetes.cases.worker",
            ),
            cwd=CHECKOUT,
            env={**os.environ, "SRIOV_RT_STATE": str(place.state)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        print(done.stdout)
        self.assertEqual(0, done.returncode, done.stdout)
