# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import VirtFacts
from sriov_rt.host import virt
from tests.unit.host import trees


class VirtTest(trees.TreeTest):
    def observe(self) -> VirtFacts:
        return virt.observe(self.root)

    def test_realtime_host(self):
        self.assertEqual(
            VirtFacts(
                kvm=True,
                parameters={"kvm.halt_poll_ns": "0", "kvm_intel.ple_gap": "0"},
                iommu_groups=2,
            ),
            self.observe(),
        )

    def test_no_virtualisation(self):
        self.tree.remove("dev/kvm")
        self.tree.remove("sys/module/kvm")
        self.tree.remove("sys/module/kvm_intel")
        self.tree.remove("sys/kernel/iommu_groups")
        self.assertEqual(VirtFacts(False, {}, 0), self.observe())

    def test_iommu_that_is_off(self):
        for group in (41, 42):
            self.tree.remove(f"sys/kernel/iommu_groups/{group}")
        self.assertEqual(0, self.observe().iommu_groups)

    def test_without_sysfs(self):
        self.tree.remove("sys")
        found = self.observe()
        self.assertIsInstance(found.parameters, Unknown)
        self.assertIsInstance(found.iommu_groups, Unknown)
        self.assertIs(True, found.kvm)

    def test_parameter_unreadable(self):
        path = "sys/module/kvm_intel/parameters/ple_gap"
        for text, why in (("", "empty"), (b"\xff", "not UTF-8 text")):
            self.tree.write(path, text)
            self.assertEqual(
                Unknown(f"/{path}: {why}"), self.observe().parameters
            )
        self.tree.make_unreadable(path)
        self.assertEqual(
            Unknown(f"/{path}: Is a directory"), self.observe().parameters
        )
