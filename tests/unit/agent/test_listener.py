# SPDX-License-Identifier: Apache-2.0

import threading
import unittest

from oslo_config import cfg

from sriov_rt import config
from sriov_rt.agent.listener import Endpoint
from sriov_rt.agent.listener import Listener
from sriov_rt.scheduler import listener as scheduler
from tests.unit.agent import idle


class EndpointTest(unittest.TestCase):
    def setUp(self):
        self.asked = 0
        self.endpoint = Endpoint("rt-1", self._ask)

    def _ask(self):
        self.asked += 1

    def test_all_are_asked(self):
        self.endpoint.report_now({})
        self.endpoint.report_now({}, hosts=None)
        self.assertEqual(2, self.asked)

    def test_this_host_is_asked_by_name(self):
        self.endpoint.report_now({}, hosts=["rt-2", "rt-1"])
        self.assertEqual(1, self.asked)

    def test_others_are_asked(self):
        for hosts in ([], ["rt-2"], "rt-1", {"rt-1": 1}, 7, [["rt-1"]]):
            with self.subTest(hosts):
                self.endpoint.report_now({}, hosts=hosts)
                self.assertEqual(0, self.asked)


class StopTest(unittest.TestCase):
    def setUp(self):
        # oslo.messaging's clients read options of the process's own.
        self.conf = cfg.CONF
        self.conf.register_opts(config.TRANSPORT_OPTS, group="sriov_rt")
        self.conf([], default_config_files=[])
        self.addCleanup(self.conf.reset)
        self.conf.set_override("transport_url", idle.URL, group="sriov_rt")
        self.addCleanup(
            self.conf.clear_override, "transport_url", group="sriov_rt"
        )
        self.idle = idle.Idle()
        patch = self.idle.patch()
        patch.start()
        self.addCleanup(patch.stop)

    def _stops(self, stop):
        # A daemon: one that hangs must not keep the tests from ending.
        stopping = threading.Thread(target=stop, daemon=True)
        stopping.start()
        stopping.join(60)
        self.assertFalse(stopping.is_alive(), "it waits for a message")

    def test_an_idle_agent_stops_at_once(self):
        requested = []
        endpoint = Endpoint("rt-1", lambda: requested.append(1))
        listener = Listener(self.conf, "rt-1", endpoint)
        listener.set_listening(True)
        self.idle.wait(1)
        self._stops(lambda: listener.set_listening(False))
        self.assertEqual([], requested)

    def test_an_idle_scheduler_stops_at_once(self):
        sink = threading.Event()  # whatever is put there is an AttributeError
        listener = scheduler.Listener(self.conf, "a", sink)
        running = threading.Thread(target=listener.run, daemon=True)
        running.start()
        self.idle.wait(1)
        listener.stop()
        self._stops(running.join)
