# SPDX-License-Identifier: Apache-2.0

import dataclasses
import logging
import threading
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from sriov_rt import codec
from sriov_rt import facts
from sriov_rt.agent.publisher import Bus
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


class NobodyListensTest(unittest.TestCase):
    #: As RabbitMQ and oslo.messaging 18.2 have it.
    GONE = (
        "Basic.publish: (404) NOT_FOUND - no exchange 'sriov_rt_fanout' in "
        "vhost '/'"
    )
    DOWN = "Unable to connect to AMQP server after 0 tries: refused"

    def setUp(self):
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        transport = mock.patch("sriov_rt.service.messaging.transport")
        self.transport = transport.start()
        self.addCleanup(transport.stop)
        get = mock.patch("oslo_messaging.get_rpc_client")
        self.cast = get.start().return_value.cast
        self.addCleanup(get.stop)
        self.bus = Bus(conf)

    def refuse(self, *words):
        self.cast.side_effect = [
            word and oslo_messaging.MessageDeliveryFailure(word)
            for word in words
        ]

    def test_the_report_is_sent_over_a_connection_that_declares(self):
        self.refuse(self.GONE, None)
        with self.assertLogs("sriov_rt.agent", "INFO") as logs:
            self.bus.cast("heartbeat", host="rt-1")
        self.assertEqual(["INFO"], [each.levelname for each in logs.records])
        self.assertEqual(2, self.cast.call_count)
        self.assertEqual(*self.cast.call_args_list)
        # The first one, and one after the failure.
        self.assertEqual(2, self.transport.call_count)

    def test_another_failure_is_one_at_once(self):
        self.refuse(self.DOWN)
        with self.assertRaises(BusUnreachable) as caught:
            self.bus.cast("heartbeat", host="rt-1")
        self.assertEqual(1, self.cast.call_count)
        self.assertIn("the message queue runs", str(caught.exception))

    def test_a_user_that_is_refused_is_to_be_corrected(self):
        self.refuse(
            "(0, 0): (403) ACCESS_REFUSED - Login was refused using "
            "authentication mechanism AMQPLAIN. For details see the broker "
            "logfile."
        )
        with self.assertRaises(BusUnreachable) as caught:
            self.bus.cast("heartbeat", host="rt-1")
        self.assertIn("write a user and password", str(caught.exception))
        self.assertNotIn("runs", str(caught.exception))

    def test_a_second_failure_is_one(self):
        for words in (self.DOWN, self.GONE):
            with self.subTest(words):
                self.refuse(self.GONE, words)
                with self.assertRaises(BusUnreachable) as caught:
                    self.bus.cast("heartbeat", host="rt-1")
                self.assertEqual(words, caught.exception.why)

    def test_only_that_is_kept_from_the_log_of_oslo(self):
        log = logging.getLogger("oslo.messaging._drivers.impl_rabbit")
        other = self.GONE.replace("sriov_rt", "other")
        with self.assertLogs(log, "ERROR") as logs:
            log.error("Failed to publish message: %s", self.GONE)
            log.error("Failed to publish message: %s", other)
            log.error(self.DOWN)
        self.assertEqual(
            [f"Failed to publish message: {other}", self.DOWN],
            [each.getMessage() for each in logs.records],
        )
