# SPDX-License-Identifier: Apache-2.0

from sriov_rt.codec import Unknown
from sriov_rt.facts import CgroupPartition
from sriov_rt.facts import GuestCgroup
from sriov_rt.host import cgroup
from sriov_rt.host import cpus
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit.host import trees

ROOT = "sys/fs/cgroup"
SLICE = f"{ROOT}/machine.slice"
CPU = "sys/devices/system/cpu"
EVERY = parse_cpu_list("0-15")


class CgroupTest(trees.TreeTest):
    def observe(self):
        return cpus.observe(self.root).guest_cgroup

    def test_before_the_first_guest_it_is_the_parent(self):
        self.assertEqual(GuestCgroup(f"/{ROOT}", EVERY), self.observe())

    def test_the_cgroup_of_systemd_and_of_others(self):
        self.tree.cgroup("machine", "0-7", "0-7", "member")
        self.assertEqual(
            GuestCgroup(f"/{ROOT}/machine", parse_cpu_list("0-7"), "member"),
            self.observe(),
        )
        self.tree.guest_cgroup("0-15", "", "member")
        self.assertEqual(
            GuestCgroup(f"/{SLICE}", EVERY, "member"), self.observe()
        )

    def test_a_slice_without_the_controller_has_its_parent_s(self):
        self.tree.write(f"{SLICE}/cgroup.procs", "")
        self.assertEqual(f"/{ROOT}", self.observe().path)

    def test_slices_below_it_are_the_operator_s(self):
        """Which of them a guest is in is not known before it starts."""
        self.tree.guest_cgroup("2-7", "2-7", "member")
        for name, chosen in (("rt", "4-7"), ("nort", "2-3")):
            below = f"machine.slice/machine-{name}.slice"
            self.tree.cgroup(below, chosen, chosen, "member")
        self.assertEqual(
            GuestCgroup(f"/{SLICE}", parse_cpu_list("2-7"), "member"),
            self.observe(),
        )

    def test_cpus_that_will_be_back(self):
        self.tree.take_offline("2-3")
        self.assertEqual(EVERY, self.observe().cpus)
        # Nothing was chosen: all that the parent has.
        self.tree.guest_cgroup("0-1,4-15", "", "member")
        self.assertEqual(EVERY, self.observe().cpus)
        self.tree.guest_cgroup("0-1", "0-2", "member")
        self.assertEqual(parse_cpu_list("0-2"), self.observe().cpus)

    def test_a_cpu_that_cannot_be_online_will_not_be_back(self):
        self.tree.take_offline("2")
        self.tree.remove(f"{CPU}/cpu2/online")
        self.assertEqual(EVERY - {2}, self.observe().cpus)

    def test_partitions_of_others(self):
        self.tree.write(f"{ROOT}/{cgroup.EFFECTIVE}", "0-1,4-11\n")
        self.tree.cgroup("rt.slice", "2-3", "2-3", "isolated")
        self.tree.cgroup("pods", "0-15", "", "member")
        self.tree.cgroup("pods/one", "12-15", "12-15", "root")
        self.tree.cgroup("bad", "4-5", "4-5", "isolated invalid (x)")
        self.assertEqual(
            {
                CgroupPartition(f"/{ROOT}/rt.slice", parse_cpu_list("2-3")),
                CgroupPartition(f"/{ROOT}/pods/one", parse_cpu_list("12-15")),
            },
            set(self.observe().others),
        )

    def test_offline_cpus_of_another_s_partition(self):
        self.tree.cgroup("rt.slice", "2", "2-3", "isolated")
        self.tree.take_offline("3")
        self.tree.write(f"{ROOT}/{cgroup.EFFECTIVE}", "0-1,4-15\n")
        found = self.observe()
        self.assertEqual(EVERY - {2, 3}, found.cpus)
        self.assertEqual(parse_cpu_list("2-3"), found.others[0].cpus)

    def test_the_search_ends(self):
        self.tree.write(f"{ROOT}/{cgroup.EFFECTIVE}", "0-13\n")
        self.tree.cgroup("a", "14-15", "14-15", "root")
        self.tree.link(f"{ROOT}/a/again", ".")
        self.assertLessEqual(len(self.observe().others), cgroup.MAX_CGROUPS)

    def test_isolated_by_the_partition_of_guests(self):
        self.tree.write(f"{CPU}/isolated", "\n")
        for state, isolated in (
            ("isolated", "1-3"),
            ("member", ""),
            ("root", ""),
            ("isolated invalid (Cpu list is empty)", ""),
        ):
            with self.subTest(state):
                self.tree.guest_cgroup("1-3", "1-3", state)
                found = cpus.observe(self.root)
                self.assertEqual(parse_cpu_list(isolated), found.isolated)
                self.assertEqual(state, found.guest_cgroup.partition)

    def test_another_s_partition_isolates_nothing_for_guests(self):
        self.tree.write(f"{CPU}/isolated", "\n")
        self.tree.write(f"{ROOT}/{cgroup.EFFECTIVE}", "0-1,4-15\n")
        self.tree.cgroup("rt.slice", "2-3", "2-3", "isolated")
        self.assertEqual(frozenset(), cpus.observe(self.root).isolated)

    def test_version_1(self):
        self.tree.remove(ROOT)
        legacy = f"{ROOT}/cpuset"
        self.tree.write(f"{legacy}/cpuset.cpus", "0-1,4-15\n")
        self.tree.take_offline_alone("2-3")
        self.assertEqual(GuestCgroup(f"/{legacy}", EVERY), self.observe())
        # It lost what went offline, for good.
        self.tree.write(f"{legacy}/machine.slice/cpuset.cpus", "0-1\n")
        self.assertEqual(
            GuestCgroup(f"/{legacy}/machine.slice", parse_cpu_list("0-1")),
            self.observe(),
        )

    def test_version_1_with_exclusive_siblings(self):
        self.tree.remove(ROOT)
        legacy = f"{ROOT}/cpuset"
        for name, listed, exclusive in (
            ("", "0-15", "1"),
            ("machine.slice", "0-3", "0"),
            ("rt", "4-7", "1"),
            ("shared", "8-9", "0"),
            ("empty", "", "1"),
        ):
            directory = f"{legacy}/{name}".rstrip("/")
            self.tree.write(f"{directory}/cpuset.cpus", f"{listed}\n")
            self.tree.write(
                f"{directory}/cpuset.cpu_exclusive", f"{exclusive}\n"
            )
        rt = CgroupPartition(f"/{legacy}/rt", parse_cpu_list("4-7"))
        found = self.observe()
        self.assertEqual(f"/{legacy}/machine.slice", found.path)
        self.assertEqual((rt,), found.others)

    def test_a_kernel_without_cgroups(self):
        self.tree.remove(ROOT)
        self.assertIsNone(self.observe())
        self.tree.write(f"{ROOT}/cgroup.procs", "")
        self.assertIsNone(self.observe())

    def test_a_kernel_without_partitions(self):
        self.tree.guest_cgroup("0-15", "", "member")
        self.tree.remove(f"{SLICE}/{cgroup.STATE}")
        self.assertIsNone(self.observe().partition)

    def test_garbled(self):
        self.tree.guest_cgroup("0-15", "", "member")
        for name in (cgroup.EFFECTIVE, cgroup.STATE, "cpuset.cpus"):
            before = (self.tree.path / SLICE / name).read_text()
            for text in ("x\n", "", "\xff"):
                with self.subTest(name=name, text=text):
                    self.tree.write(f"{SLICE}/{name}", text)
                    self.assertIsInstance(self.observe(), Unknown)
            self.tree.write(f"{SLICE}/{name}", before)
