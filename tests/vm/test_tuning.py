# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host apply, while a realtime program runs on an isolated CPU."""

import json
from typing import Any

from tests.testbed import packages
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
        for path, value in WRONG.items():
            before = self._value(path)
            self.addCleanup(self.sh, f"echo {before} > {path}")
            self.sh(f"echo {value} > {path}")
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

    def _start(self) -> None:
        """Start cyclictest on the CPU."""
        self.job = self.vm.spawn(
            (
                *("cyclictest", "-m", "-q", "-p", "95", "-t", "1"),
                *("-a", str(CPU), "-i", "10000", "-D", "900"),
            ),
            log=base.place().state / f"{self.vm.machine.name}-cyclictest.log",
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
