# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import itertools
import json
import threading
import time
import unittest

import hypothesis
import oslo_messaging
from hypothesis import strategies
from oslo_config import cfg

from sriov_rt import messaging
from sriov_rt.scheduler import asker
from sriov_rt.scheduler import listener
from sriov_rt.scheduler.asker import Asker
from sriov_rt.scheduler.listener import Endpoint
from sriov_rt.scheduler.listener import Listener
from sriov_rt.scheduler.placements import Placement
from sriov_rt.scheduler.table import FactsTable
from sriov_rt.scheduler.teller import Teller
from tests.unit import builders


class EndpointTest(unittest.TestCase):
    def setUp(self):
        self.table = FactsTable(10, 60.0)
        self.wanted: list[str] = []
        self.heard = 0
        self.placed: list[Placement] = []
        self.endpoint = Endpoint(
            self.table, self.wanted.append, self._hear, self.placed.append
        )
        self.host = builders.realtime_host("a")

    def _hear(self) -> None:
        self.heard += 1

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
        self.assertEqual(1, self.heard)

    def test_a_known_digest_is_enough_from_then_on(self):
        self._report()
        self.endpoint.heartbeat({}, "a", "a", self.host.digest())
        self.assertEqual([], self.wanted)

    def test_an_unknown_digest_asks_the_host_for_its_facts(self):
        self._report()
        self.endpoint.heartbeat({}, "a", "a", "00" * 32)
        self.endpoint.heartbeat({}, "b", "b", "00" * 32)
        self.assertEqual(["a", "b"], self.wanted)

    def test_a_host_that_says_goodbye_is_forgotten(self):
        self._report()
        self.endpoint.gone({}, "a", "a")
        self.assertEqual({}, dict(self.table.entries))

    def test_facts_that_cannot_be_read_end_trust_in_the_old_ones(self):
        newer = {**self.host.to_plain(), "schema": 2}
        for document in ("{", "[]", json.dumps(newer)):
            with self.subTest(document=document[:9]):
                self._refused(document=document)
                self.assertEqual({}, dict(self.table.entries))

    def test_facts_of_one_host_in_the_name_of_another(self):
        self._refused(host="b")
        self.assertNotIn("b", self.table.entries)

    def test_digests_that_are_none(self):
        for digest in (None, "", "xyz", "ab", 7, "٣" * 64):
            with self.subTest(digest=digest):
                self._refused(digest=digest)

    def test_reports_that_name_no_host(self):
        for name in (None, "", 7, ["a"], "a" * 256):
            with self.subTest(name=name):
                with self.assertLogs(listener.LOG, "WARNING"):
                    self._report(host=name)
                with self.assertLogs(listener.LOG, "WARNING"):
                    self.endpoint.heartbeat({}, name, "a", "00" * 32)
                self.endpoint.gone({}, name, "a")
        self.assertEqual({}, dict(self.table.entries))
        self.assertEqual([], self.wanted)

    def test_what_another_scheduler_placed_is_noted(self):
        self.endpoint.placed({}, "a", "inst-1", ["net-a", "net-b"])
        self.assertEqual(
            [Placement("a", "inst-1", ("net-a", "net-b"))], self.placed
        )

    def test_who_places_nothing_passes_it_over(self):
        hears = Endpoint(self.table, self.wanted.append, self._hear)
        hears.placed({}, "a", "inst-1", ["net-a"])

    @hypothesis.given(
        *[
            strategies.one_of(
                strategies.none(),
                strategies.integers(),
                strategies.text(max_size=300),
                strategies.lists(
                    strategies.one_of(strategies.text(), strategies.none())
                ),
            )
        ]
        * 3
    )
    @hypothesis.settings(deadline=None, derandomize=True)
    def test_a_placement_is_taken_whole_or_not_at_all(
        self, host, instance, networks
    ):
        self.setUp()
        names = [host, instance]
        names += networks if type(networks) is list else [None]
        well = all(type(n) is str and 0 < len(n) <= 255 for n in names)
        if well:
            self.endpoint.placed({}, host, instance, networks)
        else:
            with self.assertLogs(listener.LOG, "WARNING"):
                self.endpoint.placed({}, host, instance, networks)
        self.assertEqual(well, bool(self.placed))

    def test_more_networks_than_an_instance_can_have(self):
        networks = ["net"] * (listener.MAX_NETWORKS + 1)
        with self.assertLogs(listener.LOG, "WARNING"):
            self.endpoint.placed({}, "a", "inst-1", networks)
        self.assertEqual([], self.placed)

    def test_a_document_that_is_no_text(self):
        with self.assertLogs(listener.LOG, "WARNING"):
            self._report(document=self.host.to_plain())
        self.assertEqual({}, dict(self.table.entries))


class AskerTest(unittest.TestCase):
    def setUp(self):
        self.asked: list[list[str] | None] = []
        self.asker = Asker(self.asked.append, interval_s=0.0)

    def test_what_is_wanted_together_is_asked_together(self):
        for host in ("b", "a", "b"):
            self.asker.want(host)
        self.asker.ask()
        self.asker.ask()
        self.assertEqual([["a", "b"]], self.asked)

    def test_all_hosts_are_asked_by_none(self):
        self.asker.want("a")
        self.asker.want()
        self.asker.ask()
        self.assertEqual([None], self.asked)

    def test_very_many_hosts_are_not_named(self):
        for number in range(asker.MAX_ASKED + 1):
            self.asker.want(f"h{number}")
        self.asker.ask()
        self.assertEqual([None], self.asked)

    def test_a_question_that_cannot_be_sent_is_kept(self):
        failures = [oslo_messaging.MessageDeliveryFailure("down"), OSError()]

        def cast(hosts: list[str] | None) -> None:
            if failures:
                raise failures.pop()
            self.asked.append(hosts)

        one = Asker(cast, interval_s=0.0)
        one.want("a")
        for _ in range(2):
            with self.assertLogs(asker.LOG, "WARNING"):
                one.ask()
            one.want("b")
        one.ask()
        self.assertEqual([["a", "b"]], self.asked)

    def test_it_asks_no_more_often_than_it_may(self):
        times: list[float] = []
        one = Asker(lambda hosts: times.append(time.monotonic()), 0.2)
        thread = threading.Thread(target=one.run)
        thread.start()
        ending = time.monotonic() + 0.5
        while time.monotonic() < ending:
            one.want("a")
            time.sleep(0.005)
        one.stop()
        thread.join(5)
        self.assertFalse(thread.is_alive())
        gaps = [later - one for one, later in itertools.pairwise(times)]
        self.assertTrue(gaps)
        self.assertGreater(min(gaps), 0.19)


class ListenerTest(unittest.TestCase):
    """Over oslo.messaging's in-memory driver."""

    def setUp(self):
        # oslo.messaging 18.3 registers its tracing options with this one
        # alone, and reads them from whichever it was given.
        self.conf = cfg.CONF
        self.conf([], default_config_files=[])
        self.addCleanup(self.conf.reset)
        self.conf.register_opts(messaging.TRANSPORT_OPTS, group="sriov_rt")
        self.conf.set_override("transport_url", "fake:/", group="sriov_rt")
        self.addCleanup(
            self.conf.clear_override, "transport_url", group="sriov_rt"
        )
        transport = messaging.transport(self.conf)
        self.addCleanup(transport.cleanup)
        self.asked: list[list[str] | None] = []
        self.agent = oslo_messaging.get_rpc_server(
            transport,
            messaging.target(messaging.AGENT_TOPIC, "a"),
            [_Agent(self.asked)],
        )
        self.agent.start()
        self.addCleanup(self.agent.wait)
        self.addCleanup(self.agent.stop)
        self.client = oslo_messaging.get_rpc_client(
            transport, messaging.target(messaging.REPORT_TOPIC)
        )
        self.table = FactsTable(10, 60.0)
        self.teller = Teller()
        self.placed: list[Placement] = []
        heard = Listener(
            self.conf,
            "test",
            self.table,
            lambda: None,
            self.placed.append,
            self.teller,
        )
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
        self._eventually(lambda: self.asked == [None])

    def test_reports_come_through(self):
        self._eventually(lambda: self.asked == [None])
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
        self._eventually(lambda: self.asked == [None])
        self.client.cast({}, "heartbeat", host="a", node="a", digest="00" * 32)
        self._eventually(lambda: self.asked == [None, ["a"]])

    def test_what_is_placed_comes_to_all_schedulers(self):
        other: list[Placement] = []
        hears = Listener(
            self.conf, "other", self.table, lambda: None, other.append
        )
        thread = threading.Thread(target=hears.run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(hears.stop)
        self._eventually(lambda: self.asked == [None, None])
        placement = Placement("a", "inst-1", ("net-a",))
        self.teller.tell(placement)
        self._eventually(lambda: other == [placement])
        # Not to itself: what it heard late would undo what it did since.
        self.assertEqual([], self.placed)

    def test_agents_are_heard_in_the_version_of_before(self):
        # One that knows nothing of placements, and one that does.
        self.assertEqual("1.0", messaging.VERSION)
        self.assertEqual("1.1", Endpoint.target.version)


class _Agent:
    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(self, asked: list[list[str] | None]) -> None:
        self._asked = asked

    def report_now(self, context, hosts):
        self._asked.append(hosts)
