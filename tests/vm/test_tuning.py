# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host apply, while a realtime program runs on an isolated CPU."""

import bisect
import dataclasses
import itertools
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.rtvm.debian import Unpacker
from tests.testbed.waiting import wait_for
from tests.vm import base

#: The CPU of the program; 2 and 3 are isolated.
CPU = 3

RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
MIGRATION = "/proc/sys/kernel/timer_migration"
KSM = "/sys/kernel/mm/ksm/run"
INTERRUPTS = "/proc/irq/default_smp_affinity"
WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"

#: A host that was realtime, and that somebody has changed.
WRONG = {
    RUNTIME: "950000",
    MIGRATION: "1",
    KSM: "1",
    INTERRUPTS: "f",
    WORKQUEUES: "f",
}

#: What is set under a guest; the host is not ready without the first.
MENDED = (RUNTIME, INTERRUPTS)

#: Interrupts from other CPUs, as /proc/interrupts has them: a function to
#: call, a page table that has changed, work that was queued.
SENT = ("CAL", "TLB", "IWI")

#: Windows of each kind, and seconds of one without a change. An emulated CPU
#: stands still when this machine has other work, so the worst samples are
#: printed, and what other CPUs have sent is compared.
ROUNDS = 2
QUIET_S = 10.0

#: Upper ends of a histogram's bins, in microseconds.
BINS = (500, 1_000, 2_000, 5_000, 10_000, 50_000)

#: tuned and what it needs, beside what a Debian with libvirt has.
TUNED = (
    "tuned",
    "python3-pyudev",
    "python3-linux-procfs",
    "virt-what",
    "ethtool",
)
_TUNED = """
rm -f /tmp/tuned.log
tuned --no-dbus -p realtime -P /tmp/tuned.pid -l /tmp/tuned.log &
timeout 180 sh -c 'until grep "realtime. applied" /tmp/tuned.log; do
sleep 0.5; done'
kill $!
wait $!
"""


@dataclasses.dataclass(frozen=True)
class Window:
    """What a program on the CPU has met.

    :param samples: how late it was, in microseconds, sorted.
    :param sent: interrupts that other CPUs have sent.
    """

    samples: list[int]
    sent: int

    @property
    def worst(self) -> int:
        """The longest, in microseconds."""
        return self.samples[-1]

    def __str__(self) -> str:
        ends = [bisect.bisect_right(self.samples, each) for each in BINS]
        ends = [0, *ends, len(self.samples)]
        bins = " ".join(str(y - x) for x, y in itertools.pairwise(ends))
        half = self.samples[len(self.samples) // 2]
        return f"{bins}; median {half}, worst {self.worst}, sent {self.sent}"


class TuningTest(base.VmTestCase):
    """A realtime program runs on an isolated CPU meanwhile."""

    @classmethod
    def setUpClass(cls) -> None:
        """Install what measures."""
        super().setUpClass()
        packages.install(("rt-tests",), base.place().log / "apt-tuning.log")

    def setUp(self) -> None:
        """Break the host's settings; they are mended after the test."""
        super().setUp()
        self.original = self._values()
        for path, value in self.original.items():
            self.addCleanup(self.sh, f"echo {value} > {path}")
        self._break(WRONG)
        self.before = self._values()

    def _value(self, path: str) -> str:
        return self.sh(f"cat {path}").text.strip()

    def _values(self) -> dict[str, str]:
        return {path: self._value(path) for path in WRONG}

    def _apply(self, *arguments: str) -> dict[str, dict[str, Any]]:
        result = self.command("host", "apply", "--json", *arguments)
        self.assertIn(result.status, (0, 1), result.complaint)
        settings = json.loads(result.text)["settings"]
        return {each["setting"]: each for each in settings}

    def _start(self, how: str = "-q", *program: str) -> None:
        """Start cyclictest on the CPU.

        :param how: it prints, -v for each sample.
        :param program: what runs it.
        """
        self._log().unlink(missing_ok=True)
        self.job = self.vm.spawn(
            (
                *(*program, "cyclictest", "-m", how, "-p", "95", "-t", "1"),
                *("-a", str(CPU), "-i", "10000", "-D", "1500"),
            ),
            log=self._log(),
        )
        self.addCleanup(self.sh, "pkill -x cyclictest", check=False)
        self.sh("until pgrep -x cyclictest; do sleep 0.2; done; sleep 2")

    def test_it_is_named_and_the_others_are_set_and_undone(self) -> None:
        """What would disturb it waits; all else is set, and set back."""
        self._start()
        found = self._apply("--now")
        for path in (RUNTIME, INTERRUPTS):
            self.assertEqual("done", found[path]["result"], found)
        for path in (MIGRATION, KSM, WORKQUEUES):
            self.assertEqual("waits", found[path]["result"], found)
            self.assertRegex(
                found[path]["why"], rf"\(cyclictest\) on CPUs {CPU} first"
            )
        self.assertEqual("-1", self._value(RUNTIME))
        found = self._apply("--now", "--undo")
        self.assertEqual("waits", found[RUNTIME]["result"], found)
        allowed = "grep Cpus_allowed_list /proc/$(pgrep -x cyclictest)"
        threads = self.sh(f"{allowed}/task/*/status").text
        self.assertIn(f"\t{CPU}\n", threads)
        self.vm.kill(self.job)
        found = self._apply("--now")
        for path in (MIGRATION, KSM, WORKQUEUES):
            self.assertEqual("done", found[path]["result"], found)
        self.assertEqual("3", self._value(WORKQUEUES))
        found = self._apply("--undo")
        self.assertEqual(
            {"undone"}, {each["result"] for each in found.values()}, found
        )
        self.assertEqual(self.before, self._values())

    @periodic
    def test_killed_at_each_change_and_undone(self) -> None:
        """Files, sysctls and sysfs are as before, byte by byte."""
        found = self.vm.run(
            (base.product().program("python"), "-m", "tests.vm.tuning_killer"),
            environment={"PYTHONPATH": str(paths.CHECKOUT)},
            timeout=2 * base.PATIENCE,
        )
        print(found.text, file=sys.stderr)
        killed = json.loads(found.text)
        self.assertGreaterEqual(killed["settings"], len(WRONG) + 2)
        # Before a change, in it, and after it, and the record's.
        for what in ("apply", "undo"):
            self.assertGreater(killed[what], 5 * killed["settings"])

    @periodic
    def test_its_worst_sample_is_what_it_is_without_a_change(self) -> None:
        """Beside tuned's realtime profile, applied and rolled back."""
        tree = Unpacker(base.place().cache / "debian").packages(*TUNED)
        self.sh(
            f"tar -C {tree.root} -c . | tar -C / -x --keep-directory-symlink"
            "; mkdir -p /etc/tuned; echo isolated_cores=2-3 "
            "> /etc/tuned/realtime-variables.conf"
        )
        # What runs commands is warm afterwards.
        self.command("host", "check")
        self._start("-v", "stdbuf", "-oL")
        log = self._log()
        wait_for("samples", lambda: log.stat().st_size > 1000, timeout=60)
        self._ready_under_a_guest()
        kinds: dict[str, Callable[[], object]] = {
            "idle": lambda: time.sleep(QUIET_S),
            # As busy as an apply: an emulated CPU feels its neighbours.
            "no change": lambda: self._there_and_back("--dry-run"),
            "host apply": self._there_and_back,
            "tuned": lambda: self.sh(_TUNED),
        }
        found: dict[str, list[Window]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, change in kinds.items():
                self._break(WRONG)
                found[kind].append(self._window(kind, change))
        said = self.sh("cat /tmp/tuned.log").text
        print(said, file=sys.stderr)
        self.assertIn("'realtime' applied", said)
        worst = {
            kind: statistics.median(each.worst for each in windows)
            for kind, windows in found.items()
        }
        sent = {
            kind: sum(each.sent for each in windows)
            for kind, windows in found.items()
        }
        print(f"median of worst: {worst}; sent: {sent}", file=sys.stderr)
        self.assertGreater(sent["tuned"], 2 * sent["host apply"], found)

    def _ready_under_a_guest(self) -> None:
        """A host that is not ready is, and its guest has not been late."""
        self._break({path: WRONG[path] for path in MENDED})
        for path in set(WRONG) - set(MENDED):
            self.sh(f"echo {self.original[path]} > {path}")

        def show(*arguments: str, status: int) -> None:
            result = self.command("host", *arguments)
            print(f"# sriov-rt host {' '.join(arguments)}", file=sys.stderr)
            print(result.text, file=sys.stderr)
            self.assertEqual(status, result.status, result.complaint)

        self._window("before", lambda: time.sleep(QUIET_S))
        self._window("check", lambda: show("check", status=1))
        self._window("apply", lambda: show("apply", "--now", status=0))
        self._window("check", lambda: show("check", status=0))
        self._window("undo", lambda: show("apply", "--undo", status=1))
        self._window("after", lambda: time.sleep(QUIET_S))

    def _there_and_back(self, *more: str) -> None:
        self._apply("--now", *more)
        self._apply("--now", "--undo", *more)

    def _break(self, values: dict[str, str]) -> None:
        for path, value in values.items():
            self.sh(f"echo {value} > {path}")

    def _window(self, kind: str, change: Callable[[], object]) -> "Window":
        """Return what the program on the CPU has met during a change."""
        log = self._log()
        begin, sent = log.stat().st_size, self._sent()
        change()
        sent = self._sent() - sent
        lines = log.read_bytes()[begin:].decode().splitlines()[1:-1]
        # A task, a number of the sample, and microseconds.
        found = sorted(int(line.rpartition(":")[2]) for line in lines)
        window = Window(found, sent)
        print(f"{kind}: {window}", file=sys.stderr)
        return window

    def _log(self) -> pathlib.Path:
        name = f"{self.vm.machine.name}-cyclictest.log"
        return base.place().state / name

    def _sent(self) -> int:
        """Return how many interrupts other CPUs have sent to the CPU."""
        lines = self.sh("cat /proc/interrupts").text.splitlines()
        rows = (line.split() for line in lines)
        return sum(
            int(row[1 + CPU])
            for row in rows
            if row and row[0].rstrip(":") in SENT
        )
