# SPDX-License-Identifier: Apache-2.0

"""What is observed of this machine is what other interfaces say of it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.host import compute
from sriov_rt.host import vfio
from sriov_rt.host.root import Root
from tests.unit.host import trees

#: The user that owns nothing, on every Linux distribution.
NOBODY = 65534


def run(*words):
    """Run the installed command on this machine."""
    return subprocess.run(
        [sys.executable, "-m", "sriov_rt.cmd.main", "host", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class ThisHostTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = run("show", "--json")
        assert done.returncode == 0, done.stderr
        cls.host = facts.from_json(done.stdout)

    def test_cpus(self):
        cpus = self.host.cpus
        self.assertEqual(os.cpu_count(), len(cpus.online))
        self.assertLessEqual(os.sched_getaffinity(0), cpus.online)
        self.assertEqual(
            cpus.online, frozenset().union(*cpus.siblings) & cpus.online
        )
        self.assertLessEqual(
            cpus.online, frozenset().union(*(n.cpus for n in cpus.numa))
        )

    def test_kernel(self):
        kernel, system = self.host.kernel, os.uname()
        self.assertEqual(system.release, kernel.release)
        self.assertEqual("PREEMPT_RT" in system.version, kernel.preempt_rt)
        for name, value in (
            ("sched_rt_runtime_us", kernel.rt_runtime_us),
            ("sched_rt_period_us", kernel.rt_period_us),
        ):
            done = subprocess.run(
                ["sysctl", "-n", f"kernel.{name}"],
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertEqual(int(done.stdout), value)

    def test_labels(self):
        prefix = "feature.node.kubernetes.io/kernel-version"
        self.assertEqual(
            os.uname().release, self.host.labels.values[f"{prefix}.full"]
        )

    def test_interrupts_in_use_are_all_there(self):
        text = pathlib.Path("/proc/interrupts").read_text()
        in_use = set(map(int, re.findall(r"^ *([0-9]+):", text, re.M)))
        found = {n for group in self.host.irqs.groups for n in group.irqs}
        self.assertLessEqual(in_use, found)

    def test_hugepages_add_up(self):
        text = pathlib.Path("/proc/meminfo").read_text()
        total = re.search(r"^HugePages_Total: +([0-9]+)$", text, re.M)
        size = re.search(r"^Hugepagesize: +([0-9]+) kB$", text, re.M)
        if total is None or size is None:
            self.assertEqual((), self.host.memory.hugepages)
            return
        self.assertEqual(
            int(total[1]),
            sum(
                pool.total
                for pool in self.host.memory.hugepages
                if pool.size_kib == int(size[1])
            ),
        )

    def test_nics_are_interfaces(self):
        done = subprocess.run(
            ["ip", "-json", "link"], capture_output=True, check=True
        )
        macs = {
            link["ifname"]: link.get("address")
            for link in json.loads(done.stdout)
        }
        for nic in self.host.nics.nics:
            with self.subTest(nic.name):
                self.assertEqual(macs[nic.name], nic.mac)

    def test_kvm(self):
        self.assertEqual(pathlib.Path("/dev/kvm").exists(), self.host.virt.kvm)

    def test_check_agrees_with_its_exit_code(self):
        for mode in ("container-vf", "passthrough", "macvlan"):
            done = run("check", "--json", "--mode", mode)
            verdict = json.loads(done.stdout)
            with self.subTest(mode):
                self.assertEqual(done.returncode == 0, verdict["passes"])
                self.assertEqual("", done.stderr)


class HolderTest(unittest.TestCase):
    def test_process_is_found_by_the_file_that_it_holds(self):
        # A file of our own stands for a VFIO group, which takes a device.
        with (
            tempfile.NamedTemporaryFile() as file,
            mock.patch.object(vfio, "VFIO", f"{tempfile.gettempdir()}/"),
        ):
            name = pathlib.Path(file.name).name
            found = vfio.Holders(Root()).of("sys/none", name)
        self.assertEqual(f"pid {os.getpid()}", " ".join(found.split()[:2]))


@unittest.skipIf(os.geteuid(), "needs root, to become another user")
class OtherUserTest(trees.TreeTest):
    def test_file_that_may_not_be_read_is_unknown(self):
        self.tree.path.chmod(0o755)
        (self.tree.path / "etc/nova/nova.conf").chmod(0o600)
        os.seteuid(NOBODY)
        try:
            found = compute.observe(self.root)
        finally:
            os.seteuid(0)
        self.assertEqual(
            Unknown("/etc/nova/nova.conf: Permission denied"), found.dedicated
        )
