# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import HugePages
from sriov_rt.facts import MemoryFacts
from sriov_rt.host import memory
from tests.unit.host import trees

MM = "sys/kernel/mm"
THP = f"{MM}/transparent_hugepage/enabled"
KSM = f"{MM}/ksm/run"
NODE = "sys/devices/system/node"


class MemoryTest(trees.TreeTest):
    def observe(self) -> MemoryFacts:
        return memory.observe(self.root)

    def test_realtime_host(self):
        self.assertEqual(
            MemoryFacts(
                thp="madvise",
                ksm_run=0,
                hugepages=(
                    HugePages(0, 2048, 512),
                    HugePages(0, 1048576, 0),
                    HugePages(1, 2048, 512),
                    HugePages(1, 1048576, 8),
                ),
                swap=(),
                zram_generator=False,
            ),
            self.observe(),
        )

    def test_swap_on_zram(self):
        self.tree.write(
            "proc/swaps",
            "Filename\tType\tSize\tUsed\tPriority\n"
            "/dev/zram0\tpartition\t1\t0\t100\n"
            "/swapfile\tfile\t1\t0\t-2\n",
        )
        self.tree.write(memory.ZRAM_GENERATOR, "")
        found = self.observe()
        self.assertEqual(("/dev/zram0", "/swapfile"), found.swap)
        self.assertEqual(("/dev/zram0",), found.on_zram)
        self.assertIs(True, found.zram_generator)

    def test_thp_choices(self):
        for text, wanted in (
            ("[always] madvise never\n", "always"),
            ("always madvise [never]\n", "never"),
        ):
            self.tree.write(THP, text)
            self.assertEqual(wanted, self.observe().thp)

    def test_garbled(self):
        for text in ("", "always madvise never\n", "[sometimes]\n"):
            self.tree.write(THP, text)
            self.assertIn(f"/{THP}: ", self.observe().thp.reason)
        for text in ("", "3\n", "-1\n", "on\n"):
            self.tree.write(KSM, text)
            self.assertIn(f"/{KSM}: ", self.observe().ksm_run.reason)

    def test_unreadable(self):
        self.tree.make_unreadable(THP)
        self.tree.make_unreadable(KSM)
        found = self.observe()
        self.assertEqual(Unknown(f"/{THP}: Is a directory"), found.thp)
        self.assertEqual(Unknown(f"/{KSM}: Is a directory"), found.ksm_run)
        self.assertEqual(4, len(found.hugepages))

    def test_what_is_not_compiled_in_does_nothing(self):
        self.tree.remove(f"{MM}/transparent_hugepage")
        self.tree.remove(f"{MM}/ksm")
        found = self.observe()
        self.assertEqual("never", found.thp)
        self.assertEqual(0, found.ksm_run)

    def test_without_sysfs_all_is_unknown(self):
        self.tree.remove("sys")
        found = self.observe()
        self.assertIsInstance(found.thp, Unknown)
        self.assertIsInstance(found.ksm_run, Unknown)
        self.assertIsInstance(found.hugepages, Unknown)

    def test_hugepages_without_numa(self):
        self.tree.remove(NODE)
        self.tree.write(f"{MM}/hugepages/hugepages-2048kB/nr_hugepages", "7\n")
        self.assertEqual((HugePages(0, 2048, 7),), self.observe().hugepages)

    def test_hugepages_not_compiled_in(self):
        for node in range(2):
            self.tree.remove(f"{NODE}/node{node}/hugepages")
        self.assertEqual((), self.observe().hugepages)

    def test_hugepages_garbled(self):
        path = f"{NODE}/node1/hugepages/hugepages-2048kB/nr_hugepages"
        self.tree.write(path, "many\n")
        self.assertIn(f"/{path}: ", self.observe().hugepages.reason)
