# SPDX-License-Identifier: Apache-2.0

"""Which CPUs a VF's driver is not bound from."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.host.root import Root
from sriov_rt.nic import affinity

_ADDRESS = "0000:01:00.0"


class AffinityTest(unittest.TestCase):
    """The mailbox's CPU is kept free, and no more than that."""

    def setUp(self) -> None:
        """Have a PF, a process on CPUs 0 and 1, and a record of its CPUs."""
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self._irq(35, "0", "enp1s0")
        self._irq(36, "1", "enp1s0-TxRx-0")
        (self._device() / "net/enp1s0").mkdir(parents=True)
        self.set: list[frozenset[int]] = []
        for name, action in (
            ("sched_getaffinity", lambda pid: {0, 1}),
            ("sched_setaffinity", lambda pid, cpus: self.set.append(cpus)),
        ):
            patch = mock.patch.object(os, name, action)
            patch.start()
            self.addCleanup(patch.stop)

    def _device(self) -> pathlib.Path:
        return self.root / "sys/bus/pci/devices" / _ADDRESS

    def _irq(self, number: int, cpus: str, name: str) -> None:
        (self._device() / "msi_irqs").mkdir(parents=True, exist_ok=True)
        (self._device() / f"msi_irqs/{number}").touch()
        irq = self.root / f"proc/irq/{number}"
        (irq / name).mkdir(parents=True)
        (irq / "effective_affinity_list").write_text(f"{cpus}\n")

    def _away(self) -> list[frozenset[int]]:
        with affinity.away_from(Root(str(self.root)), _ADDRESS):
            return list(self.set)

    def test_queues_do_not_count(self) -> None:
        """Their interrupts may be on every CPU there is."""
        self.assertEqual(self._away(), [frozenset({1})])

    def test_cpus_are_as_before_afterwards(self) -> None:
        """The thread goes on where it may."""
        self._away()
        self.assertEqual(self.set[-1], frozenset({0, 1}))

    def test_unknown_names_count_all(self) -> None:
        """Then any interrupt may be the mailbox's; here no CPU is left."""
        (self._device() / "net/enp1s0").rename(self._device() / "net/eth7")
        self.assertEqual(self._away(), [])
