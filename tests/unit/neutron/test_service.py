# SPDX-License-Identifier: Apache-2.0

import threading
import time
import unittest
import unittest.mock

from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.neutron.ports import Ports
from sriov_rt.neutron.ports import PortState
from sriov_rt.neutron.ports import port_state
from sriov_rt.neutron.service import DELAY_LIMIT_S
from sriov_rt.neutron.service import Agent
from tests.unit.neutron import fakes

ONE, TWO = fakes.port_id(1), fakes.port_id(2)

RETRY_S = 10.0
POLLING_S = 2.0
REPORT_S = 30.0


class AgentCase(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        self.local = fakes.FakeHost()
        self.server = fakes.FakeServer()
        self.crashes = []
        self.agent = Agent(
            "rt-1",
            self.local,
            self.server,
            Ports(RETRY_S),
            polling_s=POLLING_S,
            report_s=REPORT_S,
            crashed=lambda: self.crashes.append(True),
            monotonic=lambda: self.now,
        )

    def look(self, after_s=POLLING_S):
        """Look once and return what neutron-server heard of it."""
        self.now += after_s
        self.agent.look()
        return self.server.take()


class PortTest(AgentCase):
    def test_a_port_that_came_is_told_once(self):
        self.local.found = [fakes.plugged(1)]
        self.assertEqual([("up", ONE)], self.look())
        self.assertEqual([], self.look())
        self.assertEqual([], self.look(1000))

    def test_a_port_that_went_is_told_once(self):
        self.local.found = [fakes.plugged(1), fakes.plugged(2)]
        self.look()
        self.local.found = [fakes.plugged(2)]
        self.assertEqual([("down", ONE)], self.look())
        self.assertEqual([], self.look(1000))

    def test_a_port_that_is_to_be_down_is_told_down(self):
        self.server.stands[ONE] = PortState.DOWN
        self.local.found = [fakes.plugged(1)]
        self.assertEqual([("down", ONE)], self.look())
        self.server.stands[ONE] = PortState.UP
        self.assertEqual([], self.look())
        self.agent.touched(ONE)
        self.assertEqual([("up", ONE)], self.look())

    def test_a_port_plugged_anew_between_two_looks_is_told_again(self):
        self.local.found = [fakes.plugged(1, tap="/dev/tap7")]
        self.look()
        self.local.found = [fakes.plugged(1, tap="/dev/tap9")]
        self.assertEqual([("up", ONE)], self.look())

    def test_a_port_that_moves_here_is_told_when_its_binding_is_active(self):
        self.server.stands[ONE] = PortState.ELSEWHERE
        self.local.found = [fakes.plugged(1)]
        self.assertEqual([], self.look())
        self.server.stands[ONE] = PortState.UP
        # Not before Neutron says so …
        self.assertEqual([], self.look())
        self.agent.touched(ONE)
        self.assertEqual([("up", ONE)], self.look())

    def test_it_is_told_though_that_message_was_lost(self):
        self.server.stands[ONE] = PortState.ELSEWHERE
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.server.stands[ONE] = PortState.UP
        self.assertEqual([("up", ONE)], self.look(RETRY_S))

    def test_a_port_that_came_and_went_unbound_is_never_told_of(self):
        self.server.stands[ONE] = PortState.ELSEWHERE
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.local.found = []
        self.assertEqual([], self.look(RETRY_S))

    def test_a_refused_port_is_told_again_and_the_others_are_not(self):
        self.server.refuses = {ONE}
        self.local.found = [fakes.plugged(1), fakes.plugged(2)]
        self.assertEqual([("up", ONE), ("up", TWO)], self.look())
        self.assertEqual([], self.look())
        self.server.refuses = set()
        self.assertEqual([("up", ONE)], self.look(RETRY_S))

    def test_a_refused_going_is_told_again(self):
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.local.found, self.server.refuses = [], {ONE}
        self.assertEqual([("down", ONE)], self.look())
        self.server.refuses = set()
        self.assertEqual([], self.look())
        self.assertEqual([("down", ONE)], self.look(RETRY_S))
        self.assertEqual([], self.look(RETRY_S))

    def test_a_port_that_is_back_before_its_going_was_told_is_up(self):
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.local.found, self.server.broken = [], True
        self.assertEqual([], self.look())
        self.local.found, self.server.broken = [fakes.plugged(1)], False
        self.assertEqual([("up", ONE)], self.look())

    def test_touched_ports_of_other_hosts_are_nothing_here(self):
        self.agent.touched(TWO)
        self.local.found = [fakes.plugged(1)]
        self.assertEqual([("up", ONE)], self.look())


class OutageTest(AgentCase):
    def test_what_could_not_be_told_is_told_later(self):
        self.server.broken = True
        self.local.found = [fakes.plugged(1)]
        self.assertEqual([], self.look())
        self.server.broken = False
        self.assertEqual([("up", ONE)], self.look())

    def test_a_change_during_an_outage_is_not_forgotten(self):
        self.server.stands[ONE] = PortState.DOWN
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.server.broken = True
        self.agent.touched(ONE)
        self.look()
        self.server.broken, self.server.stands = False, {}
        self.assertEqual([("up", ONE)], self.look())

    def test_a_server_that_is_away_is_asked_ever_more_seldom(self):
        self.server.broken = True
        self.local.found = [fakes.plugged(1)]
        delays = [self.agent.look() for _ in range(12)]
        self.assertLess(delays[0], delays[-1])
        self.assertLessEqual(max(delays), DELAY_LIMIT_S)
        self.server.broken = False
        self.assertEqual(POLLING_S, self.agent.look())

    def test_a_host_that_cannot_be_seen_is_looked_at_again(self):
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.local.broken = True
        self.assertEqual([], self.look())
        self.local.broken = False
        # Nothing went down for it.
        self.assertEqual([], self.look())


class ReportTest(AgentCase):
    def test_the_first_report_says_that_it_starts(self):
        self.assertEqual(REPORT_S, self.agent.report())
        self.assertEqual(REPORT_S, self.agent.report())
        (first, starting), (_, later) = self.server.reports
        self.assertTrue(starting)
        self.assertFalse(later)
        self.assertEqual(
            {
                "parents": {"physnet2": 2},
                "vfs": {"physnet2": 2},
                "kinds": ["ipvlan", "macvlan", "vf"],
            },
            first,
        )

    def test_a_start_that_was_not_heard_is_said_again(self):
        self.server.broken = True
        self.agent.report()
        self.server.broken = False
        self.agent.report()
        self.assertTrue(self.server.reports[-1][1])

    def test_parents_that_went_are_reported_so(self):
        self.agent.report()
        self.local.parents = {}
        self.agent.report()
        self.assertEqual({}, self.server.reports[-1][0]["parents"])

    def test_a_driver_that_goes_or_comes_is_reported_at_once(self):
        self.agent.report()
        before = len(self.server.reports)
        self.agent.start()
        self.addCleanup(self.agent.stop)
        for driver, parents in (
            (None, {}),
            (Driver("1.0", "kvm"), {"physnet2": 2}),
        ):
            self.local.runs = driver
            self.agent.touched(ONE)
            for _ in range(600):
                if len(self.server.reports) > before and (
                    self.server.reports[-1][0]["parents"] == parents
                ):
                    break
                time.sleep(0.05)
            self.assertEqual(parents, self.server.reports[-1][0]["parents"])

    def test_after_an_outage_every_port_is_told_anew(self):
        self.agent.report()
        self.local.found = [fakes.plugged(1), fakes.plugged(2)]
        self.look()
        self.server.broken = True
        self.agent.report()
        self.server.broken = False
        self.agent.report()
        self.assertEqual([("up", ONE), ("up", TWO)], self.look())
        self.agent.report()
        self.assertEqual([], self.look())

    def test_ports_that_are_reported_end_no_outage_of_its_state(self):
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.server.broken = True
        self.agent.report()
        self.server.broken = False
        self.agent.touched(ONE)
        self.assertEqual([("up", ONE)], self.look())
        self.agent.report()
        self.assertEqual([("up", ONE)], self.look())

    def test_an_agent_that_was_thought_dead_tells_every_port_anew(self):
        self.agent.report()
        self.local.found = [fakes.plugged(1)]
        self.look()
        self.server.revived = True
        self.agent.report()
        self.assertEqual([("up", ONE)], self.look())

    def test_a_host_that_cannot_be_seen_gives_no_sign_of_life(self):
        self.local.broken = True
        self.assertLess(self.agent.report(), REPORT_S)
        self.assertEqual([], self.server.reports)


class ThreadTest(AgentCase):
    def test_its_threads_do_both_until_it_is_stopped(self):
        done = threading.Event()
        set_status = self.server.set_status

        def reported(up, down):
            done.set()
            return set_status(up, down)

        self.server.set_status = reported
        self.local.found = [fakes.plugged(1)]
        self.agent.start()
        self.addCleanup(self.agent.stop)
        self.assertTrue(done.wait(10))
        done.clear()
        self.agent.touched(ONE)
        self.assertTrue(done.wait(10))
        self.assertEqual([], self.crashes)

    def test_what_it_should_not_meet_ends_the_process(self):
        crashed = threading.Event()
        agent = Agent(
            "rt-1",
            None,
            self.server,
            Ports(RETRY_S),
            polling_s=POLLING_S,
            report_s=REPORT_S,
            crashed=crashed.set,
        )
        with (
            self.assertLogs("sriov_rt.service.worker", "CRITICAL"),
            unittest.mock.patch("threading.excepthook"),
        ):
            agent.start()
            self.assertTrue(crashed.wait(10))
            agent.stop()


class PortStateTest(unittest.TestCase):
    def test_what_neutron_server_says_of_a_port(self):
        for details, expected in (
            ({"device": ONE}, PortState.ELSEWHERE),
            ({"device": ONE, "no_active_binding": True}, PortState.ELSEWHERE),
            ({"port_id": ONE, "admin_state_up": True}, PortState.UP),
            ({"port_id": ONE, "admin_state_up": False}, PortState.DOWN),
            ({"port_id": ONE}, PortState.DOWN),
        ):
            with self.subTest(details=details):
                self.assertIs(expected, port_state(details))
