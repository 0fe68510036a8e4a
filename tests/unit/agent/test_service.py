# SPDX-License-Identifier: Apache-2.0

import dataclasses
import tempfile
import time
import unittest
from unittest import mock

from sriov_rt import facts
from sriov_rt.agent import metrics
from sriov_rt.agent import service
from sriov_rt.agent.publisher import Publisher
from sriov_rt.agent.withdrawal import Withdrawals
from sriov_rt.host import observer
from sriov_rt.parse.cpulist import parse_cpu_list as cpus
from sriov_rt.placement import resource_provider
from sriov_rt.placement.resource_provider import Provider
from sriov_rt.service.reconciler import Reconciler
from tests.unit import builders
from tests.unit.agent import fake_bus
from tests.unit.agent import fake_placement
from tests.unit.agent import fakes
from tests.unit.host import trees

LOGGER = "sriov_rt.agent"
REALTIME = "CUSTOM_SRIOV_RT_REALTIME"
PREEMPT_RT = "CUSTOM_SRIOV_RT_PREEMPT_RT"
CERTIFIED = "CUSTOM_SRIOV_RT_LATENCY_CERTIFIED"
DEGRADED = {"isolated": cpus("2")}


class AgentTestCase(unittest.TestCase):
    """An agent whose threads the test itself moves on."""

    def setUp(self):
        self.clock = fakes.Clock()
        self.bus = fake_bus.FakeBus()
        self.placement = fake_placement.FakePlacement("rt-1", "COMPUTE_NODE")
        self.facts = builders.realtime_host()
        self.listening = []
        self.labels = fakes.FakeLabels()
        self.withdrawn = []
        self.agent = self._agent()

    def _agent(self, publish_traits=True, crashed=None, stop_timeout=0.0):
        self.publisher = Publisher(
            "rt-1",
            "rt-1",
            self.bus,
            heartbeat_s=10.0,
            slack_s=5.0,
            monotonic=self.clock,
        )
        self.publishing = self._reconciler(self.publisher.publish)
        provider = Provider(self.placement, "rt-1", "rt-1")
        self.tending = self._reconciler(provider.set_traits)
        return service.Agent(
            service.Parts(
                observe=self._observe,
                labels=self.labels,
                publisher=self.publisher,
                publishing=self.publishing,
                tending=self.tending if publish_traits else None,
                listening=self._reconciler(self.listening.append),
                withdrawals=Withdrawals(tuple, self.withdrawn.append),
            ),
            service.Timing(
                observe_interval=10.0,
                report_spread=2.0,
                stop_timeout=stop_timeout,
            ),
            crashed or fakes.Crash(),
            self.clock,
        )

    def _reconciler(self, apply):
        return Reconciler(
            "r",
            apply,
            backoff=fakes.backoff(),
            crashed=fakes.Crash(),
            monotonic=self.clock,
        )

    def _observe(self):
        return dataclasses.replace(self.facts, observed_at=self.clock.now)

    def _tick(self, seconds=0.0):
        """Let time pass, then let every thread do what is due."""
        self.clock.now += seconds
        self.agent.observing.tick()
        self.publishing.worker.tick()
        self.tending.worker.tick()


class ObserveTest(AgentTestCase):
    def test_facts_and_traits_go_out(self):
        self._tick()
        self.assertEqual(["facts"], self.bus.methods)
        self.assertEqual(
            {"COMPUTE_NODE", REALTIME, PREEMPT_RT}, self.placement.provider
        )

    def test_its_times_by_a_clock_that_nobody_sets(self):
        """The host's clock may jump; the age of its facts does not."""
        age = "sriov_rt_facts_age_seconds"
        self.assertNotIn(age, self.agent.times())
        self._tick()
        self.clock.now += 4.0
        with mock.patch("time.time", return_value=0.0):
            found = self.agent.times()
        self.assertEqual(4.0, found.pop(age))
        self.assertEqual(10.0, found["sriov_rt_observe_interval_seconds"])
        began = found["sriov_rt_agent_start_timestamp_seconds"]
        self.assertLess(abs(time.time() - began), 600)
        self.assertLessEqual({age, *found}, metrics.HELP.keys())

    def test_traits_are_withdrawn_when_the_host_degrades(self):
        self._tick()
        self.facts = builders.realtime_host(cpus=DEGRADED)
        self._tick(10.0)
        self.assertEqual(["facts", "facts"], self.bus.methods)
        self.assertEqual({"COMPUTE_NODE", PREEMPT_RT}, self.placement.provider)

    def test_traits_of_labels_go_out_beside_the_others(self):
        self.labels.found = frozenset({"CUSTOM_NFD_PCI_1924_PRESENT"})
        self._tick()
        self.assertEqual(
            {"COMPUTE_NODE", REALTIME, PREEMPT_RT, *self.labels.found},
            self.placement.provider,
        )
        self.labels.found = frozenset()
        self._tick(10.0)
        self.assertEqual(
            {"COMPUTE_NODE", REALTIME, PREEMPT_RT}, self.placement.provider
        )

    def test_placement_is_left_alone_while_nothing_changes(self):
        self._tick()
        looked = []
        self.placement.find = looked.append
        for _ in range(5):
            self._tick(10.0)
        self.assertEqual([], looked)
        self.assertEqual(["facts"] + 5 * ["heartbeat"], self.bus.methods)

    def test_without_placement_facts_go_out_all_the_same(self):
        self.agent = self._agent(publish_traits=False)
        self._tick()
        self.assertEqual(["facts"], self.bus.methods)
        self.assertEqual({"COMPUTE_NODE"}, self.placement.provider)

    def test_a_certificate_that_counts_no_more_is_notified_of(self):
        certificate = facts.LatencyCertificate(
            18, self.facts.kernel.release, 1e12
        )
        changed = dataclasses.replace(certificate, withdrawn="SMT changed")
        with self.assertLogs("sriov_rt.agent.withdrawal", "WARNING"):
            for latency in (certificate, changed):
                self.facts = builders.realtime_host(
                    latency={"certificate": latency}
                )
                self._tick(10.0)
        (withdrawal,) = self.withdrawn
        self.assertEqual("rt-1", withdrawal.host)
        self.assertNotIn(CERTIFIED, self.placement.provider)

    def test_a_change_while_everything_is_down_is_not_lost(self):
        self._tick()
        self.bus.down = True
        there, self.placement.provider = self.placement.provider, None
        self.facts = builders.realtime_host(kernel={"preempt_rt": False})
        with self.assertLogs("sriov_rt.service.reconciler", "WARNING"):
            for _ in range(10):
                self._tick(10.0)
        self.bus.down = False
        self.placement.provider = there
        self._tick(10.0)
        self.assertEqual(["facts", "facts"], self.bus.methods)
        self.assertEqual(self.facts.digest(), self.bus.sent[-1][1]["digest"])
        self.assertEqual({"COMPUTE_NODE", REALTIME}, self.placement.provider)


class PeriodTest(AgentTestCase):
    """What the kernel sends no event for is seen within one period."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.tree = trees.realtime_host(place.name)
        # The interrupt on an isolated CPU is the kernel's own, as it shows.
        (self.tree.path / "proc/irq/26/smp_affinity").chmod(0o444)
        self.observer = observer.Observer(
            self.tree.root, "rt-1", "rt-1", trees.SOURCES
        )
        super().setUp()
        self._tick()
        self.assertIn(REALTIME, self.placement.provider)

    def _observe(self):
        found = self.observer.observe()
        return dataclasses.replace(found, observed_at=self.clock.now)

    def _assert_seen(self, path, text):
        before = (self.tree.path / path).read_text()
        self.tree.write(path, text)
        self._tick(10.0)
        self.assertNotIn(REALTIME, self.placement.provider)
        self.tree.write(path, before)
        self._tick(10.0)
        self.assertIn(REALTIME, self.placement.provider)

    def test_throttling(self):
        path = "proc/sys/kernel/sched_rt_runtime_us"
        self._assert_seen(path, "950000\n")

    def test_an_interrupt_that_is_moved(self):
        path = "proc/irq/25/effective_affinity_list"
        self._assert_seen(path, "3\n")

    def test_an_interrupt_that_somebody_pins_to_an_isolated_cpu(self):
        self.tree.write("proc/irq/25/smp_affinity_list", "3\n")
        self._assert_seen("proc/irq/25/effective_affinity_list", "3\n")

    def test_a_cpu_that_goes_offline(self):
        self._assert_seen("sys/devices/system/cpu/online", "0-6,8-15\n")

    def test_a_governor_and_an_idle_state(self):
        cpu = "sys/devices/system/cpu"
        self._assert_seen(
            f"{cpu}/cpufreq/policy0/scaling_governor", "powersave\n"
        )
        self._assert_seen(f"{cpu}/cpu3/power/pm_qos_resume_latency_us", "0\n")


class LogTest(AgentTestCase):
    def _lines(self, *ticks):
        with self.assertLogs("sriov_rt.agent.service", "INFO") as logs:
            for seconds in ticks:
                self._tick(seconds)
        return [record.getMessage() for record in logs.records]

    def test_a_change_is_one_line_however_long_it_lasts(self):
        (line,) = self._lines(0.0, 10.0, 10.0)
        self.assertTrue(
            line.startswith("facts changed: host=rt-1 node=rt-1 digest=")
        )
        self.assertIn(self.facts.digest()[:12], line)
        self.assertIn(f"realtime=yes traits={PREEMPT_RT},{REALTIME}", line)

    def test_a_change_names_the_parts_that_changed(self):
        (line,) = self._lines(0.0)
        self.assertIn(" parts=all ", line)
        self.facts = builders.realtime_host(
            cpus=DEGRADED, memory={"ksm_run": 1}
        )
        (line,) = self._lines(10.0)
        self.assertIn(" parts=cpus,memory ", line)

    def test_a_host_that_is_not_realtime_is_said_why(self):
        self.facts = builders.realtime_host(cpus=DEGRADED)
        (line,) = self._lines(0.0)
        self.assertIn("realtime=no", line)
        self.assertIn("[cpus_not_isolated] dedicated pCPUs 3", line)


class WakeTest(AgentTestCase):
    def setUp(self):
        super().setUp()
        self._tick()

    def _due(self):
        return self.agent.observing.tick()

    def test_sighup_reports_all_facts_at_once(self):
        self.agent.reset()
        self._tick()
        self.assertEqual(["facts", "facts"], self.bus.methods)

    def test_many_who_ask_are_answered_by_one_report_soon(self):
        for _ in range(50):
            self.agent.report_requested()
        self.assertTrue(0.0 <= self._due() <= 2.0)
        self._tick(2.0)
        self._tick(2.0)
        self.assertEqual(["facts", "facts"], self.bus.methods)

    def test_who_asks_without_end_is_answered_every_five_seconds(self):
        self._tick()
        sent = len(self.bus.methods)
        for _ in range(300):
            self.agent.report_requested()
            self._tick(0.1)
        reports = self.bus.methods[sent:].count("facts")
        # Five or six in 30 s, and none of them an answer less than due.
        self.assertTrue(3 <= reports <= 7, reports)

    def test_a_burst_of_events_is_one_observation_when_it_has_settled(self):
        observed = []
        self.publishing.set_desired = observed.append
        for _ in range(100):
            self.agent.changed()
        self.assertEqual(service.DEBOUNCE_S, self._due())
        self._tick(service.DEBOUNCE_S)
        self._tick(service.DEBOUNCE_S)
        self.assertEqual(1, len(observed))


class RelabelTest(AgentTestCase):
    def _relabel(self, labels, seconds):
        self.labels.values = labels
        self.agent.relabel(0.1)
        self.clock.now += seconds
        self.agent.relabelling.tick()
        self.publishing.worker.tick()

    def test_labels_go_out_without_looking_at_the_kernel(self):
        self._tick()
        self.facts = builders.realtime_host(cpus=DEGRADED)
        self._relabel({"a": "1"}, 0.1)
        self.assertEqual(["facts", "facts"], self.bus.methods)
        self.assertIn(REALTIME, self.placement.provider)
        self.clock.now += service.DEBOUNCE_S
        self.agent.storing.tick()
        self.assertEqual({"a": "1"}, self.labels.stored[-1].labels.values)

    def test_a_burst_of_changes_is_told_once(self):
        self._tick()
        for number in range(10):
            self.labels.values = {"a": str(number)}
            self.agent.relabel(0.1)
            self.assertGreater(self.agent.relabelling.tick(), 0.0)
        self._relabel({"a": "10"}, 0.1)
        self.assertEqual(["facts", "facts"], self.bus.methods)

    def test_an_observer_that_hangs_is_not_vouched_for(self):
        self._tick()
        self._relabel({"a": "1"}, 20.1)
        self.assertEqual(["facts"], self.bus.methods)

    def test_before_the_first_observation_there_is_nothing_to_tell(self):
        self._relabel({"a": "1"}, 0.1)
        self.assertEqual([], self.bus.methods)


class WatchdogTest(AgentTestCase):
    def test_traits_are_withdrawn_while_an_observation_hangs(self):
        self._tick()
        self.clock.now += service.STUCK_S + 1.0
        with self.assertLogs(LOGGER, "ERROR") as logs:
            self.agent.watching.tick()
        self.tending.worker.tick()
        self.assertIn("the host scan has not finished for", logs.output[0])
        self.assertEqual({"COMPUTE_NODE"}, self.placement.provider)
        self._tick()
        self.assertIn(REALTIME, self.placement.provider)

    def test_it_is_said_once(self):
        self._tick()
        self.clock.now += service.STUCK_S + 1.0
        with self.assertLogs(LOGGER, "ERROR") as logs:
            for _ in range(5):
                self.agent.watching.tick()
                self.clock.now += service.STUCK_S
        self.assertEqual(1, len(logs.output))

    def test_a_long_interval_is_no_hang(self):
        self._tick()
        with self.assertNoLogs(LOGGER, "ERROR"):
            for _ in range(20):
                self._tick(10.0)
                self.agent.watching.tick()


class StartTest(AgentTestCase):
    def test_a_start_that_fails_is_told(self):
        crashed = fakes.Crash()
        self.agent = self._agent(crashed=crashed)

        class Events:
            def start(self):
                raise RuntimeError("can't start new thread")

            def stop(self):
                pass

        self.agent.run_beside(Events())
        self.addCleanup(self.agent.stop)
        with self.assertRaises(RuntimeError):
            self.agent.start()
        self.assertEqual(1, crashed.count)


class StopTest(AgentTestCase):
    def test_it_says_goodbye_and_withdraws_its_traits(self):
        self.agent = self._agent(stop_timeout=5.0)
        self.agent.start()
        self._wait_for(lambda: REALTIME in self.placement.provider)
        self._wait_for(lambda: self.bus.sent)
        with self.assertNoLogs(LOGGER, "WARNING"):
            self.agent.stop()
        self.assertEqual("gone", self.bus.methods[-1])
        self.assertEqual({"COMPUTE_NODE"}, self.placement.provider)
        self.assertEqual([True, False], self.listening)

    def test_it_ends_in_time_while_everything_is_down(self):
        self.bus.down = True
        self.placement.provider = None
        self.placement.find = self._refuse
        self.agent.start()
        with self.assertLogs(LOGGER, "WARNING") as logs:
            self.agent.stop()
        text = "\n".join(logs.output)
        self.assertIn("the schedulers were not notified", text)
        self.assertIn("the traits in Placement were not withdrawn", text)

    def test_what_listens_for_events_starts_and_stops_with_it(self):
        calls = []

        class Events:
            def start(self):
                calls.append("start")

            def stop(self):
                calls.append("stop")

        self.agent.run_beside(Events())
        self.agent.start()
        self.agent.stop()
        self.agent.wait()
        self.assertEqual(["start", "stop"], calls)

    def _refuse(self, name):
        raise resource_provider.PlacementUnreachable("refused")

    def _wait_for(self, condition):
        for _ in range(500):
            if condition():
                return
            self.agent.observing.join(0.01)
        self.fail("not within 5 s")
