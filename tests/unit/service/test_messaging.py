# SPDX-License-Identifier: Apache-2.0

import traceback
import unittest
from unittest import mock

import oslo_messaging
from oslo_config import cfg

from sriov_rt import config
from sriov_rt.service import messaging


def configured(url: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
    conf([], default_config_files=[])
    conf.set_override("transport_url", url, group="sriov_rt")
    return conf


class WireTest(unittest.TestCase):
    def test_what_nodes_of_two_releases_meet_by_stays(self) -> None:
        """They are upgraded one by one; a new version or topic parts them."""
        target = messaging.target(messaging.REPORT_TOPIC)
        self.assertEqual(
            ("sriov_rt", "sriov_rt", "sriov_rt_agent", "1"),
            (
                target.exchange,
                target.topic,
                messaging.AGENT_TOPIC,
                target.version.partition(".")[0],
            ),
        )


class MalformedTest(unittest.TestCase):
    #: urllib takes what is before the "/" for a host and its port.
    URL = "rabbit://user:hunter2/x@broker/"

    def test_no_error_has_a_part_of_the_password(self) -> None:
        conf = configured(self.URL)
        for act in (
            messaging.transport,
            messaging.url,
            lambda conf: messaging.notifier(conf, "sriov-rt-agent:rt-1"),
        ):
            with self.assertRaises(oslo_messaging.InvalidTransportURL) as it:
                act(conf)
            found = "".join(traceback.format_exception(it.exception))
            self.assertNotIn("hunter2", found)
            self.assertIn("percent-encode its password", found)
            # oslo.messaging has registered its own by now.
            conf.set_override("transport_url", self.URL)
        for found in (messaging.unusable(conf), messaging.brokers(conf)):
            self.assertNotIn("hunter2", found or "")
            self.assertTrue(found)

    def test_a_broker_without_a_port_is_looked_for_at_rabbitmqs(self) -> None:
        conf = configured("rabbit://u:secret@broker/")
        with mock.patch.object(
            messaging.socket, "create_connection", side_effect=OSError(111)
        ) as connect:
            self.assertIn("broker:5672", messaging.unusable(conf) or "")
        self.assertEqual(("broker", 5672), connect.call_args.args[0])


class BrokersTest(unittest.TestCase):
    def brokers(self, url: str) -> str:
        return messaging.brokers(configured(url))

    def test_each_is_named_without_its_password(self) -> None:
        for url, named in (
            (
                "rabbit://u:secret@192.0.2.1:5672,u:secret@[2001:db8::1]:5671/",
                "192.0.2.1:5672, 2001:db8::1:5671",
            ),
            ("rabbit://u:secret@broker/", "broker:5672"),
            ("fake://", "fake"),
            ("rabbit://u:secret@broker:port/", "cannot be parsed"),
        ):
            with self.subTest(url):
                found = self.brokers(url)
                self.assertIn(named, found)
                self.assertNotIn("secret", found)
