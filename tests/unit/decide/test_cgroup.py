# SPDX-License-Identifier: Apache-2.0

import dataclasses

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.decide import realtime
from sriov_rt.facts import CgroupPartition
from sriov_rt.facts import GuestCgroup
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from tests.unit import builders
from tests.unit.decide.case import REALTIME
from tests.unit.decide.case import VIEW
from tests.unit.decide.case import DecideTestCase

ROOT = "/sys/fs/cgroup"
SLICE = f"{ROOT}/machine.slice"
EVERY = GuestCgroup(SLICE, cpus("0-3"), "member")
UNISOLATED = {"isolated": cpus("")}


class CgroupTest(DecideTestCase):
    def judge(self, found, view=VIEW, **changed):
        return self.codes(cpus={"guest_cgroup": found, **changed}, view=view)

    def test_no_limit(self):
        for found in (None, facts.NOT_REPORTED, EVERY):
            with self.subTest(found):
                self.assertEqual([], self.judge(found))

    def test_unknown(self):
        self.assertEqual(["fact_unknown"], self.judge(Unknown("garbled")))

    def test_allowed_cpus_without_dedicated_ones(self):
        found = dataclasses.replace(EVERY, cpus=cpus("0-2"))
        self.assertEqual(["cpus_outside_cgroup"], self.judge(found))
        message = self.message(
            "cpus_outside_cgroup", cpus={"guest_cgroup": found}
        )
        self.assertIn("dedicated pCPUs 3 are out of reach", message)
        self.assertIn("AllowedCPUs=", message)

    def test_the_partition_of_another(self):
        other = CgroupPartition(f"{ROOT}/rt.slice", cpus("2"))
        found = dataclasses.replace(EVERY, cpus=cpus("0-1"), others=(other,))
        self.assertEqual(
            ["cpus_in_other_partition", "cpus_outside_cgroup"],
            self.judge(found),
        )
        self.assertIn(
            f"the cpuset partition {ROOT}/rt.slice has them",
            self.message(
                "cpus_in_other_partition", cpus={"guest_cgroup": found}
            ),
        )

    def test_version_1_has_other_remedies(self):
        # systemd's AllowedCPUs= is for the unified hierarchy alone.
        path = "/sys/fs/cgroup/cpuset/machine"
        other = CgroupPartition("/sys/fs/cgroup/cpuset/rt", cpus("3"))
        for others, code, words in (
            ((), "cpus_outside_cpuset", "write 0-3 to its cpuset.cpus"),
            ((other,), "cpus_exclusive", "take them out of its cpuset.cpus"),
        ):
            with self.subTest(code):
                found = GuestCgroup(path, cpus("0-2"), None, others)
                self.assertEqual([code], self.judge(found))
                told = self.message(code, cpus={"guest_cgroup": found})
                self.assertIn(words, told)
                self.assertNotIn("AllowedCPUs", told)

    def test_no_housekeeping_cpu_is_told_once(self):
        every = cpus("0-3")
        found = self.codes(
            cpus={"isolated": every, "nohz_full": every},
            compute={"dedicated": every},
            irqs={"default_affinity": every},
        )
        self.assertEqual(["no_housekeeping"], found)

    def test_a_node_whose_guests_may_be_pods(self):
        found = GuestCgroup(ROOT, cpus("0-2"))
        self.assertEqual(["cpus_outside_cgroup"], self.judge(found))
        elsewhere = decide.View(now=VIEW.now, placed_by_nova=False)
        host = builders.realtime_host(
            cpus={"guest_cgroup": found}, compute={"dedicated": None}
        )
        asked = request.parse(REALTIME)
        self.assertEqual(
            (), decide.why_not(asked, facts.decisive(host), elsewhere)
        )

    def test_an_isolated_partition_of_guests(self):
        # The source has its CPUs among the isolated ones.
        found = GuestCgroup(SLICE, cpus("1-3"), "isolated")
        self.assertEqual([], self.judge(found, isolated=cpus("1-3")))

    def test_the_kernel_s_reason_is_quoted(self):
        state = "isolated invalid (Cpu list in cpuset.cpus not exclusive)"
        found = dataclasses.replace(EVERY, partition=state)
        self.assertEqual(
            ["cpus_not_isolated", "partition_invalid"],
            self.judge(found, **UNISOLATED),
        )
        self.assertIn(
            f"is '{state}'",
            self.message(
                "partition_invalid",
                cpus={"guest_cgroup": found, **UNISOLATED},
            ),
        )
        # It is not needed where isolcpus has them all.
        self.assertEqual([], self.judge(found))

    def test_both_ways_of_isolating(self):
        message = self.message(
            "cpus_not_isolated",
            cpus={"guest_cgroup": EVERY, "isolated": cpus("2")},
        )
        self.assertIn("boot with isolcpus=managed_irq,domain,2-3,", message)
        self.assertIn(f"make {SLICE} an isolated partition", message)

    def test_no_cpu_for_emulator_threads(self):
        found = GuestCgroup(SLICE, cpus("2-3"), "isolated")
        self.assertEqual([], self.judge(found))
        host = builders.realtime_host(cpus={"guest_cgroup": found})
        advice = realtime.advice(host, placed_by_nova=True)
        self.assertEqual(
            ["cgroup_without_housekeeping"], [each.code for each in advice]
        )

    def test_schedulers_decide_as_explain_does(self):
        other = CgroupPartition(f"{ROOT}/rt.slice", cpus("2-3"))
        host = builders.realtime_host(
            cpus={
                "guest_cgroup": GuestCgroup(ROOT, cpus("0-1"), None, (other,)),
                "offline": cpus(""),
            },
            compute={
                "power_management": facts.PowerManagement(
                    "governor", "powersave", "ondemand"
                )
            },
        )
        asked = request.parse(REALTIME)
        again = facts.from_plain(host.to_plain())
        self.assertEqual(host, again)
        found = decide.why_not(asked, facts.decisive(host), VIEW)
        self.assertEqual(2, len(found))
        self.assertEqual(
            found, decide.why_not(asked, facts.decisive(again), VIEW)
        )
