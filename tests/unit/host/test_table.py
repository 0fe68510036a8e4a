# SPDX-License-Identifier: Apache-2.0

import dataclasses

from sriov_rt import facts
from sriov_rt.host import table
from sriov_rt.host.observer import Observer
from tests.unit.host import trees


class TableTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.host = Observer(self.root, "rt-1", "n", trees.SOURCES).observe()

    def lines(self, **parts) -> list[str]:
        host = dataclasses.replace(self.host, **parts)
        return [" ".join(row) for row in table.rows(host)]

    def test_facts_are_readable(self):
        lines = self.lines()
        for line in (
            "host rt-1",
            "cpus.isolated 2-3,6-7,10-11,14-15",
            "cpus.isolcpus_flags domain, managed_irq",
            "cpus.numa.0 id=0 cpus=0-3,8-11",
            "cpus.numa.1 id=1 cpus=4-7,12-15",
            "kernel.preempt_rt yes",
            "kernel.modules.macvlan builtin",
            "memory.hugepages.0 node=0 size_kib=2048 total=512",
            "irqs.groups.0 allowed=0-1,4-5,8-9,12-13 effective=0 irqs=9, 25 "
            "managed=- fired=-",
            "virt.parameters.kvm.halt_poll_ns 0",
            "nics.eno1.address 0000:3b:00.0",
            "nics.eno1.speed_mbps 10000",
            "nics.ens2f0.numa_node -",
            "onload.library /usr/lib64/libonload.so",
            "labels.feature.node.kubernetes.io/pci-1924.present true",
        ):
            with self.subTest(line):
                self.assertIn(line, lines)

    def test_every_part_is_there(self):
        names = {line.partition(".")[0] for line in self.lines()}
        self.assertLessEqual(facts.PARTS.keys(), names)

    def test_unknown_says_why(self):
        parts = {name: facts.unknown(name, "gone") for name in facts.PARTS}
        lines = self.lines(**parts)
        self.assertIn("cpus.online unknown (gone)", lines)
        self.assertIn("nics.nics unknown (gone)", lines)
        self.assertIn("labels unknown (gone)", lines)

    def test_empty_host(self):
        lines = self.lines(
            nics=facts.NicFacts(()),
            virt=facts.VirtFacts(False, {}, 0),
            irqs=facts.IrqFacts(frozenset(), ()),
        )
        for line in (
            "nics none",
            "virt.kvm no",
            "virt.parameters none",
            "irqs.groups none",
        ):
            self.assertIn(line, lines)

    def test_long_list_is_cut(self):
        group = facts.IrqGroup(
            frozenset({0}), frozenset({0}), tuple(range(99))
        )
        lines = self.lines(irqs=facts.IrqFacts(frozenset({0}), (group,)))
        (line,) = [each for each in lines if each.startswith("irqs.groups")]
        self.assertIn(" 10, 11, … managed=", line)

    def test_control_characters_do_not_reach_the_terminal(self):
        kernel = dataclasses.replace(
            self.host.kernel, command_line="quiet \x1b]0;owned\x07"
        )
        text = "\n".join(self.lines(kernel=kernel))
        self.assertIn("kernel.command_line quiet \\x1b]0;owned\\x07", text)
        self.assertNotIn("\x1b", text)
