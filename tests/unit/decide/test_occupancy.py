# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request as requests
from sriov_rt.codec import Unknown
from sriov_rt.decide import occupancy
from sriov_rt.facts import CpuSet
from sriov_rt.facts import OccupancyFacts
from sriov_rt.facts import Occupant
from sriov_rt.facts import decisive
from sriov_rt.host import readiness
from tests.unit import builders

PMD = Occupant(
    *("thread", "pinned", "pmd-c03/id:8", CpuSet((3,)), "ovs-vswitchd"),
    *("openvswitch-switch.service", 71, 1, 100, 1000.0),
)
CPUS = {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}


def host(*occupants, **more):
    found = OccupancyFacts(occupants, **more)
    whole = dataclasses.replace(builders.realtime_host(), occupancy=found)
    return decisive(whole)


def judge(*occupants, nova=True, **more):
    return readiness.judge(host(*occupants, **more), placed_by_nova=nova)


class PinnedTest(unittest.TestCase):
    def test_it_refuses_realtime_flavors(self):
        (found,) = decide.why_not(
            requests.parse(CPUS), host(PMD), decide.View(0.0)
        )
        self.assertEqual("pcpus_occupied", found.code)
        self.assertEqual(
            "thread 'pmd-c03/id:8' of ovs-vswitchd "
            "(openvswitch-switch.service) is pinned to dedicated pCPUs 3 "
            "(100 % of a CPU)",
            found.problem,
        )
        self.assertEqual(
            "run 'ovs-vsctl set Open_vSwitch . "
            "other_config:pmd-cpu-mask=0x3', or take them out of [compute] "
            "cpu_dedicated_set in nova.conf",
            found.remedy,
        )

    def test_other_flavors_and_other_cpus(self):
        view = decide.View(0.0)
        plain = requests.parse({"sriov_rt:kernel": "any"})
        self.assertEqual((), decide.why_not(plain, host(PMD), view))
        elsewhere = dataclasses.replace(PMD, cpus=CpuSet((9,)))
        realtime = requests.parse(CPUS)
        self.assertEqual((), decide.why_not(realtime, host(elsewhere), view))

    def test_without_nova_it_is_left_out(self):
        found = judge(PMD, nova=False)
        self.assertEqual((), found.must)
        self.assertIn("pcpus_left_out", {x.code for x in found.should})

    def test_what_may_run_there_is_advice(self):
        found = judge(dataclasses.replace(PMD, state="may"))
        self.assertEqual((), found.must)
        self.assertIn("pcpus_exposed", {x.code for x in found.should})

    def test_what_is_not_known(self):
        unread = dataclasses.replace(
            builders.realtime_host(), occupancy=OccupancyFacts(Unknown("gone"))
        )
        found = readiness.judge(decisive(unread), placed_by_nova=True)
        self.assertEqual(["fact_unknown"], [x.code for x in found.must])
        # An agent of before this fact.
        older = decisive(builders.realtime_host())
        self.assertEqual((), readiness.judge(older, placed_by_nova=True).must)
        self.assertIn(
            "threads_unread", {x.code for x in judge(unread=3).should}
        )

    def test_an_interrupt_is_said_once(self):
        there = Occupant("interrupt", "runs", "45 (nvme0q1)", CpuSet((3,)))
        (found,) = judge(there).must
        self.assertIn("interrupt 45 (nvme0q1) fires on", found.message)
        self.assertIn("/proc/irq/45/smp_affinity_list", found.remedy)
        group = facts.IrqGroup(CpuSet((3,)), CpuSet((3,)), (45,), False)
        whole = builders.realtime_host(irqs={"groups": (group,)})
        whole = dataclasses.replace(whole, occupancy=OccupancyFacts((there,)))
        found = readiness.judge(decisive(whole), placed_by_nova=True)
        self.assertEqual(["irqs_on_dedicated"], [x.code for x in found.must])
        self.assertIn("interrupts 45 (nvme0q1) are", found.must[0].message)


class OwnerTest(unittest.TestCase):
    """Each owner's own way to leave a CPU."""

    def test_remedies(self):
        for kind, name, process, unit, expected in (
            ("mask", "pmd-cpu-mask", "ovs-vswitchd", "", "pmd-cpu-mask=0x3"),
            ("thread", "vpp_wk_0", "vpp", "vpp.service", "corelist-workers"),
            ("thread", "lcore-worker-3", "fwd", "", "option -l"),
            ("thread", "rx", "feed", "feed.service", "CPUAffinity=0-1 in a"),
            (
                *("thread", "x", "x", "docker-0123456789ab.scope"),
                "--cpuset-cpus=0-1",
            ),
            ("thread", "x", "x", "session-3.scope", "taskset -apc 0-1 7"),
            ("kernel_thread", "kvm-pit/9", "", "", "<timer name='pit'"),
            ("kernel_thread", "irq/26-x", "", "", "smp_affinity_list"),
            ("kernel_thread", "kswapd1", "", "", "taskset -pc 0-1'"),
            ("kernel_thread", "kcompactd0", "", "", "taskset -pc 0-1'"),
            ("kernel_thread", "scsi_eh_0", "", "", "in spite of nohz_full=3"),
            ("of a newer agent", "x", "", "", "taskset -apc 0-1 7"),
        ):
            row = Occupant(
                *(kind, "runs", name, CpuSet((3,)), process, unit, 7)
            )
            (found,) = judge(row).must
            with self.subTest(name):
                self.assertIn(expected, found.remedy)
                self.assertIn("cpu_dedicated_set", found.remedy)

    def test_what_nohz_full_would_keep_off(self):
        row = Occupant("kernel_thread", "may", "scsi_eh_0", CpuSet((3,)))
        whole = builders.realtime_host(cpus={"nohz_full": CpuSet((2,))})
        whole = dataclasses.replace(whole, occupancy=OccupancyFacts((row,)))
        found = readiness.judge(decisive(whole), placed_by_nova=True).should
        (remedy,) = [x.remedy for x in found if x.code == "pcpus_exposed"]
        self.assertTrue(remedy.startswith("boot with nohz_full=3, "), remedy)

    def test_cpus_that_no_guest_is_to_get(self):
        may = Occupant("thread", "may", "x", CpuSet((2,)))
        found = OccupancyFacts((PMD, may))
        self.assertEqual(CpuSet((3,)), occupancy.taken(found))
        self.assertEqual(
            CpuSet(), occupancy.taken(OccupancyFacts(Unknown("x")))
        )
