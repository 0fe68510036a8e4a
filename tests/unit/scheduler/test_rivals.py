# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.scheduler.rivals import Rivals
from tests.unit.agent import fakes

END_S = 60.0


class RivalsTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.rivals = Rivals(2, END_S, self.clock)

    def hear(self, *agents, host="a"):
        return [self.rivals.hear(host, each) for each in agents]

    def test_one_that_restarts_is_no_rival(self):
        self.assertEqual(
            [False, False, True, False, True],
            self.hear("m/1", "m/1", "m/2", "m/2", "m/3"),
        )
        self.assertEqual("", self.rivals.of("a"))

    def test_two_by_turns_are(self):
        self.hear("m/1", "n/2", "m/1")
        self.assertEqual("m/1, n/2", self.rivals.of("a"))
        self.assertEqual(["a"], list(self.rivals))
        self.assertEqual("", self.rivals.of("b"))

    def test_it_ends_when_one_alone_is_heard_for_long(self):
        self.hear("m/1", "n/2", "m/1", "m/1")
        self.clock.now += END_S
        self.hear("m/1")
        self.assertEqual("m/1, n/2", self.rivals.of("a"))
        self.clock.now += 1
        self.hear("m/1")
        self.assertEqual("", self.rivals.of("a"))

    def test_it_ends_when_one_is_stopped(self):
        self.hear("m/1", "n/2", "m/1")
        self.rivals.forget("a")
        self.hear("n/2")
        self.assertEqual("", self.rivals.of("a"))

    def test_three_are_named(self):
        self.hear("a/1", "b/2", "c/3", "a/1", "b/2", "c/3")
        self.assertEqual("a/1, b/2, c/3", self.rivals.of("a"))

    def test_what_has_no_name_is_anybody(self):
        self.assertEqual(
            [False] * 5, self.hear(None, 7, "", "with space", "x" * 301)
        )
        self.hear("m/1", None, "m/1")
        self.assertEqual("", self.rivals.of("a"))

    def test_hosts_are_bounded(self):
        for host in ("a", "b", "c"):
            self.hear("m/1", "n/2", "m/1", host=host)
        self.assertEqual(["a", "b"], list(self.rivals))
