# SPDX-License-Identifier: Apache-2.0

"""What a large host costs: files read, which a clock could not tell."""

import json
from unittest import mock

from sriov_rt import facts
from sriov_rt.host import cpus
from sriov_rt.host import irqs
from sriov_rt.host import nics
from sriov_rt.host import root as root_module
from tests.unit import builders
from tests.unit.host import trees


class ScaleTest(trees.TreeTest):
    def count(self, observe):
        """Return the facts and how many files were read for them."""
        with mock.patch.object(
            root_module, "read_file", side_effect=root_module.read_file
        ) as read:
            return observe(self.root), read.call_count

    def test_interrupts_cost_two_reads_each_and_one_parse_each_list(self):
        for irq in range(100, 1100):
            directory = f"proc/irq/{irq}"
            self.tree.write(f"{directory}/smp_affinity_list", "0-15\n")
            self.tree.write(
                f"{directory}/effective_affinity_list", f"{irq % 16}\n"
            )
        with mock.patch.object(
            irqs.cpulist,
            "parse_cpu_list",
            side_effect=irqs.cpulist.parse_cpu_list,
        ) as parse:
            found, reads = self.count(irqs.observe)
        self.assertEqual(1003, sum(len(g.irqs) for g in found.groups))
        self.assertEqual(18, len(found.groups))
        self.assertLessEqual(reads, 2 * 1003 + 4)
        self.assertLessEqual(parse.call_count, 20)

    def test_siblings_cost_one_read_a_core(self):
        self.tree.write("sys/devices/system/cpu/online", "0-255\n")
        for cpu in range(256):
            self.tree.write(
                f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list",
                f"{cpu % 128},{cpu % 128 + 128}\n",
            )
        found, reads = self.count(cpus.observe)
        self.assertEqual(128, len(found.siblings))
        # And six of each isolated CPU: its idle states.
        self.assertLessEqual(reads, 128 + 20 + 6 * 8)

    def test_vfs_cost_one_read_each(self):
        for index in range(4, 256):
            slot = f"0000:{0x40 + index // 256:02x}:{index // 8 % 32:02x}"
            vf = self.tree.vf(
                trees.X710, index, f"{slot}.{index % 8}", driver="iavf"
            )
            self.tree.netdev(vf, f"v{index}", ifalias="")
        found, reads = self.count(nics.observe)
        self.assertEqual(256, len(found.nics[0].vfs))
        self.assertLessEqual(reads, 256 + 30)

    def test_facts_of_a_pf_in_switchdev_mode_are_as_long_as_without(self):
        for index in range(4, 127):
            slot = f"0000:41:{index // 8:02x}.{index % 8}"
            vf = self.tree.vf(trees.X710, index, slot, driver="mlx5_core")
            self.tree.netdev(vf, f"v{index}", ifalias="")
        legacy = nics.observe(self.root)
        for index in range(127):
            port = f"pf0vf{index}\n"
            self.tree.netdev(trees.X710, f"eno1_{index}", phys_port_name=port)
        self.assertEqual(legacy, nics.observe(self.root))
        self.assertEqual(127, len(legacy.nics[0].vfs))
        host = builders.realtime_host(nics={"nics": legacy.nics})
        document = json.dumps(host.to_plain())
        self.assertLess(len(document), 100_000)
        self.assertEqual(host, facts.from_json(document))
