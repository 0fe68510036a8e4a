# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.scheduler import unknown_hosts
from sriov_rt.scheduler.unknown_hosts import INTERVAL_S
from sriov_rt.scheduler.unknown_hosts import UnknownHosts
from tests.unit.agent import fakes


class UnknownHostsTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.reported = {"a": 1, "b": 2}
        self.mapped = ["a", "b"]
        self.looks = 0
        self.hosts = UnknownHosts(self.reported.keys, self.map, self.clock)

    def map(self):
        self.looks += 1
        if self.mapped is None:
            raise RuntimeError("no database")
        return self.mapped

    def look(self):
        self.clock.now += INTERVAL_S
        if thread := self.hosts.look():
            thread.join(10)

    def test_a_host_that_nova_does_not_know_is_told_once(self):
        self.reported["ghost"] = 3
        with self.assertLogs(unknown_hosts.LOG, "WARNING") as logged:
            for _ in range(3):
                self.look()
        (said,) = logged.output
        self.assertIn("Agents report as ghost, and Nova has no such", said)
        self.reported["other"] = 4
        with self.assertLogs(unknown_hosts.LOG, "WARNING") as logged:
            self.look()
        self.assertNotIn("ghost", logged.output[0])

    def test_known_hosts_are_looked_up_once(self):
        with self.assertNoLogs(unknown_hosts.LOG, "WARNING"):
            for _ in range(3):
                self.look()
        self.assertEqual(1, self.looks)

    def test_a_database_that_is_away_says_nothing_of_hosts(self):
        self.mapped = None
        with self.assertNoLogs(unknown_hosts.LOG, "WARNING"):
            self.look()
        self.mapped = ["a"]
        with self.assertLogs(unknown_hosts.LOG, "WARNING"):
            self.look()

    def test_it_is_looked_at_seldom(self):
        self.reported["ghost"] = 3
        self.mapped = None
        self.look()
        self.assertIsNone(self.hosts.look())
        self.assertEqual(1, self.looks)
