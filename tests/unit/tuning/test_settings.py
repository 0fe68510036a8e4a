# SPDX-License-Identifier: Apache-2.0

import dataclasses

from sriov_rt.codec import Unknown
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.tuning import settings
from tests.unit.host import trees
from tests.unit.tuning import fakes

EVERY = cpus("0-15")
NONE = cpus("")


class OfKernelTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        fakes.make_ordinary(self.tree)

    def found(self):
        facts, plan = fakes.planned(self.tree)
        made = settings.of_kernel(facts, plan, self.tree.root)
        return {x.path: x for x in made}

    def test_each_has_the_value_of_the_plan(self):
        values = {path: x.value for path, x in self.found().items()}
        self.assertEqual("-1", values[f"/{fakes.RUNTIME}"])
        self.assertEqual("3333", values["/proc/irq/default_smp_affinity"])
        self.assertEqual(
            trees.HOUSEKEEPING, values["/proc/irq/26/smp_affinity_list"]
        )
        self.assertEqual("n/a", values[f"/{fakes.LATENCY.format(15)}"])
        self.assertNotIn(f"/{fakes.LATENCY.format(0)}", values)

    def test_what_is_so_already_is_left_out(self):
        self.tree.write(fakes.THP, "always madvise [never]\n")
        self.tree.write("proc/irq/default_smp_affinity", "0000,00003333\n")
        found = self.found()
        self.assertNotIn(f"/{fakes.THP}", found)
        self.assertNotIn("/proc/irq/default_smp_affinity", found)

    def test_what_the_kernel_does_not_have_is_left_out(self):
        self.tree.remove("proc/sys/kernel/watchdog_cpumask")
        self.assertNotIn("/proc/sys/kernel/watchdog_cpumask", self.found())

    def test_a_ksm_that_is_off_is_left_alone(self):
        self.tree.write(fakes.KSM, "0\n")
        self.assertNotIn(f"/{fakes.KSM}", self.found())

    def test_interrupts_that_the_kernel_manages_stay(self):
        self.tree.write("sys/devices/system/cpu/isolated", "2-3\n")
        path = "/proc/irq/26/smp_affinity_list"
        self.assertIn(path, self.found())
        debug = "sys/kernel/debug/irq/irqs/26"
        self.tree.write(debug, "dstate: IRQD_AFFINITY_MANAGED\n")
        self.assertNotIn(path, self.found())

    def test_a_partition_of_guests(self):
        self.tree.guest_cgroup("1-3", "1-3", "isolated")
        found = self.found()
        directory = "/sys/fs/cgroup/machine.slice"
        setting = found[f"{directory}/cpuset.cpus"]
        self.assertEqual((EVERY, EVERY), (setting.change, setting.undo))
        self.assertNotIn(f"{directory}/cpuset.cpus.partition", found)

    def test_nothing_of_unknown_cpus(self):
        facts, plan = fakes.planned(self.tree)
        unknown = dataclasses.replace(facts.cpus, online=Unknown("why"))
        facts = dataclasses.replace(facts, cpus=unknown)
        self.assertEqual(
            [], [*settings.of_kernel(facts, plan, self.tree.root)]
        )

    def test_whom_each_disturbs(self):
        self.tree.write(f"sys/{trees.X710}/msi_irqs/26", "msix\n")
        policy = cpus("8-15")
        dedicated = cpus(trees.ISOLATED)
        for path, change, undo in (
            (fakes.RUNTIME, NONE, EVERY),
            (fakes.THP, NONE, EVERY),
            (fakes.LATENCY.format(3), NONE, cpus("3")),
            ("proc/irq/default_smp_affinity", NONE, dedicated),
            ("proc/irq/26/smp_affinity_list", EVERY, EVERY),
            ("proc/sys/kernel/watchdog_cpumask", EVERY, EVERY),
            ("proc/sys/kernel/timer_migration", EVERY, EVERY),
            (fakes.KSM, EVERY, EVERY),
            ("sys/devices/virtual/workqueue/cpumask", EVERY, EVERY),
            (fakes.GOVERNOR.format(8), policy, policy),
        ):
            with self.subTest(path):
                found = self.found()[f"/{path}"]
                self.assertEqual((change, undo), (found.change, found.undo))
                self.assertTrue(found.why)

    def test_a_watchdog_that_keeps_off_disturbs_no_guest(self):
        self.tree.write("proc/sys/kernel/watchdog_cpumask", "0-1\n")
        found = self.found()["/proc/sys/kernel/nmi_watchdog"]
        self.assertEqual(cpus("0-1"), found.change)


class RuleTest(trees.TreeTest):
    def test_an_unknown_file_disturbs_all(self):
        found = settings.rule_of("/sys/kernel/unheard/of")
        self.assertEqual(settings.Reach.ALL, found.change)

    def test_two_texts_of_one_meaning(self):
        for path, one, other in (
            (fakes.THP, "always [never]", "never"),
            ("sys/devices/virtual/workqueue/cpumask", "0000000f", "f"),
            ("proc/irq/9/smp_affinity_list", "0,1,2", "0-2\n"),
            (fakes.KSM, "2\n", "2"),
        ):
            with self.subTest(path):
                rule = settings.rule_of(f"/{path}")
                self.assertTrue(rule.same(one, other))
                self.assertFalse(rule.same(one, "7"))
                self.assertFalse(rule.same("x y", other))
