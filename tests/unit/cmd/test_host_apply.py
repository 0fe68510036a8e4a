# SPDX-License-Identifier: Apache-2.0

import contextlib
import fcntl
import io
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from unittest import mock

from sriov_rt.cmd import faults
from sriov_rt.cmd import host
from sriov_rt.cmd import host_maintenance
from sriov_rt.cmd import main
from sriov_rt.facts import HostHold
from sriov_rt.tuning import apply
from sriov_rt.tuning import records
from tests.unit.cmd import interrupts
from tests.unit.host import trees
from tests.unit.tuning import fakes

UUID = "b3f2e1d0-1111-4222-8333-444455556666"


class HostApplyTestCase(trees.TreeTest):
    def setUp(self):
        super().setUp()
        fakes.make_ordinary(self.tree)
        fakes.debian(self.tree)
        wants = "etc/systemd/system/multi-user.target.wants"
        self.tree.write(f"{wants}/tuned.service", "")
        for where, name, value in (
            (host, "load_sources", lambda: trees.SOURCES),
            (apply, "Host", fakes.FakeHost),
        ):
            self.enterContext(mock.patch.object(where, name, value))
        self.before = fakes.snapshot(self.tree)
        self.said = io.StringIO()

    def run_command(self, *words, code=0) -> str:
        printed = io.StringIO()
        root = ("--root", str(self.tree.path))
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(self.said),
        ):
            found = main.main(["host", *words, *root])
        said = f"{printed.getvalue()}{self.said.getvalue()}"
        self.assertEqual(code, found, said)
        return printed.getvalue()

    def read(self, relative: str) -> str:
        return (self.tree.path / relative).read_text()

    def sleeping(self, meanwhile):
        """Do something in place of each pause."""
        return mock.patch.object(
            faults.Interrupt, "sleep", lambda *_: meanwhile()
        )

    def claim(self) -> None:
        path = f"run/sriov-rt/cpus/{UUID}.json"
        self.tree.write(path, '{"schema":1,"cpus":"2-3"}')
        (self.tree.path / path).parent.chmod(0o700)


class HostApplyTest(HostApplyTestCase):
    def test_a_dry_run_changes_nothing(self):
        printed = self.run_command("apply", "--dry-run")
        self.assertIn(f"planned: /{fakes.RUNTIME}: 950000 -> -1\n", printed)
        self.assertIn("planned: update-grub (next boot)\n", printed)
        self.assertIn("cannot be undone: pages that were split", printed)
        self.assertEqual(self.before, fakes.snapshot(self.tree))

    def test_applied_checked_and_undone(self):
        printed = self.run_command("apply")
        self.assertIn("done: update-grub (next boot)\n", printed)
        self.assertIn("boot owed: reboot this host", printed)
        self.assertIn("ksm/run: cannot be undone", self.said.getvalue())
        printed = self.run_command("apply")
        self.assertTrue(printed.startswith("boot owed"), printed)
        self.run_command("apply", "--undo")
        self.assertEqual(self.before, fakes.snapshot(self.tree))
        self.assertEqual(
            "nothing to do\n", self.run_command("apply", "--undo")
        )

    def test_a_check_knows_that_a_boot_is_owed(self):
        self.run_command("apply")
        verdict = json.loads(self.run_command("check", "--json", code=1))
        self.assertIn("cpus_not_isolated", verdict["boot_owed"])
        self.assertNotIn("rt_throttled", verdict["boot_owed"])
        shown = self.run_command("check", "-f", "value", code=1)
        self.assertIn("planned, and a boot is owed: reboot the host", shown)
        self.tree.write("proc/sys/kernel/random/boot_id", "boot-2\n")
        verdict = json.loads(self.run_command("check", "--json", code=1))
        self.assertEqual([], verdict["boot_owed"])

    def test_an_undo_after_the_boot_owes_one(self):
        self.run_command("apply")
        self.tree.write("proc/sys/kernel/random/boot_id", "boot-2\n")
        self.assertIn("boot owed", self.run_command("apply", "--undo"))

    def test_now_is_the_running_kernel_alone(self):
        self.run_command("apply", "--now")
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))
        self.assertFalse((self.tree.path / "etc/sysctl.d").exists())
        verdict = json.loads(self.run_command("check", "--json", code=1))
        self.assertEqual([], verdict["boot_owed"])

    def test_what_the_boot_lacks_is_nothing_to_do_by_hand_now(self):
        wants = "etc/systemd/system/multi-user.target.wants"
        self.tree.remove(f"{wants}/tuned.service")
        self.assertNotIn("by hand", self.run_command("apply", "--now"))
        printed = self.run_command("apply", "--persist", code=1)
        self.assertIn("by hand: tuned_disabled", printed)

    def test_a_host_on_hold(self):
        found = HostHold("alice", "kernel 6.12", 1_790_000_000.0)
        host_maintenance.write(self.tree.root, found)
        self.assertNotIn("by hand", self.run_command("apply"))
        self.run_command("check", code=1)

    def test_for_good_is_the_disk_alone(self):
        self.run_command("apply", "--persist")
        self.assertEqual("950000\n", self.read(fakes.RUNTIME))
        self.assertTrue((self.tree.path / "etc/sysctl.d").exists())
        self.run_command("apply", "--now")
        self.run_command("apply", "--undo", "--persist")
        self.assertFalse((self.tree.path / "etc/sysctl.d").exists())
        self.assertEqual("-1\n", self.read(fakes.RUNTIME))

    def test_a_guest_is_in_the_way(self):
        self.claim()
        printed = self.run_command("apply", "--json", code=1)
        found = {x["setting"]: x for x in json.loads(printed)["settings"]}
        waits = found[f"/{fakes.KSM}"]
        self.assertEqual(("waits", "now"), (waits["result"], waits["when"]))
        self.assertIn(UUID, waits["why"])
        self.assertEqual("done", found[f"/{fakes.RUNTIME}"]["result"])

    def test_it_waits_for_a_guest(self):
        self.claim()
        path = f"run/sriov-rt/cpus/{UUID}.json"
        with self.sleeping(lambda: self.tree.remove(path)):
            printed = self.run_command("apply", "--wait", "60")
        self.assertNotIn("waits", printed)
        self.assertIn(f"done: /{fakes.RUNTIME}", printed)
        self.assertIn(f"done: /{fakes.KSM}", printed)

    def test_another_command_meanwhile_does_not_end_the_wait(self):
        self.claim()
        path = f"run/sriov-rt/cpus/{UUID}.json"
        stack = contextlib.ExitStack()
        store = records.Records(self.tree.root)
        pauses = iter(
            (
                lambda: stack.enter_context(store.locked()),
                stack.close,
                lambda: self.tree.remove(path),
            )
        )
        with self.sleeping(lambda: next(pauses)()):
            printed = self.run_command("apply", "--wait", "60")
        self.assertIn(f"done: /{fakes.KSM}", printed)

    def test_an_undo_meanwhile_ends_the_wait(self):
        """What was undone on purpose is not applied by who waits still."""
        self.claim()
        path = f"run/sriov-rt/cpus/{UUID}.json"

        def meanwhile():
            self.tree.remove(path)
            self.run_command("apply", "--undo")

        with self.sleeping(meanwhile):
            printed = self.run_command("apply", "--wait", "60", code=1)
        self.assertNotIn("\ndone: ", printed)
        self.assertIn(f"changed: /{fakes.RUNTIME}: ", printed)
        self.assertIn("another command has undone it", printed)
        self.assertIn(f"waits: /{fakes.KSM}: ", printed)
        self.assertEqual(self.before, fakes.snapshot(self.tree))

    def test_what_is_applied_meanwhile_is_not_undone(self):
        self.run_command("apply", "--now")
        self.claim()
        path = f"run/sriov-rt/cpus/{UUID}.json"

        def meanwhile():
            self.tree.remove(path)
            self.run_command("apply", "--persist")

        with self.sleeping(meanwhile):
            self.run_command("apply", "--undo", "--wait", "60")
        self.assertEqual("950000\n", self.read(fakes.RUNTIME))
        self.assertTrue((self.tree.path / "etc/sysctl.d").exists())

    def test_a_boot_that_would_not_help_is_not_owed(self):
        """The command line could not be changed."""
        refused = apply.Refused("update-grub: no space left")
        with mock.patch.object(fakes.FakeHost, "run", side_effect=refused):
            self.run_command("apply", code=1)
        verdict = json.loads(self.run_command("check", "--json", code=1))
        self.assertNotIn("cpus_not_isolated", verdict["boot_owed"])

    def test_a_dry_run_of_an_undo_is_as_the_undo(self):
        self.run_command("apply")
        self.tree.write(fakes.RUNTIME, "900000\n")
        printed = self.run_command("apply", "--undo", "--dry-run", code=1)
        self.assertIn(f"changed: /{fakes.RUNTIME}", printed)
        words = ("apply", "--undo", "--force", "--dry-run")
        self.assertIn(f"planned: /{fakes.RUNTIME}", self.run_command(*words))

    def test_what_somebody_changed_takes_force(self):
        self.run_command("apply")
        self.tree.write(fakes.RUNTIME, "900000\n")
        printed = self.run_command("apply", "--undo", code=1)
        self.assertIn(f"changed: /{fakes.RUNTIME}", printed)
        self.run_command("apply", "--undo", "--force")
        self.assertEqual(self.before, fakes.snapshot(self.tree))

    def test_force_alone_is_an_error(self):
        self.run_command("apply", "--force", code=2)
        self.assertIn("it is for --undo", self.said.getvalue())

    def test_what_is_to_be_done_by_hand(self):
        self.tree.remove("boot/grub/grub.cfg")
        printed = self.run_command("apply", code=1)
        self.assertIn("by hand: command_line_by_hand: ", printed)
        verdict = json.loads(self.run_command("check", "--json", code=1))
        self.assertEqual([], verdict["boot_owed"])

    def test_a_host_without_a_core_for_guests(self):
        self.tree.write("sys/devices/system/cpu/online", "garbage\n")
        printed = self.run_command("apply", code=1)
        self.assertIn("by hand: fact_unknown", printed)
        self.assertFalse((self.tree.path / "etc/sysctl.d").exists())

    def test_a_check_knows_of_one_that_was_killed(self):
        with mock.patch.object(
            fakes.FakeHost, "run", side_effect=KeyboardInterrupt
        ):
            self.run_command("apply", code=130)
        self.assertIn("was killed", self.run_command("check", code=1))
        self.run_command("apply")
        self.assertNotIn("was killed", self.run_command("check", code=1))

    def test_a_damaged_record(self):
        self.run_command("apply")
        self.tree.write(f"{records.PLACE}/record.json", "{")
        self.run_command("apply", "--undo", code=2)
        self.assertIn("is damaged", self.said.getvalue())
        # It is no reason not to check.
        self.run_command("check", code=1)


class InterruptedTest(HostApplyTestCase):
    """Ctrl-C: a real SIGINT."""

    def setUp(self):
        super().setUp()
        interrupts.accept(self)

    def interrupted_at(self, number: int):
        """Send it while a setting of the kernel is written, from 1."""
        calls = iter(range(1, 1000))
        write = fakes.FakeHost.write

        def written(*args):
            if next(calls) == number:
                interrupts.send()
            return write(*args)

        return mock.patch.object(fakes.FakeHost, "write", written)

    def results(self, *words, code=130) -> dict[str, str]:
        printed = self.run_command("apply", *words, "--json", code=code)
        document = json.loads(printed)
        self.assertIs(code == 130, document["interrupted"])
        return {x["setting"]: x["result"] for x in document["settings"]}

    def test_what_was_begun_is_done_and_the_rest_is_named(self):
        planned = self.results("--dry-run", code=0)
        with self.interrupted_at(3):
            found = self.results()
        self.assertEqual(planned.keys(), found.keys())
        done = [x for x, result in found.items() if result == "done"]
        self.assertEqual(3, len(done))
        self.assertEqual({"done", "interrupted"}, {*found.values()})
        self.assertIn("interrupted; run it again", self.said.getvalue())
        self.assertIn("'sriov-rt host apply --undo'", self.said.getvalue())
        record = records.Records(self.tree.root).read()
        self.assertEqual(done, [each.path for each in record.entries])
        self.assertNotIn("was killed", self.run_command("check", code=1))
        self.assertEqual({"done"}, {*self.results(code=0).values()})
        self.run_command("apply", "--undo")
        self.assertEqual(self.before, fakes.snapshot(self.tree))

    def test_an_undo_goes_on_at_the_next_one(self):
        self.run_command("apply")
        with self.interrupted_at(2):
            found = self.results("--undo")
        self.assertEqual({"undone", "interrupted"}, {*found.values()})
        self.assertIn("--undo' goes on with it", self.said.getvalue())
        left = [x for x, result in found.items() if result == "interrupted"]
        record = records.Records(self.tree.root).read()
        self.assertEqual({*left}, {each.path for each in record.entries})
        self.assertEqual({*left}, {*self.results("--undo", code=0)})
        self.assertEqual(self.before, fakes.snapshot(self.tree))

    def test_the_wait_ends_at_once(self):
        self.claim()
        timer = threading.Timer(2.0, interrupts.send)
        timer.start()
        self.addCleanup(timer.join)
        began = time.monotonic()
        found = self.results("--wait", "600")
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual({"done", "waits"}, {*found.values()})

    def test_a_second_one_ends_a_change_that_goes_on(self):
        def run(*_args):
            interrupts.send()
            interrupts.send()
            self.fail("it was not ended")

        with mock.patch.object(fakes.FakeHost, "run", run):
            found = self.results()
        self.assertEqual({"done"}, {*found.values()})
        self.assertNotIn("update-grub", found)
        self.assertIn("was killed", self.run_command("check", code=1))
        self.run_command("apply", "--undo")
        self.assertEqual(self.before, fakes.snapshot(self.tree))

    def test_a_handler_is_as_before(self):
        before = signal.getsignal(signal.SIGINT)
        with self.interrupted_at(1):
            self.results()
        self.assertIs(before, signal.getsignal(signal.SIGINT))


class TerminalTest(HostApplyTestCase):
    """The command itself, at a terminal that sends Ctrl-C."""

    def test_it_prints_what_was_done_and_what_waits(self):
        self.claim()
        main, terminal = pty.openpty()
        self.addCleanup(os.close, main)
        words = ("host", "apply", "--now", "--wait", "600")
        process = subprocess.Popen(
            (
                *(sys.executable, "-c", _AT_TERMINAL),
                *(*words, "--root", str(self.tree.path)),
            ),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            preexec_fn=_take_terminal,
            cwd=pathlib.Path(__file__).parents[3],
        )
        os.close(terminal)
        self.addCleanup(process.kill)
        said = ""
        while f"{fakes.RUNTIME}: -1" not in said:
            said += os.read(main, 4096).decode()
        time.sleep(1.0)
        os.write(main, b"\x03")
        with contextlib.suppress(OSError):  # the terminal's other end is gone
            while True:
                said += os.read(main, 4096).decode()
        self.assertEqual(130, process.wait(60), said)
        self.assertIn(f"done: /{fakes.RUNTIME}: 950000 -> -1", said)
        self.assertIn(f"waits: /{fakes.KSM}: 1 -> ", said)
        self.assertIn("interrupted; run it again", said)


#: As installed, on a host whose kernel is made of files.
_AT_TERMINAL = """
import sys
from sriov_rt.cmd import host, main
from sriov_rt.tuning import apply
from tests.unit.host import trees
from tests.unit.tuning import fakes
apply.Host = fakes.FakeHost
host.load_sources = lambda: trees.SOURCES
sys.exit(main.main(sys.argv[1:]))
"""


def _take_terminal() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
