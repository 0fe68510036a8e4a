# SPDX-License-Identifier: Apache-2.0

"""A machine whose kernel hangs is started again."""

import contextlib
import itertools
import os
import pathlib
import socket
import tempfile
import unittest
from collections.abc import Iterator
from unittest import mock

from tests import again
from tests.cloud import logs
from tests.testbed import errors
from tests.testbed.paths import Paths
from tests.testbed.rtvm import Job
from tests.testbed.rtvm import RtVm
from tests.testbed.rtvm import channel
from tests.testbed.rtvm import processes
from tests.testbed.rtvm.commands import PORT
from tests.testbed.rtvm.commands import Files
from tests.testbed.rtvm.processes import Processes
from tests.vm import __main__ as runner
from tests.vm import base

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
        mock.patch.object(processes, "_LOOK_SECONDS", 0.0).start()
        mock.patch.object(processes, "SILENT_SECONDS", 0.0).start()
        self.wanted = mock.PropertyMock(side_effect=itertools.count(0, 60))
        mock.patch.object(Processes, "wanted", self.wanted).start()
        mock.patch.object(self.vm, "start", self._start).start()
        mock.patch.object(self.vm, "stop").start()
        self.said: list[str] = []
        self.warned: list[str] = []

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
        self.assertEqual(
            self.said[0],
            "rt-1 hangs: its kernel misses a timer; it is started again",
        )
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

    def test_silent_machine_whose_cpus_are_idle_is_started_again(self) -> None:
        """From its first second on, or after a stage."""
        for progress in ("", "1.5 kernel\n"):
            with self.subTest(progress):
                self._shows("booting", progress)
                self.starts = 0
                self.wanted.side_effect = itertools.repeat(1.0)
                self.vm.wait_ready(
                    self.said.append, timeout=1, warn=self.warned.append
                )
                self.assertEqual(self.starts, 1)
                self.assertEqual(
                    self.warned.pop(),
                    "rt-1 hangs: no word for 0 s, in which QEMU wanted a CPU "
                    "for 0.0 s; it is started again",
                )

    def test_machine_that_hangs_each_time_is_given_up(self) -> None:
        """And the sentence is not that it has ended."""
        self._shows("", "")
        self.wanted.side_effect = itertools.repeat(1.0)
        with (
            mock.patch.object(self.vm, "start"),
            self.assertRaisesRegex(errors.MachineHangs, "rt-1 hangs"),
        ):
            self.vm.wait_ready(timeout=1)

    def test_silent_machine_that_is_not_seen_is_left_alone(self) -> None:
        """From another pid namespace."""
        self._shows("", "1.5 kernel\n")
        self.wanted.side_effect = itertools.repeat(None)
        with self.assertRaisesRegex(
            errors.TimedOut, "waited 0 s in vain until rt-1 is ready"
        ):
            self.vm.wait_ready(timeout=0)
        self.assertEqual(self.starts, 0)

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

    @contextlib.contextmanager
    def _agent(self) -> Iterator[pathlib.Path]:
        """Take connections, and give no answer; yield where they go."""
        self._shows("", "1.5 kernel\n9.0 ready\n")
        files = Files(self.directory)
        files.exec.mkdir()
        with socket.socket(socket.AF_UNIX) as agent:
            agent.bind(str(files.socket(PORT)))
            agent.listen()
            yield files.exec

    def test_command_of_one_that_hangs_is_given_up(self) -> None:
        """Long before it would have taken too long."""

        def running(_: Processes) -> bool:
            self.vm.console.write_text(f"{HANGS}\n{HANGS}\n")
            return True

        with (
            self._agent(),
            mock.patch.object(Processes, "running", property(running)),
            self.assertRaises(errors.MachineHangs),
        ):
            self.vm.run(("true",))

    def test_one_that_takes_no_command_and_is_idle_hangs(self) -> None:
        """As one does that has lost a timer without a word."""
        self.wanted.side_effect = itertools.repeat(1.0)
        with self._agent():
            with self.assertRaises(errors.MachineHangs):
                self.vm.check()
            # And that a job on it still runs is not said.
            with self.assertRaises(errors.MachineHangs):
                self.vm.status(Job("request-1", 1))

    def test_one_that_takes_no_command_and_is_busy_is_slow(self) -> None:
        with (
            self._agent(),
            mock.patch.object(channel, "ANSWER_SECONDS", 0.5),
            self.assertRaisesRegex(
                errors.TimedOut, "in vain until the agent in the machine takes"
            ),
        ):
            self.vm.check()


class AgainTest(unittest.TestCase):
    """What hung is run again, and may not hang then."""

    SKIPPED = (
        "{0} setUpClass (tests.vm.test_vf.VfTest) ... SKIPPED: rt-1 hangs: "
        f"QEMU has lost the timer of a CPU; {again.REPEATED}"
    )

    def _run(self, lines: tuple[str, ...]) -> tuple[int, list[mock._Call]]:
        with mock.patch.object(
            again, "_run", side_effect=((1, lines), (3, ()))
        ) as run:
            return runner.main("/repository", "--slowest"), run.mock_calls

    def test_classes_are_run_again(self) -> None:
        """And what the second run says counts."""
        code, calls = self._run(("{0} tests.vm.test_a ... ok", self.SKIPPED))
        self.assertEqual(code, 3)
        self.assertIn(again.VARIABLE, calls[0].args[1])
        (words, environment) = calls[1].args
        self.assertEqual(words[-1], r"^(tests\.vm\.test_vf\.VfTest)\.")
        self.assertNotIn(again.VARIABLE, environment)

    def test_nothing_is_without_that(self) -> None:
        """A skip for another reason is none."""
        code, calls = self._run(
            ("{0} tests.vm.test_vf.VfTest.test_a ... SKIPPED: periodic",)
        )
        self.assertEqual((code, len(calls)), (1, 1))

    def test_what_failed_for_another_reason_stays_failed(self) -> None:
        """Whatever the second run says."""
        lines = (self.SKIPPED, " - Failed: 1")
        with mock.patch.object(
            again, "_run", side_effect=((1, lines), (0, ()))
        ):
            self.assertEqual(runner.main("/repository"), 1)

    def test_one_that_hung_in_a_subtest_is_run_again(self) -> None:
        """Stestr has no result of it, and fails for that."""
        for name, expected in (("VfTest", 0), ("UseTest", 1)):
            lines = (self.SKIPPED, f"\t* tests.vm.test_vf.{name}.test_check")
            with (
                self.subTest(name),
                mock.patch.object(
                    again, "_run", side_effect=((1, lines), (0, ()))
                ) as run,
            ):
                self.assertEqual(runner.main("/repository"), expected)
                (words, _) = run.mock_calls[1].args
                self.assertIn("VfTest", words[-1])

    def test_a_test_of_a_cloud_that_fails_on_one_that_hangs(self) -> None:
        """It is skipped, and any other fails with what is noted."""

        class Failing(unittest.TestCase):
            def test_it(self) -> None:
                self.fail("no server")

        for why in (f"rt-1 hangs; {again.REPEATED}", ""):
            result = unittest.TestResult()
            noting = logs.NotingResult(result, lambda: "a note", why.strip)
            Failing("test_it").run(noting)  # type: ignore[arg-type]
            with self.subTest(why):
                self.assertEqual(
                    [why] if why else [], [text for _, text in result.skipped]
                )
                self.assertEqual(
                    [] if why else [True],
                    ["a note" in text for _, text in result.failures],
                )

    def test_a_test_is_skipped_once_alone(self) -> None:
        """In the second run it fails, and where there is none."""
        for variables, expected in (
            ({again.VARIABLE: "1"}, unittest.SkipTest),
            ({}, errors.MachineHangs),
        ):
            vm = base.SharedVm(Paths(*(pathlib.Path("/nowhere"),) * 2))
            vm.hangs = True
            with (
                self.subTest(variables),
                mock.patch.dict(os.environ, variables, clear=True),
            ):
                with self.assertRaises(expected):
                    vm.run(("true",))
                with self.assertRaises(expected):
                    vm.spawn(("true",), log=pathlib.Path("/nowhere"))
                with self.assertRaises(expected):
                    vm.kill(Job("job", 1))
