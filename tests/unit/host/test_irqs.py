# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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
                    IrqGroup(HOUSEKEEPING, frozenset({0}), (9, 25)),
                    IrqGroup(frozenset({2, 3}), frozenset({2}), (26,)),
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
            IrqGroup(frozenset({5}), frozenset({5}), (4294967295,)),
            self.observe().groups[2],
        )

    def test_names_that_are_no_interrupt(self):
        self.tree.write("proc/irq/٣/smp_affinity_list", "0\n")
        self.tree.write("proc/irq/99999999999/smp_affinity_list", "0\n")
        self.assertEqual(2, len(self.observe().groups))
