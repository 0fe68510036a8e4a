# SPDX-License-Identifier: Apache-2.0

import dataclasses
import threading
import unittest
from unittest import mock

from sriov_rt import codec
from sriov_rt import facts
from sriov_rt.agent.publisher import BusUnreachable
from sriov_rt.agent.publisher import Publisher
from sriov_rt.codec import Unknown
from tests.unit import builders
from tests.unit.agent import fake_bus
from tests.unit.agent import fakes


class SetOnceRead(threading.Event):
    """Event that another thread sets when it has just been read."""

    during = staticmethod(lambda: None)

    def is_set(self):
        found = super().is_set()
        self.during()
        return found


class PublisherTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.bus = fake_bus.FakeBus()
        self.publisher = self.make()
        self.facts = builders.realtime_host()

    def make(self):
        return Publisher(
            "rt-1",
            "rt-1.example.org",
            self.bus,
            heartbeat_s=10.0,
            slack_s=5.0,
            monotonic=self.clock,
        )

    def _observe(self, **changes):
        """Publish an observation ten seconds after the last."""
        self.clock.now += 10.0
        self.facts = dataclasses.replace(
            self.facts, observed_at=self.clock.now, **changes
        )
        self.publisher.publish(self.facts)

    def test_the_first_observation_is_sent_in_full(self):
        self._observe()
        ((method, sent),) = self.bus.sent
        self.assertEqual("facts", method)
        self.assertEqual("rt-1", sent["host"])
        self.assertEqual("rt-1.example.org", sent["node"])
        self.assertEqual(self.facts.digest(), sent["digest"])
        self.assertEqual(self.facts, facts.from_json(sent["document"]))

    def test_unchanged_facts_are_confirmed_by_their_digest(self):
        self._observe()
        self._observe()
        method, sent = self.bus.sent[1]
        self.assertEqual("heartbeat", method)
        self.assertEqual(
            {
                "host": "rt-1",
                "node": "rt-1.example.org",
                "digest": self.facts.digest(),
            },
            sent,
        )

    def test_changed_facts_are_sent_in_full(self):
        self._observe()
        self._observe(latency=facts.LatencyFacts(Unknown("garbled")))
        self.assertEqual(["facts", "facts"], self.bus.methods)

    def test_facts_that_no_scheduler_takes_are_an_error(self):
        nics = [
            builders.nic(name=f"enp{number}s0f0{'n' * 2000}")
            for number in range(600)
        ]
        with self.assertLogs("sriov_rt.agent.publisher", "ERROR") as logs:
            self._observe(nics=facts.NicFacts(tuple(nics)))
        (line,) = logs.output
        self.assertIn("facts of host rt-1 are 1", line)
        self.assertIn("take at most 1048576", line)
        with self.assertRaises(codec.SchemaError):
            facts.from_json(self.bus.sent[-1][1]["document"])

    def test_heartbeats_do_not_follow_each_of_many_observations(self):
        self._observe()
        for _ in range(4):
            self.clock.now += 1.0
            self.publisher.publish(self.facts)
        self.assertEqual(["facts"], self.bus.methods)

    def test_an_observation_a_little_early_still_gets_its_heartbeat(self):
        self._observe()
        self.clock.now += 9.9
        self.publisher.publish(self.facts)
        self.assertEqual(["facts", "heartbeat"], self.bus.methods)

    def test_who_asks_gets_all_facts_once(self):
        self._observe()
        self.publisher.report_in_full()
        self.publisher.report_in_full()
        self._observe()
        self._observe()
        self.assertEqual(["facts", "facts", "heartbeat"], self.bus.methods)

    def test_facts_that_were_not_taken_are_sent_in_full_later(self):
        self.bus.down = True
        with self.assertRaises(BusUnreachable):
            self._observe()
        self.bus.down = False
        self._observe()
        self.assertEqual(["facts"], self.bus.methods)

    def test_a_request_outlives_a_message_queue_that_is_down(self):
        self._observe()
        self.publisher.report_in_full()
        self.bus.down = True
        with self.assertRaises(BusUnreachable):
            self._observe()
        self.bus.down = False
        self._observe()
        self.assertEqual(["facts", "facts"], self.bus.methods)

    def test_a_request_during_a_cast_is_answered_after_it(self):
        self._observe()
        self.publisher.report_in_full()
        self.bus.during = self.publisher.report_in_full
        self._observe()
        self.bus.during = lambda: None
        self._observe()
        self._observe()
        self.assertEqual(
            ["facts", "facts", "facts", "heartbeat"], self.bus.methods
        )

    def test_a_request_just_after_the_look_for_one_is_not_lost(self):
        event = SetOnceRead()
        with mock.patch.object(threading, "Event", lambda: event):
            self.publisher = self.make()
        self._observe()
        event.during = self.publisher.report_in_full
        self._observe()
        event.during = lambda: None
        self._observe()
        self._observe()
        self.assertEqual(
            ["facts", "heartbeat", "facts", "heartbeat"], self.bus.methods
        )

    def test_it_says_that_it_is_gone(self):
        self.publisher.publish(None)
        self.assertEqual(
            [("gone", {"host": "rt-1", "node": "rt-1.example.org"})],
            self.bus.sent,
        )
