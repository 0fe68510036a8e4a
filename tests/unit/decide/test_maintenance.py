# SPDX-License-Identifier: Apache-2.0

from sriov_rt import decide
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import HostHold
from sriov_rt.facts import decisive
from sriov_rt.host import readiness
from sriov_rt.labels import own
from tests.unit import builders
from tests.unit.decide import case

FOUND = HostHold("alice", "kernel 6.12; reboot", 1_790_000_000.0)
HOLD = {"hold": FOUND}


class MaintenanceTest(case.DecideTestCase):
    def test_a_host_on_hold_takes_no_realtime_guest(self):
        self.assertEqual([], self.codes())
        self.assertEqual(["host_on_hold"], self.codes(maintenance=HOLD))
        self.assertIn(
            "host_on_hold",
            self.codes({"sriov_rt:max_latency_us": "9"}, maintenance=HOLD),
        )

    def test_other_flavors_are_not_concerned(self):
        for specs in ({}, {"sriov_rt:nic": "any"}, {"hw:cpu_realtime": "yes"}):
            with self.subTest(specs):
                self.assertEqual([], self.codes(specs, maintenance=HOLD))

    def test_the_sentence_says_who_why_and_until_when(self):
        found = self.message("host_on_hold", maintenance=HOLD)
        self.assertIn("alice put this host on hold at 2026-09-21", found)
        self.assertIn("(kernel 6.12; reboot), without an end; run", found)
        ends = HostHold("bob", "NIC", 0.0, 1_790_003_600.0)
        found = self.message("host_on_hold", maintenance={"hold": ends})
        self.assertIn("until 2026-09-21 15:13 UTC; run 'sriov-rt", found)

    def test_no_time_of_another_host_breaks_the_decision(self):
        for at in (1e300, -1e300, float("nan")):
            odd = HostHold("a", "b", at, at)
            with self.subTest(at):
                self.assertEqual(
                    ["host_on_hold"], self.codes(maintenance={"hold": odd})
                )

    def test_unknown_refuses_and_an_older_agent_does_not(self):
        unread = {"hold": Unknown("EIO")}
        self.assertEqual(["fact_unknown"], self.codes(maintenance=unread))
        older = {"hold": NOT_REPORTED}
        self.assertEqual([], self.codes(maintenance=older))

    def test_the_host_is_not_ready_and_has_no_label(self):
        host = builders.realtime_host(
            maintenance=HOLD, compute={"driver": "1.0"}
        )
        found = readiness.judge(decisive(host), placed_by_nova=True)
        self.assertEqual(["host_on_hold"], [each.code for each in found.must])
        features = own.of(host, case.NOW)
        self.assertNotIn("ready", " ".join(features))
        without = own.of(builders.realtime_host(), case.NOW)
        self.assertIn("ready", " ".join(without))

    def test_it_is_the_hosts_fault_so_that_nova_goes_on(self):
        host = decisive(builders.realtime_host(maintenance=HOLD))
        (found,) = decide.why_not(
            request.parse(case.REALTIME), host, case.VIEW
        )
        self.assertEqual("host", found.fault)
