# SPDX-License-Identifier: Apache-2.0

import itertools
import json
import threading
import time
import types
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from sriov_rt import config
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.scheduler import listener
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.scheduler.listener import Endpoint
from sriov_rt.scheduler.listener import Listener
from sriov_rt.scheduler.listener import ReportRequests
from sriov_rt.scheduler.verdicts import Verdicts
from sriov_rt.service import messaging
from tests.unit import builders


class EndpointTest(unittest.TestCase):
    def setUp(self):
        self.table = FactsTable(10, 60.0)
        self.wanted: list[str] = []
        self.endpoint = Endpoint(self.table, self.wanted.append)
        self.host = builders.realtime_host("a")

    def _report(self, **changes) -> None:
        arguments = {
            "host": "a",
            "node": "a",
            "digest": self.host.digest(),
            "document": json.dumps(self.host.to_plain()),
            **changes,
        }
        self.endpoint.facts({}, **arguments)

    def _refused(self, **changes) -> None:
        self._report()
        with self.assertLogs(listener.LOG, "WARNING"):
            self._report(**changes)

    def test_facts_are_taken_in(self):
        self._report()
        self.assertIn("a", self.table.entries)

    def test_a_known_digest_is_enough_from_then_on(self):
        self._report()
        self.endpoint.heartbeat({}, "a", "a", self.host.digest())
        self.assertEqual([], self.wanted)

    def test_an_unknown_digest_asks_the_host_for_its_facts(self):
        self._report()
        self.endpoint.heartbeat({}, "a", "a", "00" * 32)
        self.endpoint.heartbeat({}, "b", "b", "00" * 32)
        self.assertEqual(["a", "b"], self.wanted)

    def test_two_agents_of_one_name_are_told_and_neither_is_used(self):
        other = builders.realtime_host("a", memory={"ksm_run": 1})
        verdicts = Verdicts(self.table, 60.0)
        state = types.SimpleNamespace(host="a")
        realtime = request.parse(
            {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
        )

        def report(facts, agent):
            arguments = (
                "a",
                "a",
                facts.digest(),
                json.dumps(facts.to_plain()),
            )
            self.endpoint.facts({messaging.AGENT: agent}, *arguments)

        def codes():
            found = verdicts.why_not(realtime, state)
            return [each.code for each in found]

        report(self.host, "cmp1/1")
        self.assertEqual([], codes())
        report(other, "cmp2/2")
        # The first one is asked whether it is there still.
        self.assertEqual(["a"], self.wanted)
        with self.assertLogs(listener.LOG, "ERROR") as logged:
            report(self.host, "cmp1/1")
            report(other, "cmp2/2")
            heartbeat = (other.digest(),)
            self.endpoint.heartbeat(
                {messaging.AGENT: "cmp1/1"}, "a", "a", *heartbeat
            )
        (said,) = logged.output
        self.assertIn("as host a (cmp1/1, cmp2/2)", said)
        self.assertNotIn("a", self.table.entries)
        self.assertEqual(["agents_of_one_name"], codes())
        self.endpoint.gone({messaging.AGENT: "cmp2/2"}, "a", "a")
        report(self.host, "cmp1/1")
        self.assertEqual([], codes())

    def test_a_host_that_says_goodbye_is_forgotten(self):
        self._report()
        self.endpoint.gone({}, "a", "a")
        self.assertEqual({}, dict(self.table.entries))

    def test_facts_that_another_worker_requested_are_not_decoded(self):
        self._report()
        (before,) = self.table.entries.values()
        confirmed = before.confirmed
        with mock.patch.object(facts, "from_json") as decode:
            self._report()
        decode.assert_not_called()
        (after,) = self.table.entries.values()
        self.assertIs(before, after)
        self.assertGreater(after.confirmed, confirmed)

    def test_facts_that_cannot_be_read_end_trust_in_the_old_ones(self):
        newer = {**self.host.to_plain(), "schema": 2}
        for document in ("{", "[]", json.dumps(newer)):
            with self.subTest(document=document[:9]):
                self._refused(digest="00" * 32, document=document)
                self.assertEqual({}, dict(self.table.entries))

    def test_facts_of_one_host_in_the_name_of_another(self):
        self._refused(host="b")
        self.assertNotIn("b", self.table.entries)

    def test_digests_that_are_none(self):
        for digest in (None, "", "xyz", "ab", 7, "٣" * 64):
            with self.subTest(digest=digest):
                self._refused(digest=digest)

    def test_reports_that_name_no_host(self):
        for name in (
            *(None, "", 7, ["a"], "a" * 256),
            *("a\n", "a\nCRITICAL forged", "a\x1b[2J", "a b", "é", "\u202ea"),
        ):
            with self.subTest(name=name):
                self.setUp()
                with self.assertLogs(listener.LOG, "WARNING") as logged:
                    self._report(host=name)
                    self._report(node=name)
                    self.endpoint.heartbeat({}, name, "a", "00" * 32)
                self.assertEqual(3, len(logged.output))
                for line in logged.output:
                    self.assertTrue(line.isprintable())
                self.endpoint.gone({}, name, "a")
                self.assertEqual({}, dict(self.table.entries))
                self.assertEqual([], self.wanted)

    def test_what_is_in_a_refused_document_is_not_in_the_log_raw(self):
        for key, value in (
            ("schema", "1\nCRITICAL forged"),
            ("host", "a\nCRITICAL forged"),
            ("cpus", {"online": "0\nCRITICAL forged"}),
            ("observed_at", "\x1b[2J"),
        ):
            with self.subTest(key=key):
                plain = {**self.host.to_plain(), key: value}
                with self.assertLogs(listener.LOG, "WARNING") as logged:
                    self._report(document=json.dumps(plain))
                (line,) = logged.output
                self.assertTrue(line.isprintable(), line)

    def test_refusals_do_not_fill_the_log(self):
        with self.assertLogs(listener.LOG, "WARNING") as logged:
            for _ in range(1000):
                self._report(document="{")
        self.assertEqual(listener.LOGGED, len(logged.output))

    def test_only_what_decisions_read_is_kept(self):
        self._report()
        (entry,) = self.table.entries.values()
        self.assertEqual(facts.decisive(self.host), entry.facts)

    def test_a_document_that_is_no_text(self):
        with self.assertLogs(listener.LOG, "WARNING"):
            self._report(document=self.host.to_plain())
        self.assertEqual({}, dict(self.table.entries))


class ReportRequestsTest(unittest.TestCase):
    def setUp(self):
        self.sent: list[list[str] | None] = []
        self.requests = ReportRequests(self.sent.append, interval_s=0.0)

    def test_requests_are_joined(self):
        for host in ("b", "a", "b"):
            self.requests.add(host)
        self.requests.send()
        self.requests.send()
        self.assertEqual([["a", "b"]], self.sent)

    def test_all_hosts_are_named_none(self):
        self.requests.add("a")
        self.requests.add()
        self.requests.send()
        self.assertEqual([None], self.sent)

    def test_very_many_hosts_are_not_all_in_one_request(self):
        # Made-up heartbeats of as many hosts do not make all agents report.
        for number in range(2 * listener.MAX_REQUESTED):
            self.requests.add(f"h{number}")
        self.requests.send()
        self.requests.send()
        (hosts,) = self.sent
        self.assertEqual(listener.MAX_REQUESTED, len(hosts))

    def test_a_request_that_cannot_be_sent_is_kept(self):
        failures = [oslo_messaging.MessageDeliveryFailure("down"), OSError()]

        def cast(hosts: list[str] | None) -> None:
            if failures:
                raise failures.pop()
            self.sent.append(hosts)

        one = ReportRequests(cast, interval_s=0.0)
        one.add("a")
        for _ in range(2):
            with self.assertLogs(listener.LOG, "WARNING"):
                one.send()
            one.add("b")
        one.send()
        self.assertEqual([["a", "b"]], self.sent)

    def test_nothing_is_lost_that_fails_or_comes_meanwhile(self):
        def cast(hosts):
            self.sent.append(hosts)
            if len(self.sent) == 1:
                raise OSError("the queue is down")
            if len(self.sent) == 2:
                one.add("b")
            else:
                one.stop()

        one = ReportRequests(cast, interval_s=0.0)
        one.add("a")
        thread = threading.Thread(target=one.run, daemon=True)
        with self.assertLogs(listener.LOG, "WARNING"):
            thread.start()
            thread.join(5)
        self.assertEqual([["a"], ["a"], ["b"]], self.sent)

    def test_no_more_messages_than_one_an_interval(self):
        times: list[float] = []
        one = ReportRequests(lambda hosts: times.append(time.monotonic()), 0.2)
        thread = threading.Thread(target=one.run)
        thread.start()
        # Three messages, however long a busy machine takes for them.
        ending = time.monotonic() + 60
        while len(times) < 3 and time.monotonic() < ending:
            one.add("a")
            time.sleep(0.005)
        one.stop()
        thread.join(60)
        self.assertFalse(thread.is_alive())
        gaps = [later - one for one, later in itertools.pairwise(times)]
        self.assertGreaterEqual(len(gaps), 2)
        self.assertGreater(min(gaps), 0.19)


class ListenerTest(unittest.TestCase):
    """Over oslo.messaging's in-memory driver."""

    def setUp(self):
        # oslo.messaging 18.3 registers its tracing options with this one
        # alone, and reads them from whichever it was given.
        self.conf = cfg.CONF
        self.conf([], default_config_files=[])
        self.addCleanup(self.conf.reset)
        self.conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
        self.conf.set_override("transport_url", "fake:/", group="sriov_rt")
        self.addCleanup(
            self.conf.clear_override, "transport_url", group="sriov_rt"
        )
        transport = messaging.transport(self.conf)
        self.addCleanup(transport.cleanup)
        self.sent: list[list[str] | None] = []
        self.agent = oslo_messaging.get_rpc_server(
            transport,
            messaging.target(messaging.AGENT_TOPIC, "a"),
            [_Agent(self.sent)],
        )
        self.agent.start()
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.stop)
        self.client = oslo_messaging.get_rpc_client(
            transport, messaging.target(messaging.REPORT_TOPIC)
        )
        self.table = FactsTable(10, 60.0)
        heard = Listener(self.conf, "test", self.table)
        thread = threading.Thread(target=heard.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(heard.stop)

    def _eventually(self, holds) -> None:
        ending = time.monotonic() + 10
        while not holds():
            self.assertLess(time.monotonic(), ending, "in vain")
            time.sleep(0.01)

    def test_at_first_it_asks_all_agents(self):
        self._eventually(lambda: self.sent == [None])

    def test_reports_come_through(self):
        self._eventually(lambda: self.sent == [None])
        host = builders.realtime_host("a")
        self.client.cast(
            {},
            "facts",
            host="a",
            node="a",
            digest=host.digest(),
            document=json.dumps(host.to_plain()),
        )
        self._eventually(lambda: "a" in self.table.entries)
        self.client.cast({}, "gone", host="a", node="a")
        self._eventually(lambda: not self.table.entries)

    def test_an_unknown_digest_is_asked_for(self):
        self._eventually(lambda: self.sent == [None])
        self.client.cast({}, "heartbeat", host="a", node="a", digest="00" * 32)
        self._eventually(lambda: self.sent == [None, ["a"]])


class _Agent:
    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(self, asked: list[list[str] | None]) -> None:
        self._asked = asked

    def report_now(self, context, hosts):
        self._asked.append(hosts)
