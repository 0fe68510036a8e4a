# SPDX-License-Identifier: Apache-2.0

"""Counters of a VF of an 82576, by real frames."""

from typing import Any
from typing import ClassVar

from tests.periodic import periodic
from tests.vm import test_vf
from tests.vm import test_vf_attacks
from tests.vm import test_vif_kinds
from tests.vm.test_vf import INDEX
from tests.vm.test_vf import MAC
from tests.vm.test_vf import NETDEV
from tests.vm.test_vf import VF
from tests.vm.test_vf_attacks import FAR


@periodic
class CountersTest(test_vf_attacks.AttackerTestCase, test_vf.VfTestCase):
    """The driver of its PF counts nothing of VFs; its interface does."""

    NEIGHBOURS: ClassVar[dict[str, tuple[int, str, int]]] = {
        FAR: (0, f"{test_vif_kinds.PEER}/24", 0),
    }

    def _counted(self) -> dict[str, Any]:
        found = self.done("vf", "counters", "enp1s0")
        return next(x for x in found if x["index"] == INDEX)

    def test_frames_are_counted_where_anything_counts(self) -> None:
        """Eight frames for it; and unknown, not zero, once a guest has it."""
        self.addCleanup(self.restore)
        self.done("vf", "set", VF, f"mac={MAC}")
        self.sh(f"ip link set {NETDEV} up")
        before = self._counted()["counters"]
        self.assertEqual(8, self.frames(MAC, NETDEV))
        after = self._counted()["counters"]
        got = after["receive_packets"] - before["receive_packets"]
        size = after["receive_bytes"] - before["receive_bytes"]
        print(f"counted {got} packets of {size} bytes")
        self.assertGreaterEqual(got, 8)
        self.assertGreaterEqual(size, 8 * 60)
        self.sh(f"ip link set {NETDEV} down")
        self.done("vf", "set", VF, "driver=vfio-pci")
        passed = self._counted()
        self.assertTrue(passed["passed"])
        self.assertIn("ndo_get_vf_stats", passed["counters"]["_unknown"])
        self.done("vf", "counters", "--textfile", "/run/vfs.prom")
        text = self.sh("cat /run/vfs.prom; rm /run/vfs.prom").text
        labels = f'pf="enp1s0",vf="{INDEX}",port="",instance_uuid=""'
        self.assertIn(f"sriov_rt_vf_counters_known{{{labels}}} 0\n", text)
