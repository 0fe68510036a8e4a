# SPDX-License-Identifier: Apache-2.0

import errno

from sriov_rt.codec import Unknown
from sriov_rt.facts import Governor
from sriov_rt.facts import PowerManagement
from sriov_rt.facts import decisive
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host import cpus
from sriov_rt.host import readiness
from sriov_rt.host.observer import Observer
from tests.unit.host import trees

CPU = "sys/devices/system/cpu"
OPTIONS = "etc/nova/nova.conf.d/power.conf"
ON = "[libvirt]\ncpu_power_management = "


class OptionsTest(trees.TreeTest):
    def observe(self, text):
        self.tree.write(OPTIONS, f"[libvirt]\n{text}\n")
        return compute.observe(self.root).power_management

    def test_as_nova_reads_them(self):
        default = PowerManagement("cpu_state", "powersave", "performance")
        for text, wanted in (
            ("", None),
            ("cpu_power_management = false", None),
            ("cpu_power_management_strategy = governor", None),
            ("cpu_power_management = True", default),
            ("cpu_power_management=1", default),
            (
                "cpu_power_management = yes\n"
                "cpu_power_management_strategy = governor\n"
                "cpu_power_governor_low = conservative\n"
                "cpu_power_governor_high = schedutil",
                PowerManagement("governor", "conservative", "schedutil"),
            ),
        ):
            with self.subTest(text):
                self.assertEqual(wanted, self.observe(text))

    def test_what_nova_does_not_start_with(self):
        for text in (
            "cpu_power_management = maybe",
            "cpu_power_management = 1\ncpu_power_management_strategy = off",
        ):
            with self.subTest(text):
                found = self.observe(text)
                self.assertIsInstance(found, Unknown)
                self.assertIn("[libvirt] cpu_power_management", found.reason)


class IdleHostTest(trees.TreeTest):
    """The whole host, whose dedicated pCPUs have no guest."""

    def setUp(self) -> None:
        super().setUp()
        self.tree.write("proc/irq/26/smp_affinity_list", "0\n")
        self.tree.write("proc/irq/26/effective_affinity_list", "0\n")

    def codes(self):
        facts = Observer(self.root, "rt-1", "rt-1", trees.SOURCES).observe()
        found = readiness.judge(decisive(facts), placed_by_nova=True)
        return [each.code for each in found.must]

    def test_pcpus_that_nova_took_offline(self):
        self.assertEqual([], self.codes())
        self.tree.take_offline(trees.ISOLATED)
        self.assertEqual(["cpus_offline"], self.codes())
        self.tree.write(OPTIONS, f"{ON}true\n")
        self.assertEqual([], self.codes())

    def test_pcpus_that_nova_gave_a_governor(self):
        for policy in (0, 8):
            path = f"{CPU}/cpufreq/policy{policy}/scaling_governor"
            self.tree.write(path, "powersave\n")
        self.assertEqual(["frequency_varies"], self.codes())
        self.tree.write(
            OPTIONS, f"{ON}true\ncpu_power_management_strategy=governor\n"
        )
        self.assertEqual([], self.codes())

    def test_one_thread_of_each_core(self):
        # 10-11 and 14-15 are the hyper-threads of the host's 2-3 and 6-7.
        self.tree.write(OPTIONS, f"{ON}true\n")
        self.tree.write(
            "etc/nova/nova.conf.d/sets.conf",
            "[compute]\ncpu_dedicated_set = 10-11,14-15\n",
        )
        self.assertEqual(["siblings_shared"], self.codes())
        self.tree.take_offline("10-11,14-15")
        self.assertEqual(["cores_unknown"], self.codes())

    def test_dedicated_pcpus_that_a_slice_hides(self):
        self.tree.guest_cgroup("0-13", "0-13", "member")
        self.assertEqual(["cpus_outside_cgroup"], self.codes())

    def test_isolated_by_the_partition_of_guests(self):
        self.tree.write(f"{CPU}/isolated", "\n")
        cmdline = self.tree.path / "proc/cmdline"
        text = cmdline.read_text().replace(",domain", "")
        self.tree.write("proc/cmdline", text)
        self.tree.guest_cgroup("1-3,6-7,10-11,14-15", "", "member")
        self.assertEqual(["cpus_not_isolated"], self.codes())
        self.tree.guest_cgroup("1-3,6-7,10-11,14-15", "", "isolated")
        self.assertEqual([], self.codes())


class PolicyTest(trees.TreeTest):
    """cpufreq of CPUs that are offline."""

    def test_what_is_busy_has_no_governor(self):
        self.tree.take_offline("8-15")
        for name in ("affected_cpus", "scaling_governor"):
            path = f"{CPU}/cpufreq/policy8/{name}"
            self.fail_reading(path, errno.EBUSY)
        self.assertEqual(
            (Governor("performance", frozenset(range(8))),),
            cpus.observe(self.root).governors,
        )

    def test_what_is_busy_though_its_cpu_is_online(self):
        path = f"{CPU}/cpufreq/policy8/affected_cpus"
        self.fail_reading(path, errno.EBUSY)
        self.assertIsInstance(cpus.observe(self.root).governors, Unknown)

    def test_idle_states_are_those_of_no_housekeeping_cpu(self):
        self.tree.take_offline(trees.ISOLATED)
        self.assertEqual((), cpus.observe(self.root).idle_states)


class ConditionTest(trees.TreeTest):
    """A certificate does not end with a guest."""

    def online(self):
        nova = compute.observe(self.root)
        return conditions.observe(self.root, nova)["online CPUs"]

    def test_pcpus_that_nova_took_offline_count_as_online(self):
        self.tree.write(OPTIONS, f"{ON}true\n")
        self.assertEqual("0-15", self.online())
        self.tree.take_offline("2-3")
        self.assertEqual("0-15", self.online())

    def test_others_do_not(self):
        self.tree.take_offline("2-3")
        self.assertEqual("0-1,4-15", self.online())
        self.tree.write(OPTIONS, f"{ON}true\n")
        self.tree.take_offline("1")
        self.assertEqual("0,2-15", self.online())
