# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A machine whose kernel hangs is started again."""

import pathlib
import tempfile
import unittest
from unittest import mock

from tests.testbed import errors
from tests.testbed.paths import Paths
from tests.testbed.rtvm import RtVm
from tests.testbed.rtvm.processes import Processes

HANGS = "rcu: rcu_preempt kthread timer wakeup didn't happen for 5257 jiffies!"


class BootTest(unittest.TestCase):
    """What the console and the progress file say decides."""

    def setUp(self) -> None:
        """Have a machine whose processes are none."""
        super().setUp()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.vm = RtVm(Paths(*(pathlib.Path(scratch.name),) * 2))
        self.directory = self.vm.console.parent
        self.directory.mkdir(parents=True)
        self.starts = 0
        self.addCleanup(mock.patch.stopall)
        mock.patch.object(Processes, "running", True).start()
        mock.patch.object(self.vm, "start", self._start).start()
        mock.patch.object(self.vm, "stop").start()
        self.said: list[str] = []

    def _start(self) -> None:
        self.starts += 1
        self._shows("", "1.5 kernel\n9.0 ready\n")

    def _shows(self, console: str, progress: str) -> None:
        self.vm.console.write_text(console)
        (self.directory / "progress").write_text(progress)

    def test_hanging_kernel_is_started_again(self) -> None:
        """And the person at the keyboard is told."""
        self._shows(f"{HANGS}\n{HANGS}\n", "")
        self.vm.wait_ready(self.said.append, timeout=1)
        self.assertEqual(self.starts, 1)
        self.assertIn("hangs", self.said[0])
        self.assertEqual(self.said[-1], "rt-1 at 9.0 s: ready")

    def test_kernel_that_hangs_after_a_stage_is_started_again(self) -> None:
        """It can lose a timer at any moment."""
        self._shows("", "1.5 kernel\n")

        def say(text: str) -> None:
            self.said.append(text)
            if text.endswith(" kernel"):
                self._shows(f"{HANGS}\n{HANGS}\n", "1.5 kernel\n")

        self.vm.wait_ready(say, timeout=1)
        self.assertEqual(self.starts, 1)
        self.assertIn("hangs", self.said[1])

    def test_machine_that_ended_before_its_kernel_is_started_again(
        self,
    ) -> None:
        """QEMU fails an assertion of its own now and then."""
        self._shows("", "")
        ended = mock.patch.object(Processes, "running", False)
        ended.start()
        with mock.patch.object(self.vm, "stop", ended.stop):
            self.vm.wait_ready(self.said.append, timeout=1)
        self.assertEqual(self.starts, 1)
        self.assertIn("has ended", self.said[0])

    def test_machine_that_ends_again_and_again_is_given_up(self) -> None:
        """With its console."""
        self._shows("", "")
        with (
            mock.patch.object(Processes, "running", False),
            mock.patch.object(self.vm, "start"),
            self.assertRaises(errors.ProcessDied),
        ):
            self.vm.wait_ready(timeout=1)

    def test_slow_kernel_is_left_alone(self) -> None:
        """One complaint is no hang: a busy outer machine causes it too."""
        self._shows(f"{HANGS}\n", "")
        with self.assertRaises(errors.TimedOut):
            self.vm.wait_ready(timeout=0)
        self.assertEqual(self.starts, 0)

    def test_machine_that_came_up_is_left_alone(self) -> None:
        """A complaint of before doesn't count once there is a stage."""
        self._shows(f"{HANGS}\n{HANGS}\n", "1.5 kernel\n9.0 ready\n")
        self.vm.wait_ready(timeout=1)
        self.assertEqual(self.starts, 0)
        self._shows(f"{HANGS}\n{HANGS}\n", "1.5 kernel\n")
        with self.assertRaises(errors.TimedOut):
            self.vm.wait_ready(timeout=0)
        self.assertEqual(self.starts, 0)

    def test_failed_script_ends_the_wait(self) -> None:
        """The line that failed is in the error."""
        self._shows("", "1.5 kernel\n2.0 failed: ip link (services.sh)\n")
        with self.assertRaisesRegex(errors.TestbedError, "ip link"):
            self.vm.wait_ready(timeout=1)
