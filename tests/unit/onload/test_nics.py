# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.onload import nics
from tests.unit.host import trees

PROC = "proc/driver/sfc_resource"


class OnloadNicsTest(trees.TreeTest):
    def observe(self):
        return nics.observe(self.root)

    def test_solarflares_are_native(self):
        self.assertEqual({"ens2f0": "native"}, self.observe())

    def test_those_of_amd_are_native_by_their_driver(self):
        device = "devices/pci0000:d7/0000:d8:00.0"
        self.tree.pci_device(
            device, vendor="0x10ee", device="0x5084", driver="xilinx_efct"
        )
        self.tree.netdev(device, "ens3f0")
        self.assertEqual("native", self.observe()["ens3f0"])
        self.tree.remove(f"sys/{device}/driver")
        self.tree.link(f"sys/{device}/driver", "../../bus/pci/d/qdma")
        self.assertNotIn("ens3f0", self.observe())

    def test_what_is_registered_is_used_by_af_xdp(self):
        # Until Onload 8; a virtual interface has no device.
        for name in ("eno1", "lo"):
            self.tree.write(f"{PROC}/{name}/enable", "1\n")
        self.assertEqual(
            {"ens2f0": "native", "eno1": "afxdp", "lo": "afxdp"},
            self.observe(),
        )

    def test_since_onload_9_it_is_at_the_device(self):
        for place in ("sfc_resource", "ice.onload.0/sfc_resource"):
            path = f"sys/{trees.X710}/{place}/enable"
            self.tree.write(path, "1\n")
            self.assertEqual("afxdp", self.observe()["eno1"])
            self.tree.remove(path)
            self.assertNotIn("eno1", self.observe())

    def test_what_the_operator_disables_is_left_out(self):
        self.tree.write(f"{PROC}/ens2f0/enable", "0\n")
        self.tree.write(f"{PROC}/eno1/enable", "0\n")
        self.assertEqual({}, self.observe())
        self.tree.write(f"{PROC}/ens2f0/enable", "1\n")
        self.assertEqual({"ens2f0": "native"}, self.observe())

    def test_a_vf_that_is_registered_counts_for_its_pf(self):
        self.tree.write(f"{PROC}/eno1v0/enable", "1\n")
        self.assertEqual({"ens2f0": "native", "eno1": "afxdp"}, self.observe())
        # The PF's own word goes before its VFs'.
        self.tree.write(f"{PROC}/ens2f0/enable", "1\n")
        self.assertEqual("native", self.observe()["ens2f0"])

    def test_what_cannot_be_read_is_not_known(self):
        for path in (
            f"{PROC}/eno1/enable",
            f"sys/{trees.X2522}/vendor",
        ):
            with self.subTest(path):
                self.tree.write(path, "x\n")
                self.tree.make_unreadable(path)
                self.assertIsInstance(self.observe(), Unknown)
                self.tree.remove(path)
        self.tree.write(f"{PROC}/eno1/enable", "perhaps\n")
        self.assertIsInstance(self.observe(), Unknown)

    def test_a_host_without_sysfs(self):
        self.tree.remove("sys/class/net")
        self.assertIn("sys/class/net", self.observe().reason)
