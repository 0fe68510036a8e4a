# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import Governor
from sriov_rt.facts import GuestCgroup
from sriov_rt.facts import IdleState
from sriov_rt.facts import NumaNode
from sriov_rt.host import cpus
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit.host import trees

CPU = "sys/devices/system/cpu"
ISOLATED = parse_cpu_list(trees.ISOLATED)
EVERY = frozenset(range(16))


class CpusTest(trees.TreeTest):
    def observe(self) -> CpuFacts:
        return cpus.observe(self.root)

    def command_line(self, text: str) -> None:
        self.tree.write("proc/cmdline", f"{text}\n")

    def test_realtime_host(self):
        self.assertEqual(
            CpuFacts(
                online=frozenset(range(16)),
                isolated=ISOLATED,
                nohz_full=ISOLATED,
                rcu_nocbs=ISOLATED,
                isolcpus_flags=("domain", "managed_irq"),
                siblings=tuple(frozenset({n, n + 8}) for n in range(8)),
                numa=(
                    NumaNode(0, parse_cpu_list("0-3,8-11")),
                    NumaNode(1, parse_cpu_list("4-7,12-15")),
                ),
                governors=(Governor("performance", frozenset(range(16))),),
                idle_states=(IdleState("POLL", 0, ISOLATED),),
                workqueues=parse_cpu_list(trees.HOUSEKEEPING),
                offline=frozenset(),
                smt="on",
                guest_cgroup=GuestCgroup("/sys/fs/cgroup", EVERY),
                sched_ext="disabled",
            ),
            self.observe(),
        )

    def test_a_bpf_scheduler(self):
        self.tree.write(cpus.SCHED_EXT, "enabled\n")
        self.assertEqual("enabled", self.observe().sched_ext)
        self.tree.make_unreadable(cpus.SCHED_EXT)
        self.assertIsInstance(self.observe().sched_ext, Unknown)

    def test_blank_line_is_no_cpu(self):
        self.tree.write(f"{CPU}/isolated", "\n")
        self.assertEqual(frozenset(), self.observe().isolated)

    def test_missing_files(self):
        for name in ("isolated", "online"):
            self.tree.remove(f"{CPU}/{name}")
            with self.subTest(name):
                self.assertEqual(
                    Unknown(f"/{CPU}/{name}: No such file or directory"),
                    getattr(self.observe(), name),
                )

    def test_empty_garbled_and_unreadable_files(self):
        for name in ("isolated", "online", "nohz_full"):
            path = f"{CPU}/{name}"
            for text, why in (
                ("", f"/{path}: empty"),
                (
                    "2-\n",
                    f"/{path}: Invalid cpu list '2-' at 2: a CPU or a range "
                    "such as 2-7 or 2-7:1/2 expected.",
                ),
                ("0-4000000000\n", f"/{path}: Invalid cpu list"),
            ):
                with self.subTest(name=name, text=text):
                    self.tree.write(path, text)
                    found = getattr(self.observe(), name)
                    self.assertIsInstance(found, Unknown)
                    self.assertTrue(found.reason.startswith(why), found)
            self.tree.make_unreadable(path)
            with self.subTest(name=name, unreadable=True):
                self.assertEqual(
                    Unknown(f"/{path}: Is a directory"),
                    getattr(self.observe(), name),
                )

    def test_one_bad_file_leaves_the_other_facts(self):
        self.tree.make_unreadable(f"{CPU}/isolated")
        found = self.observe()
        self.assertEqual(frozenset(range(16)), found.online)
        self.assertEqual(ISOLATED, found.nohz_full)

    def test_no_cpu_online_is_not_believed(self):
        self.tree.write(f"{CPU}/online", "\n")
        self.assertEqual(
            Unknown(f"/{CPU}/online: names no CPU"), self.observe().online
        )

    def test_nohz_full_that_was_never_set(self):
        self.tree.write(f"{CPU}/nohz_full", "(null)\n")
        self.assertEqual(frozenset(), self.observe().nohz_full)

    def test_nohz_full_that_is_not_compiled_in(self):
        self.tree.remove(f"{CPU}/nohz_full")
        self.assertEqual(frozenset(), self.observe().nohz_full)

    def test_nohz_full_without_sysfs_is_unknown(self):
        self.tree.remove(f"{CPU}/nohz_full")
        self.tree.remove(f"{CPU}/isolated")
        self.assertIsInstance(self.observe().nohz_full, Unknown)

    def test_nohz_full_cpus_are_rcu_nocbs(self):
        self.command_line("rcu_nocbs=1")
        self.assertEqual(ISOLATED | {1}, self.observe().rcu_nocbs)
        self.command_line("quiet")
        self.assertEqual(ISOLATED, self.observe().rcu_nocbs)

    def test_rcu_nocbs_all_is_every_possible_cpu(self):
        self.command_line("rcu_nocbs=all")
        self.assertEqual(frozenset(range(32)), self.observe().rcu_nocbs)
        self.tree.remove(f"{CPU}/possible")
        self.assertEqual(
            Unknown(
                "/proc/cmdline: rcu_nocbs: Invalid cpu list 'all' at 0: how "
                "many CPUs the host can have is not known."
            ),
            self.observe().rcu_nocbs,
        )

    def test_rcu_nocbs_that_the_kernel_takes_for_all(self):
        # rcu_nocb_setup in kernel/rcu/tree_nocb.h: "bad CPU range".
        for text in ("2-63", "~0", "two", "3-2"):
            with self.subTest(text):
                self.command_line(f"rcu_nocbs={text}")
                found = self.observe().rcu_nocbs
                self.assertEqual(frozenset(range(32)), found)

    def test_rcu_nocbs_without_a_list_is_none_but_nohz_full(self):
        self.command_line("rcu_nocbs")
        self.assertEqual(ISOLATED, self.observe().rcu_nocbs)

    def test_rcu_nocbs_needs_nohz_full(self):
        self.tree.make_unreadable(f"{CPU}/nohz_full")
        self.assertIsInstance(self.observe().rcu_nocbs, Unknown)

    def test_command_line_unknown(self):
        self.tree.remove("proc/cmdline")
        wanted = Unknown("/proc/cmdline: No such file or directory")
        found = self.observe()
        self.assertEqual(wanted, found.rcu_nocbs)
        self.assertEqual(wanted, found.isolcpus_flags)

    def test_isolcpus_flags(self):
        for text, wanted in (
            ("quiet", ()),
            ("isolcpus=2", ("domain",)),
            ("isolcpus=nohz,2", ("nohz",)),
            ("isolcpus=2 isolcpus=managed_irq,2", ("domain", "managed_irq")),
            # For CPU 2 alone, which is not all that is isolated.
            ("isolcpus=2-3 isolcpus=managed_irq,2", ("domain",)),
            ("isolcpus=2 isolcpus=managed_irq,2-3", ("domain", "managed_irq")),
            # Dropped by the kernel, since it has another mask for domain.
            ("isolcpus=2 isolcpus=managed_irq,domain,3", ("domain",)),
        ):
            with self.subTest(text):
                self.command_line(text)
                self.assertEqual(wanted, self.observe().isolcpus_flags)
        self.command_line("isolcpus=two")
        self.assertIsInstance(self.observe().isolcpus_flags, Unknown)

    def test_siblings_by_their_older_name(self):
        for cpu in range(16):
            topology = f"{CPU}/cpu{cpu}/topology"
            self.tree.remove(f"{topology}/core_cpus_list")
            self.tree.write(f"{topology}/thread_siblings_list", f"{cpu}\n")
        self.assertEqual(
            tuple(frozenset({cpu}) for cpu in range(16)),
            self.observe().siblings,
        )

    def test_offline_cpu_has_no_siblings(self):
        self.tree.write(f"{CPU}/online", "0,8\n")
        self.assertEqual((frozenset({0, 8}),), self.observe().siblings)

    def test_sibling_that_is_not_in_its_own_group(self):
        path = f"{CPU}/cpu5/topology/core_cpus_list"
        self.tree.write(path, "6\n")
        self.assertEqual(
            Unknown(f"/{path}: CPU 5 is not in it"), self.observe().siblings
        )

    def test_siblings_unknown(self):
        path = f"{CPU}/cpu5/topology/core_cpus_list"
        self.tree.make_unreadable(path)
        self.assertEqual(
            Unknown(f"/{path}: Is a directory"), self.observe().siblings
        )
        self.tree.remove(f"{CPU}/online")
        self.assertIn("online", self.observe().siblings.reason)

    def test_kernel_without_numa_is_one_node(self):
        self.tree.remove("sys/devices/system/node")
        self.assertEqual(
            (NumaNode(0, frozenset(range(16))),), self.observe().numa
        )
        self.tree.remove(f"{CPU}/online")
        self.assertIsInstance(self.observe().numa, Unknown)

    def test_numa_unknown(self):
        path = "sys/devices/system/node/node1/cpulist"
        self.tree.write(path, "x")
        self.assertIn(f"/{path}: ", self.observe().numa.reason)

    def test_nodes_are_in_the_order_of_their_numbers(self):
        self.tree.write("sys/devices/system/node/node10/cpulist", "\n")
        self.tree.write("sys/devices/system/node/node2/cpulist", "\n")
        self.assertEqual(
            [0, 1, 2, 10], [node.id for node in self.observe().numa]
        )
