# SPDX-License-Identifier: Apache-2.0

import unittest
from unittest import mock

import oslo_messaging
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_messaging.notify import _impl_test

from sriov_rt import facts
from sriov_rt.agent import assembly
from sriov_rt.agent import options
from sriov_rt.agent import withdrawal
from sriov_rt.labels.label_source import LabelSourceMissing
from sriov_rt.reason import reason
from tests.unit import builders
from tests.unit.agent import fakes

LOGGER = "sriov_rt.agent.assembly"


class AssembleTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        self.conf([])
        self._set("transport_url", "fake://", "sriov_rt")

    def _set(self, name, value, group):
        self.conf.set_override(name, value, group=group)

    def _assemble(self):
        self.agent = assembly.assemble(self.conf, fakes.Crash())
        return self.agent.parts

    def test_without_credentials_one_warning_says_that_no_traits_are_set(self):
        with self.assertLogs(LOGGER, "WARNING") as logs:
            parts = self._assemble()
        self.assertIsNone(parts.tending)
        self.assertEqual(1, len(logs.output))
        self.assertIn("[placement] auth_type", logs.output[0])

    def test_turned_off_on_purpose_it_is_no_warning(self):
        self._set("publish_traits", False, "agent")
        with self.assertNoLogs(LOGGER, "WARNING"):
            self.assertIsNone(self._assemble().tending)

    def test_credentials_that_are_not_complete_are_refused(self):
        self._set("auth_type", "password", "placement")
        with self.assertRaises(assembly.PlacementMisconfigured) as raised:
            self._assemble()
        self.assertIn("auth_url", str(raised.exception))

    def test_a_label_source_that_is_not_there_is_refused(self):
        self._set("sources", ["nonsense"], "labels")
        with self.assertRaises(LabelSourceMissing) as raised:
            self._assemble()
        self.assertIn("[labels] sources", str(raised.exception))

    def test_interfaces_that_there_are_not_are_refused(self):
        self._set("auth_type", "none", "placement")
        self._set("valid_interfaces", ["secret"], "placement")
        with self.assertRaises(assembly.PlacementMisconfigured) as raised:
            self._assemble()
        self.assertIn("valid_interfaces", str(raised.exception))

    def test_credentials_of_nova_do(self):
        self._set("auth_type", "password", "placement")
        plugin = loading.get_auth_plugin_conf_options("password")
        self.conf.register_opts(plugin, group="placement")
        for name, value in {
            "auth_url": "http://keystone.example.org/v3",
            "username": "nova",
            "password": "secret",
            "project_name": "service",
            "user_domain_id": "default",
            "project_domain_id": "default",
        }.items():
            self._set(name, value, "placement")
        with self.assertNoLogs(LOGGER, "WARNING"):
            self.assertIsNotNone(self._assemble().tending)

    def test_an_unknown_driver_is_refused_at_once(self):
        self._set("transport_url", "pigeon://post", "sriov_rt")
        with self.assertRaises(oslo_messaging.MessagingException):
            self._assemble()

    def test_who_wants_notifications_gets_them(self):
        self._set("publish_traits", False, "agent")
        self._assemble()
        self._set("driver", ["test"], "oslo_messaging_notifications")
        parts = self._assemble()
        _impl_test.reset()
        withdrawn = reason("latency_withdrawn", why="SMT changed")
        with self.assertLogs("sriov_rt.agent.withdrawal", "WARNING"):
            parts.withdrawals.observe(builders.realtime_host(), ())
            parts.withdrawals.observe(builders.realtime_host(), (withdrawn,))
        (notifying,) = (
            each
            for each in self.agent.beside
            if isinstance(each, withdrawal.Notifying)
        )
        notifying.worker.tick()
        ((_, message, _, _),) = _impl_test.NOTIFICATIONS
        self.assertEqual(withdrawal.EVENT, message["event_type"])

    def test_facts_are_read_below_the_root(self):
        self._set("root", "/nowhere", "agent")
        self._set("host", "rt-1", None)
        self._set("publish_traits", False, "agent")
        roots = []

        def cpus(root):
            roots.append(str(root.path))
            return facts.unknown("cpus", "not looked at")

        with (
            mock.patch.object(
                assembly, "load_sources", return_value={"cpus": cpus}
            ),
            self.assertLogs("sriov_rt.host.observer", "WARNING"),
        ):
            found = self._assemble().observe()
        self.assertEqual("rt-1", found.host)
        self.assertEqual(["/nowhere"], roots)
