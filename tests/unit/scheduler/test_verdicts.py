# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest
import weakref
from unittest import mock

import hypothesis
from hypothesis import strategies

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.scheduler import verdicts
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.scheduler.verdicts import Verdicts
from tests.unit import builders
from tests.unit.scheduler.fakes import MAX_AGE_S
from tests.unit.scheduler.fakes import Clock
from tests.unit.scheduler.fakes import put
from tests.unit.scheduler.fakes import states

REALTIME = request.parse(
    {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
)
CERTIFIED = request.parse({"sriov_rt:max_latency_us": "50"})

FAST = dataclasses.replace(
    request.parse({"sriov_rt:onload": "required"}),
    attachments=(request.Attachment("net-a", "fast"),),
)


class VerdictsCase(unittest.TestCase):
    def setUp(self):
        self.clock, self.wall = Clock(), Clock(1_790_000_000.0)
        self.table = FactsTable(100, MAX_AGE_S, self.clock)
        self.verdicts = Verdicts(self.table, MAX_AGE_S, self.clock, self.wall)

    def put(self, name: str, **parts: dict) -> None:
        put(self.table, builders.realtime_host(name, **parts))

    def names(self, asked: request.Request, *hosts: str) -> list[str]:
        return [h.host for h in self.verdicts.passing(asked, states(*hosts))]

    def codes(self, asked: request.Request, host: str) -> list[str]:
        (state,) = states(host)
        return [r.code for r in self.verdicts.why_not(asked, state)]


class PassingTest(VerdictsCase):
    def test_hosts_that_satisfy_pass_in_their_order(self):
        for name in ("a", "c"):
            self.put(name)
        self.put("b", memory={"ksm_run": 1})
        self.assertEqual(["c", "a"], self.names(REALTIME, "c", "b", "a"))
        self.assertEqual(["ksm_running"], self.codes(REALTIME, "b"))

    def test_a_host_never_heard_of_fails(self):
        self.assertEqual([], self.names(REALTIME, "a"))
        self.assertEqual(["facts_missing"], self.codes(REALTIME, "a"))

    def test_stale_facts_fail_whatever_they_say(self):
        self.put("a")
        self.clock.now += MAX_AGE_S
        self.assertEqual(["a"], self.names(REALTIME, "a"))
        self.clock.now += 1
        self.assertEqual([], self.names(REALTIME, "a"))
        self.assertEqual(["facts_stale"], self.codes(REALTIME, "a"))

    def test_new_facts_take_back_what_the_old_ones_gave(self):
        self.put("a")
        self.assertEqual(["a"], self.names(REALTIME, "a"))
        self.put("a", kernel={"timer_migration": True})
        self.assertEqual([], self.names(REALTIME, "a"))
        self.put("a")
        self.assertEqual(["a"], self.names(REALTIME, "a"))

    def test_a_certificate_expires_between_two_requests(self):
        certificate = facts.LatencyCertificate(
            20, "6.1.0-44-rt-amd64", self.wall.now + 5
        )
        self.put("a", latency={"certificate": certificate})
        self.assertEqual(["a"], self.names(CERTIFIED, "a"))
        self.wall.now += 5
        self.assertEqual([], self.names(CERTIFIED, "a"))
        self.assertEqual(["latency_expired"], self.codes(CERTIFIED, "a"))

    def counted(self) -> mock.Mock:
        """Return a mock that counts the decisions made."""
        patch = mock.patch.object(
            decide, "satisfies", side_effect=decide.satisfies
        )
        self.addCleanup(patch.stop)
        return patch.start()

    def test_a_verdict_is_kept_until_the_facts_of_its_host_change(self):
        satisfies = self.counted()
        names = [f"h{n}" for n in range(50)]
        for name in names:
            self.put(name)
        for _ in range(3):
            self.assertEqual(names, self.names(REALTIME, *names))
        self.assertEqual(50, satisfies.call_count)
        self.put("h7", memory={"ksm_run": 1})
        self.assertEqual(49, len(self.names(REALTIME, *names)))
        self.assertEqual(51, satisfies.call_count)

    def test_equal_requests_share_their_verdicts(self):
        satisfies = self.counted()
        self.put("a")
        for limit in ("50", "50", "60"):
            asked = request.parse({"sriov_rt:max_latency_us": limit})
            self.names(asked, "a")
        self.assertEqual(2, satisfies.call_count)

    def test_verdicts_go_with_the_facts_and_the_least_used_request(self):
        satisfies = self.counted()
        self.put("a")
        entry = weakref.ref(self.table.entries["a"])
        asked = [
            request.Request(max_latency_us=1 + n)
            for n in range(verdicts.MAX_REQUESTS + 1)
        ]
        for each in asked:
            self.names(each, "a")
        satisfies.reset_mock()
        self.names(asked[-1], "a")
        self.assertEqual(0, satisfies.call_count)
        self.names(asked[0], "a")
        self.assertEqual(1, satisfies.call_count)
        self.table.forget("a")
        self.assertIsNone(entry())

    def test_known_only_when_every_host_is_fresh(self):
        self.put("a")
        self.assertFalse(self.verdicts.known(states("a", "b")))
        self.put("b")
        self.assertTrue(self.verdicts.known(states("a", "b")))
        self.clock.now += MAX_AGE_S + 1
        self.assertFalse(self.verdicts.known(states("a", "b")))


class OnloadTest(VerdictsCase):
    def setUp(self):
        super().setUp()
        for name in ("a", "b"):
            put(self.table, builders.onload_host(name))

    def asked(self, *networks: str | None) -> request.Request:
        return dataclasses.replace(
            request.parse({"sriov_rt:onload": "required"}),
            attachments=tuple(
                request.Attachment(each, "fast") for each in networks
            ),
        )

    def test_an_endpoint_keeps_its_network_off_its_host(self):
        put(self.table, builders.onload_host("a", builders.endpoint("net-a")))
        asked = self.asked("net-a")
        self.assertEqual(["b"], self.names(asked, "a", "b"))
        self.assertEqual(["onload_same_host"], self.codes(asked, "a"))
        self.assertEqual(["a", "b"], self.names(self.asked("net-b"), "a", "b"))
        self.assertEqual(["a", "b"], self.names(self.asked(None), "a", "b"))

    def test_an_instances_own_endpoint_does_not_keep_it_off(self):
        put(self.table, builders.onload_host("a", builders.endpoint()))
        hosts, asked = states("a"), self.asked("net-a")
        self.assertEqual(
            hosts,
            self.verdicts.passing(asked, hosts, builders.endpoint().instance),
        )
        self.assertEqual([], self.verdicts.passing(asked, hosts, "inst-2"))

    def test_endpoints_that_are_unknown(self):
        spoilt = {"endpoints": Unknown("no right to enter")}
        put(self.table, builders.onload_host("a", vifs=spoilt))
        self.assertEqual(
            ["fact_unknown"], self.codes(self.asked("net-a"), "a")
        )
        self.assertEqual([], self.names(self.asked("net-a"), "a"))
        self.assertEqual(["a"], self.names(self.asked(None), "a"))

    def test_where_an_instance_has_endpoints(self):
        put(self.table, builders.onload_host("a", builders.endpoint()))
        put(
            self.table,
            builders.onload_host("b", builders.endpoint("net-b", "eth9")),
        )
        spoilt = {"endpoints": Unknown("no right to enter")}
        put(self.table, builders.onload_host("c", vifs=spoilt))
        self.assertEqual(
            {
                request.Attachment("net-a", "fast"),
                request.Attachment("net-b", None),
            },
            set(self.verdicts.endpoints_of("inst-1")),
        )
        self.assertEqual((), self.verdicts.endpoints_of("inst-2"))

    def test_networks_and_endpoints_need_no_other_verdict(self):
        for number in range(20):
            own = builders.endpoint(f"net-{number}", instance=f"i-{number}")
            put(self.table, builders.onload_host(f"h{number}", own))
        names = [f"h{number}" for number in range(20)]
        with mock.patch.object(
            decide, "satisfies", side_effect=decide.satisfies
        ) as satisfies:
            for number in range(20):
                self.names(self.asked(f"net-{number}"), *names)
        self.assertEqual(20, satisfies.call_count)

    def test_refusals_tell_the_hosts_that_are_taken_from_the_others(self):
        put(self.table, builders.onload_host("a", builders.endpoint("net-a")))
        found = self.verdicts.refusals(
            self.asked("net-a"), states("a", "b", "x")
        )
        told = [([r.code for r in f.reasons], f.hosts) for f in found]
        self.assertEqual(
            [(["onload_same_host"], ["a"]), (["facts_missing"], ["x"])], told
        )


def unknown_part(name: str) -> dict[str, Unknown]:
    spoilt = facts.unknown(name, "no such file")
    return {
        field.name: getattr(spoilt, field.name)
        for field in dataclasses.fields(spoilt)
    }


class SameAsTheDecisionTest(VerdictsCase):
    @hypothesis.given(
        isolated=strategies.sampled_from(["", "2", "2-3"]),
        dedicated=strategies.sampled_from([None, "", "2-3", "0-3"]),
        effective=strategies.sampled_from(["0", "2", "1-3"]),
        unknown=strategies.sampled_from([None, *facts.PARTS]),
        expires=strategies.sampled_from([None, -5.0, 0.0, 5.0]),
        asked=strategies.sampled_from([REALTIME, CERTIFIED, FAST]),
        endpoint=strategies.sampled_from([None, "net-a", "net-b"]),
    )
    @hypothesis.settings(deadline=None, derandomize=True)
    def test_what_is_kept_decides_as_what_was_sent(
        self,
        isolated,
        dedicated,
        effective,
        unknown,
        expires,
        asked,
        endpoint,
    ):
        cpus = builders.cpus
        certificate = expires is not None and facts.LatencyCertificate(
            20, "6.1.0-44-rt-amd64", self.wall.now + expires
        )
        given = None if dedicated is None else cpus(dedicated)
        group = facts.IrqGroup(cpus("0-3"), cpus(effective), (24,))
        parts = {
            "cpus": {"isolated": cpus(isolated)},
            "compute": {"dedicated": given},
            "irqs": {"groups": (group,)},
            "latency": {"certificate": certificate or None},
        }
        if unknown is not None:
            parts[unknown] = unknown_part(unknown)
        there = () if endpoint is None else (builders.endpoint(endpoint),)
        host = builders.onload_host("a", *there, **parts)
        put(self.table, host)
        view = decide.View(self.wall.now, 0.0, MAX_AGE_S)
        wanted = [
            r.code for r in decide.why_not(asked, facts.decisive(host), view)
        ]
        self.assertEqual(wanted, self.codes(asked, "a"))
        passing = self.verdicts.passing(asked, states("a"))
        self.assertEqual(not wanted, bool(passing))


class RefusalsTest(VerdictsCase):
    def test_hosts_with_the_same_reasons_stand_together(self):
        for name in ("a", "b"):
            self.put(name, memory={"ksm_run": 1})
        self.put("ok")
        found = self.verdicts.refusals(REALTIME, states("a", "b", "ok", "x"))
        told = [([r.code for r in f.reasons], f.hosts) for f in found]
        self.assertEqual(
            [(["ksm_running"], ["a", "b"]), (["facts_missing"], ["x"])], told
        )

    def test_stale_hosts_are_told_by_their_age(self):
        self.put("a")
        self.clock.now += 100
        self.put("b")
        self.clock.now += 100
        found = self.verdicts.refusals(REALTIME, states("a", "b"))
        ages = [f.reasons[0].fields["age_s"] for f in found]
        self.assertEqual([200, 100], ages)

    def test_the_summary_counts_hosts_by_code(self):
        self.put("a", memory={"ksm_run": 1, "thp": "always"})
        self.put("b", memory={"ksm_run": 1})
        found = self.verdicts.refusals(REALTIME, states("a", "b", "x"))
        self.assertEqual(
            "ksm_running × 2, thp_always × 1, facts_missing × 1",
            verdicts.summary(found),
        )

    def test_each_host_is_named_once_in_lines_of_bounded_length(self):
        names = [f"h{n}" for n in range(2 * verdicts.HOSTS_A_LINE + 1)]
        found = self.verdicts.refusals(REALTIME, states(*names))
        told = list(verdicts.lines(found))
        self.assertEqual(3, len(told))
        named = [
            name
            for line in told
            for name in line.partition(": ")[0].split(", ")
        ]
        self.assertEqual(names, named)
        self.assertIn("facts_missing: no facts", told[0])
