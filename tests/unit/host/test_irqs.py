# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import IrqFacts
from sriov_rt.facts import IrqGroup
from sriov_rt.host import irqs
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit.host import trees

HOUSEKEEPING = parse_cpu_list(trees.HOUSEKEEPING)


class IrqsTest(trees.TreeTest):
    def observe(self) -> IrqFacts:
        return irqs.observe(self.root)

    def test_realtime_host(self):
        self.assertEqual(
            IrqFacts(
                default_affinity=HOUSEKEEPING,
                groups=(
                    IrqGroup(HOUSEKEEPING, frozenset({0}), (9, 25), None),
                    IrqGroup(
                        frozenset({2, 3}),
                        frozenset({2}),
                        (26,),
                        irqs.NOT_SHOWN,
                    ),
                ),
            ),
            self.observe(),
        )

    def test_architecture_that_does_not_tell_the_effective_cpus(self):
        self.tree.remove("proc/irq/26/effective_affinity_list")
        group = self.observe().groups[1]
        self.assertEqual(group.allowed, group.effective)

    def test_interrupt_that_nobody_handles_fires_nowhere(self):
        self.tree.write("proc/irq/26/effective_affinity_list", "\n")
        self.tree.write("proc/irq/26/spurious", "count 0\n")
        self.assertEqual(frozenset(), self.observe().groups[1].effective)

    def test_mask_that_a_chip_does_not_keep(self):
        self.tree.write("proc/irq/26/effective_affinity_list", "\n")
        (self.tree.path / "proc/irq/26/eno1-TxRx-0").mkdir()
        self.assertEqual(frozenset({2, 3}), self.observe().groups[1].effective)

    def test_interrupt_freed_since_the_listing(self):
        self.tree.link("proc/irq/30", "gone")
        self.assertEqual(2, len(self.observe().groups))

    def test_groups_unknown(self):
        for name in ("smp_affinity_list", "effective_affinity_list"):
            path = f"proc/irq/26/{name}"
            for text in ("", "x\n", "0-4000000000\n"):
                with self.subTest(name=name, text=text):
                    self.tree.write(path, text)
                    self.assertIn(f"/{path}: ", self.observe().groups.reason)
            self.tree.make_unreadable(path)
            self.assertEqual(
                Unknown(f"/{path}: Is a directory"), self.observe().groups
            )
            self.tree.remove(path)
            self.tree.write(path, "2\n")

    def test_affinity_missing_though_the_interrupt_is_there(self):
        self.tree.remove("proc/irq/26/smp_affinity_list")
        self.assertIn("/proc/irq/26/", self.observe().groups.reason)

    def test_default_affinity_unknown(self):
        path = "proc/irq/default_smp_affinity"
        for text in ("", "xyz\n", "ffff,\n"):
            self.tree.write(path, text)
            found = self.observe()
            self.assertIn(f"/{path}: ", found.default_affinity.reason)
            self.assertEqual(2, len(found.groups))

    def test_no_procfs(self):
        self.tree.remove("proc/irq")
        self.assertEqual(
            Unknown("/proc/irq: No such file or directory"),
            self.observe().groups,
        )

    def test_largest_interrupt(self):
        self.tree.write("proc/irq/4294967295/smp_affinity_list", "5\n")
        self.assertEqual(
            IrqGroup(frozenset({5}), frozenset({5}), (4294967295,), None),
            self.observe().groups[2],
        )

    def test_names_that_are_no_interrupt(self):
        self.tree.write("proc/irq/٣/smp_affinity_list", "0\n")
        self.tree.write("proc/irq/99999999999/smp_affinity_list", "0\n")
        self.assertEqual(2, len(self.observe().groups))


class EvidenceTest(trees.TreeTest):
    """Who put an interrupt on an isolated CPU."""

    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.pauses = []
        self.on_pause = lambda: None
        self.counters = irqs.Counters(self._pause, lambda: self.now)

    def _pause(self, seconds):
        self.pauses.append(seconds)
        self.on_pause()

    def observe(self) -> IrqGroup:
        """Return the group of the interrupt on an isolated CPU."""
        return irqs.observe(self.root, self.counters).groups[1]

    def count(self, number):
        text = f"5,0,{number},0\n"
        self.tree.write("sys/kernel/irq/26/per_cpu_count", text)

    def test_the_kernel_says_it_in_debugfs(self):
        path = "sys/kernel/debug/irq/irqs/26"
        self.tree.write(path, "dstate: IRQD_AFFINITY_MANAGED\n")
        self.assertIs(True, self.observe().managed)
        self.tree.write(path, "dstate: IRQD_AFFINITY_SET\n")
        self.assertIs(False, self.observe().managed)

    def test_what_nobody_may_move_is_managed(self):
        (self.tree.path / "proc/irq/26/smp_affinity").chmod(0o444)
        self.assertIs(True, self.observe().managed)

    def test_what_may_be_moved_where_others_may_not_is_not_managed(self):
        (self.tree.path / "proc/irq/9/smp_affinity").chmod(0o444)
        self.assertIs(False, self.observe().managed)

    def test_a_kernel_that_does_not_show_it(self):
        self.assertEqual(irqs.NOT_SHOWN, self.observe().managed)

    def test_it_is_not_asked_of_others(self):
        found = irqs.observe(self.root, self.counters)
        self.assertIsNone(found.groups[0].managed)
        self.tree.write("proc/irq/26/smp_affinity_list", "0-3\n")
        self.assertIsNone(self.observe().managed)

    def test_one_that_fires_at_the_first_look(self):
        self.count(7)
        self.on_pause = lambda: self.count(9)
        self.assertIs(True, self.observe().fired)

    def test_one_that_is_silent_and_then_fires(self):
        self.count(7)
        self.assertIs(False, self.observe().fired)
        self.assertEqual([irqs.FIRST_LOOK_S], self.pauses)
        self.count(8)
        self.assertIs(True, self.observe().fired)
        self.now += irqs.FIRED_S - 1
        self.assertIs(True, self.observe().fired)
        self.now += 1
        self.assertIs(False, self.observe().fired)
        self.assertEqual(1, len(self.pauses))

    def test_counters_of_other_cpus_do_not_matter(self):
        self.count(7)
        self.observe()
        self.tree.write("sys/kernel/irq/26/per_cpu_count", "99,9,7,9\n")
        self.assertIs(False, self.observe().fired)

    def test_without_counters_nothing_is_known(self):
        self.assertIsNone(self.observe().fired)
        for text in ("", "x,1,2\n", "1\n"):
            self.tree.write("sys/kernel/irq/26/per_cpu_count", text)
            self.assertIsNone(self.observe().fired)
        self.assertIsNone(irqs.observe(self.root).groups[1].fired)
