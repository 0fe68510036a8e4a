# SPDX-License-Identifier: Apache-2.0

"""sriov-rt host, on a host that is realtime."""

import json
import shlex
from typing import Any
from typing import ClassVar

from tests.vm import base

THROTTLE = "/proc/sys/kernel/sched_rt_runtime_us"


class HostTest(base.VmTestCase):
    """What the kernel says is what is shown and checked.

    :cvar facts: what ``sriov-rt host show`` says.
    """

    facts: ClassVar[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        """Look at the host once."""
        super().setUpClass()
        shown = cls.command("host", "show", "--json")
        if shown.status != 0:
            raise AssertionError(shown.complaint)
        cls.facts = json.loads(shown.text)

    def _verdict(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Return the exit status of a check and what it says."""
        result = self.command("host", "check", *arguments, "--json")
        self.assertTrue(result.stdout, result.complaint)
        return result.status, json.loads(result.text)

    def _codes(self, *arguments: str) -> tuple[int, set[str]]:
        """Return the exit status and the codes of a check."""
        status, verdict = self._verdict(*arguments)
        return status, {each["code"] for each in verdict["reasons"]}

    def test_show_has_the_kernel_s_facts(self) -> None:
        """Kernel, CPUs, hugepages and names are those of the machine."""
        self.assertEqual(self.facts["host"], "rt-1")
        self.assertIs(self.facts["kernel"]["preempt_rt"], True)
        self.assertEqual(self.facts["kernel"]["rt_runtime_us"], -1)
        for name in ("isolated", "nohz_full", "rcu_nocbs"):
            with self.subTest(name):
                self.assertEqual(self.facts["cpus"][name], "2-3")
        self.assertIn(
            {"node": 0, "size_kib": 2048, "total": 300},
            self.facts["memory"]["hugepages"],
        )

    def test_show_has_the_cards_and_their_vfs(self) -> None:
        """Two 82576 with four VFs each, and the wire between them."""
        cards = {
            nic["name"]: (
                nic["driver"],
                nic["vendor"],
                nic["device"],
                nic["sriov_totalvfs"],
                nic["sriov_numvfs"],
                len(nic["vfs"]),
                nic["carrier"],
            )
            for nic in self.facts["nics"]["nics"]
            if nic["driver"] == "igb"
        }
        igb = ("igb", "8086", "10c9", 7, 4, 4, True)
        self.assertEqual(cards, {"enp1s0": igb, "enp2s0": igb})

    def test_labels_say_what_nfd_would(self) -> None:
        """Selectors of flavors have something to match."""
        prefix = "feature.node.kubernetes.io"
        for name in (
            "kernel-config.PREEMPT_RT",
            "network-sriov.capable",
            "pci-8086.sriov.capable",
        ):
            with self.subTest(name):
                self.assertEqual(
                    self.facts["labels"]["values"][f"{prefix}/{name}"], "true"
                )

    def test_check_passes(self) -> None:
        """The host is realtime, and its VFs can go into containers."""
        for mode in ((), ("--mode", "container-vf"), ("--mode", "macvlan")):
            with self.subTest(mode=mode):
                self.assertEqual(self._codes(*mode), (0, set()))

    def test_check_of_passthrough_misses_kvm_alone(self) -> None:
        """VFs, IOMMU and vfio are there; an emulated CPU has no KVM."""
        self.assertEqual(
            self._codes("--mode", "passthrough"), (1, {"kvm_missing"})
        )

    def test_throttled_host_is_told_the_remedy_that_helps(self) -> None:
        """A broken host fails, and passes again after its remedy."""
        self.addCleanup(self.sh, f"echo -1 > {THROTTLE}")
        self.sh(f"echo 950000 > {THROTTLE}")
        status, verdict = self._verdict()
        self.assertEqual(status, 1)
        (reason,) = verdict["reasons"]
        self.assertEqual(reason["code"], "rt_throttled")
        self.assertIn("950000", reason["message"])
        remedy = reason["message"].split("'")[1]
        self.assertEqual(shlex.split(remedy)[0], "sysctl")
        self.sh(remedy)
        self.assertEqual(self._codes(), (0, set()))
