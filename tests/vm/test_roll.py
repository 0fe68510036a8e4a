# SPDX-License-Identifier: Apache-2.0

"""A host whose kernel is changed, as doc/source/admin/maintenance.rst has it.

Its disk is a directory that both kernels are given.
"""

import sys

from tests.periodic import periodic
from tests.testbed import latency
from tests.testbed import packages
from tests.testbed.progress import Progress
from tests.testbed.rtvm import Machine
from tests.testbed.rtvm import RtVm
from tests.vm import base
from tests.vm import test_verify

STATE = "/var/lib/sriov-rt-verify"


# Boots machines of its own.
@periodic
class RollTest(test_verify.MeasuredTestCase):
    """Debian's RT kernel, then that of its backports suite."""

    directory = "/tmp/roll"

    def _boot(self, *, backport: bool) -> None:
        """Have a small host with a kernel."""
        machine = Machine(
            name="rt-5",
            number=5,
            backport=backport,
            memory_mb=1024,
            hugepages=0,
            vfs=0,
            libvirt=False,
        )
        self.install()
        packages.install(RtVm.packages(), base.place().log / "apt-verify.log")
        type(self).vm = RtVm(base.place(), machine)
        self.vm.stop()
        self.addCleanup(self.vm.stop)
        self.vm.start()
        self.vm.wait_ready(Progress(sys.stderr).say)
        self.vm.run(("bash", "-c", latency.MOUNT_TRACEFS))

    def _shown(self, command: str) -> tuple[int, str]:
        """Return the exit code of a command, and put it on the screen."""
        result = self.bash(f"sriov-rt {command}")
        print(f"# sriov-rt {command}\n{result.text}", file=sys.stderr)
        return result.status, result.text

    def test_hold_measure_boot_compare_and_release(self) -> None:
        """One verdict on the new kernel, by the figures of the old one."""
        disk = base.place().state / "roll.tar"
        self._boot(backport=False)
        old = self.bash("uname -r").text.strip()
        certificate = self.earn()["certificate"]
        self.assertEqual(0, self.certificate()[0])
        status, _ = self._shown("host hold --why 'kernel 6.12'")
        self.assertEqual(0, status)
        self.bash(f"tar -C {STATE} -cf {disk} .")
        self.vm.stop()
        self._boot(backport=True)
        self.bash(f"mkdir -p {STATE}; tar -C {STATE} -xf {disk}")
        new = self.bash("uname -r").text.strip()
        self.assertNotEqual(old, new)
        # The hold outlives the boot, and the certificate does not.
        status, text = self._shown("host check -f value -c Code")
        self.assertEqual(1, status)
        self.assertIn("host_on_hold", text)
        status, shown = self.certificate()
        self.assertEqual((1, False), (status, shown["counts"]))
        self.assertIn(f"'{old}' to '{new}'", shown["why_not"])
        result = self.python(latency.SRIOV_RT, self.latency())
        self.assertIn(result.status, (0, 1), result.complaint)
        found = self.answer(self.bash(f"sriov-rt {self._compare()} --json"))
        self._shown(self._compare())
        code = {"no worse": 0, "worse": 1, "not enough samples": 3}
        self.assertIn(found["verdict"], code)
        status = self.bash(f"sriov-rt {self._compare()}").status
        self.assertEqual(code[found["verdict"]], status)
        self.assertTrue(found["emulated"])
        tools = {each["what"].partition(",")[0] for each in found["figures"]}
        self.assertLessEqual(tools, {"cyclictest", "oslat"})
        self.assertTrue(tools)
        self.assertLess(0, certificate["max_latency_us"])
        self.assertEqual(0, self._shown("host release")[0])
        status, text = self._shown("host check -f value -c Code")
        self.assertNotIn("host_on_hold", text)

    def _compare(self) -> str:
        return f"verify compare {self.directory}"
