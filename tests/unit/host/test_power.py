# SPDX-License-Identifier: Apache-2.0

"""What the CPUs do when they are idle, and how fast they run."""

import os
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.facts import Governor
from sriov_rt.facts import IdleState
from sriov_rt.host import cpus
from sriov_rt.host import kernel
from sriov_rt.host import memory
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit.host import trees

CPU = "sys/devices/system/cpu"
ISOLATED = parse_cpu_list(trees.ISOLATED)
EVERY = frozenset(range(16))


class GovernorTest(trees.TreeTest):
    def observe(self):
        return cpus.observe(self.root).governors

    def test_each_with_its_cpus(self):
        self.assertEqual((Governor("performance", EVERY),), self.observe())
        path = f"{CPU}/cpufreq/policy8/scaling_governor"
        self.tree.write(path, "powersave\n")
        self.assertEqual(
            (
                Governor("performance", frozenset(range(8))),
                Governor("powersave", frozenset(range(8, 16))),
            ),
            self.observe(),
        )
        self.tree.make_unreadable(path)
        self.assertEqual(Unknown(f"/{path}: Is a directory"), self.observe())

    def test_a_policy_whose_cpus_are_offline(self):
        self.tree.write(f"{CPU}/cpufreq/policy8/affected_cpus", "\n")
        self.tree.remove(f"{CPU}/cpufreq/policy8/scaling_governor")
        self.assertEqual(1, len(self.observe()))

    def test_a_policy_of_an_online_cpu_whose_cpus_cannot_be_read(self):
        """It is not that of a CPU that is offline."""
        self.tree.make_unreadable(f"{CPU}/cpufreq/policy8/affected_cpus")
        self.assertIsInstance(self.observe(), Unknown)
        self.tree.write(f"{CPU}/online", "0-7\n")
        self.assertEqual(1, len(self.observe()))

    def test_a_kernel_that_does_not_scale(self):
        self.tree.remove(f"{CPU}/cpufreq")
        self.assertEqual((), self.observe())


class IdleTest(trees.TreeTest):
    def observe(self):
        return cpus.observe(self.root).idle_states

    def allow(self, text, cpu=3):
        path = f"{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"
        self.tree.write(path, f"{text}\n")

    def test_only_what_leaves_at_once(self):
        self.assertEqual((IdleState("POLL", 0, ISOLATED),), self.observe())

    def test_the_deepest_that_is_allowed(self):
        three = frozenset({3})
        for text, state in (
            ("0", IdleState("C6", 133, three)),
            ("133", IdleState("C6", 133, three)),
            ("132", IdleState("C1", 2, three)),
            ("1", IdleState("POLL", 0, ISOLATED)),
        ):
            with self.subTest(text):
                self.allow(text)
                self.assertIn(state, self.observe())

    def test_a_state_that_is_switched_off(self):
        self.allow("0")
        self.tree.write(f"{CPU}/cpu3/cpuidle/state2/disable", "1\n")
        self.assertIn(IdleState("C1", 2, frozenset({3})), self.observe())

    def test_a_bound_on_all_cpus(self):
        self.allow("0")
        with mock.patch.object(
            Root, "read_device", return_value=(2).to_bytes(4, "little")
        ):
            self.assertIn(IdleState("C1", 2, frozenset({3})), self.observe())

    def test_a_bound_that_cannot_be_read(self):
        self.tree.write(cpus.DMA_LATENCY, "")
        self.assertEqual((IdleState("POLL", 0, ISOLATED),), self.observe())
        self.allow("0")
        self.assertEqual(
            Unknown(f"/{cpus.DMA_LATENCY}: not a character device"),
            self.observe(),
        )
        # What is shallow without a bound is so with one.
        self.tree.write(f"{CPU}/cpu3/cpuidle/state2/disable", "1\n")
        self.assertIn(IdleState("C1", 2, frozenset({3})), self.observe())

    def test_without_an_idle_driver(self):
        for cpu in range(16):
            self.tree.remove(f"{CPU}/cpu{cpu}/cpuidle")
        self.assertEqual((), self.observe())

    def test_garbled(self):
        for path, text in (
            (f"{CPU}/cpu3/power/pm_qos_resume_latency_us", "soon\n"),
            (f"{CPU}/cpu3/cpuidle/state2/latency", "x\n"),
        ):
            before = (self.tree.path / path).read_text()
            self.allow("0")
            self.tree.write(path, text)
            with self.subTest(path):
                self.assertIn(f"/{path}: ", self.observe().reason)
            self.tree.write(path, before)

    def test_all_cpus_where_none_is_isolated(self):
        self.tree.write(f"{CPU}/isolated", "\n")
        self.assertEqual((IdleState("POLL", 0, EVERY),), self.observe())


class DeviceTest(trees.TreeTest):
    def test_what_a_device_answers(self):
        root = Root("/")
        self.assertEqual(b"\0\0", root.read_device("dev/zero", 2))
        self.assertEqual(b"", root.read_device("dev/null", 2))
        self.assertIn("not a character", root.read_device("etc", 2).reason)
        os.mkfifo(self.tree.path / "dev/fifo")
        found = self.root.read_device("dev/fifo", 2)
        self.assertIn("not a character device", found.reason)


class BackgroundTest(trees.TreeTest):
    def test_workqueues(self):
        found = cpus.observe(self.root).workqueues
        self.assertEqual(parse_cpu_list(trees.HOUSEKEEPING), found)
        self.tree.remove("sys/devices/virtual/workqueue")
        self.assertIsInstance(cpus.observe(self.root).workqueues, Unknown)

    def test_watchdog(self):
        sysctl = "proc/sys/kernel"
        found = kernel.observe(self.root).watchdog
        self.assertEqual(parse_cpu_list(trees.HOUSEKEEPING), found)
        for name in ("watchdog", "soft_watchdog"):
            self.tree.write(f"{sysctl}/{name}", "0\n")
            self.assertEqual(frozenset(), kernel.observe(self.root).watchdog)
            self.tree.write(f"{sysctl}/{name}", "1\n")
        self.tree.write(f"{sysctl}/watchdog_cpumask", "x\n")
        self.assertIsInstance(kernel.observe(self.root).watchdog, Unknown)
        self.tree.remove(f"{sysctl}/soft_watchdog")
        self.assertEqual(frozenset(), kernel.observe(self.root).watchdog)

    def test_clock_source(self):
        self.assertEqual("tsc", kernel.observe(self.root).clock_source)
        self.tree.remove(kernel.CLOCK_SOURCE)
        self.assertIsInstance(kernel.observe(self.root).clock_source, Unknown)

    def test_swap(self):
        self.assertEqual((), memory.observe(self.root).swap)
        self.tree.write(
            "proc/swaps",
            "Filename\tType\n/dev/dm-1 partition 9 0 -2\n/swap file 1 0 -3\n",
        )
        self.assertEqual(
            ("/dev/dm-1", "/swap"), memory.observe(self.root).swap
        )
        self.tree.write("proc/swaps", "garbage\n")
        self.assertIsInstance(memory.observe(self.root).swap, Unknown)
        self.tree.remove("proc/swaps")
        self.assertEqual((), memory.observe(self.root).swap)


class NulTest(trees.TreeTest):
    """Some kernels end a list with a NUL."""

    def test_lists_of_cpus(self):
        for name, text in (
            ("isolated", f"{trees.ISOLATED}\n\0"),
            ("nohz_full", f"{trees.ISOLATED}\0\n"),
            ("online", "0-15\0"),
        ):
            self.tree.write(f"{CPU}/{name}", text)
        found = cpus.observe(self.root)
        self.assertEqual(ISOLATED, found.isolated)
        self.assertEqual(ISOLATED, found.nohz_full)
        self.assertEqual(EVERY, found.online)

    def test_no_cpu(self):
        self.tree.write(f"{CPU}/isolated", "\0\n")
        self.assertEqual(frozenset(), cpus.observe(self.root).isolated)
