# SPDX-License-Identifier: Apache-2.0

"""An agent and a scheduler's worker, over oslo.messaging's fake driver."""

import dataclasses
import time
import types
import unittest
from unittest import mock

from oslo_config import cfg
from oslo_messaging import conffixture
from oslo_messaging._drivers import impl_fake

from sriov_rt import request
from sriov_rt.agent import assembly
from sriov_rt.agent import options
from sriov_rt.agent import publisher
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.scheduler.worker import Worker
from sriov_rt.service import uevents
from tests.unit import builders
from tests.unit.agent import fakes

REALTIME = request.parse(
    {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
)
HOST = types.SimpleNamespace(host="rt-1")


class AgentToSchedulerTest(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        options.register(self.conf)
        self.conf([])
        # All fake transports of a process share their queues; the first that
        # closes would empty them for the others.
        self.addCleanup(impl_fake.FakeExchangeManager.cleanup)
        shared = mock.patch.object(impl_fake.FakeExchangeManager, "cleanup")
        shared.start()
        self.addCleanup(shared.stop)
        messaging = conffixture.ConfFixture(self.conf, "fake://")
        messaging.setUp()
        self.addCleanup(messaging.cleanUp)
        for name, value in {
            "observe_interval": 0.5,
            "heartbeat_interval": 0.5,
            "report_spread": 0.1,
            "publish_traits": False,
            "stop_timeout": 5.0,
        }.items():
            self.conf.set_override(name, value, group="agent")
        self.conf.set_override("host", "rt-1")
        self.conf.set_override("store", "", group="labels")
        self.facts = builders.realtime_host()
        # What the kernel of the test's machine tells is no part of it.
        events = mock.patch.object(
            uevents, "open_socket", side_effect=PermissionError
        )
        events.start()
        self.addCleanup(events.stop)

    def _start_agent(self):
        crashed = fakes.Crash()
        agent = assembly.assemble(self.conf, crashed)
        agent.parts = dataclasses.replace(agent.parts, observe=self._observe)
        agent.start()
        self.addCleanup(self.assertEqual, 0, crashed.count)
        return agent

    def _observe(self):
        return dataclasses.replace(self.facts, observed_at=time.time())

    def _start_worker(self, server=None):
        worker = Worker(self.conf, server=server)
        worker.start()
        self.addCleanup(worker.stop)
        return worker

    def _wait_for(self, condition, seconds=10.0):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not within {seconds} s")
            time.sleep(0.02)

    def _codes(self, worker):
        reasons = worker.verdicts.why_not(REALTIME, HOST)
        return {each.code for each in reasons}

    def _serves_realtime(self, worker):
        return not self._codes(worker)

    def test_a_worker_learns_what_the_host_is_and_that_it_changes(self):
        worker = self._start_worker()
        agent = self._start_agent()
        self.addCleanup(agent.stop)
        self._wait_for(lambda: self._serves_realtime(worker))
        self.facts = builders.realtime_host(cpus={"isolated": cpus("2")})
        self._wait_for(lambda: "cpus_not_isolated" in self._codes(worker))

    def test_two_agents_of_one_name_are_told_as_that(self):
        """One whose sriov-rt.conf was copied to another host."""
        worker = self._start_worker()
        with self.assertLogs("sriov_rt.scheduler.listener", "ERROR") as logged:
            for _ in range(2):
                self.addCleanup(self._start_agent().stop)
            self._wait_for(
                lambda: self._codes(worker) == {"agents_of_one_name"}
            )
        self.assertIn("Two agents report as host rt-1", logged.output[0])

    def test_of_two_agents_the_one_that_is_left_serves(self):
        worker = self._start_worker()
        first, second = self._start_agent(), self._start_agent()
        self.addCleanup(second.stop)
        self._wait_for(lambda: self._codes(worker) == {"agents_of_one_name"})
        first.stop()
        self._wait_for(lambda: self._serves_realtime(worker))

    def test_workers_that_start_later_ask_and_are_answered(self):
        agent = self._start_agent()
        self.addCleanup(agent.stop)
        time.sleep(1.0)
        # The fake driver has one queue a name, which they would share.
        workers = [self._start_worker(name) for name in ("a", "b", "c")]
        for worker in workers:
            self._wait_for(lambda w=worker: self._serves_realtime(w))

    def test_facts_that_got_lost_are_made_good(self):
        worker = self._start_worker()
        original = publisher.Bus.cast
        lost = []

        def cast(self, method, **arguments):
            if method == "facts" and not lost:
                lost.append(arguments)
                return
            original(self, method, **arguments)

        with mock.patch.object(publisher.Bus, "cast", cast):
            agent = self._start_agent()
            self.addCleanup(agent.stop)
            self._wait_for(lambda: self._serves_realtime(worker))
        self.assertEqual(1, len(lost))

    def test_a_clean_stop_takes_the_host_out_of_the_table(self):
        worker = self._start_worker()
        agent = self._start_agent()
        self._wait_for(lambda: self._serves_realtime(worker))
        with self.assertNoLogs("sriov_rt.agent.service", "WARNING"):
            agent.stop()
        self._wait_for(lambda: self._codes(worker) == {"facts_missing"})
