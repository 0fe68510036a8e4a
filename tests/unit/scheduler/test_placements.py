# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


import threading
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies

from sriov_rt.scheduler import placements
from sriov_rt.scheduler.placements import Placement
from sriov_rt.scheduler.placements import Placements
from tests.unit.scheduler.fakes import Clock

HOLD_S = 60.0


class PlacementsTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.placements = Placements(HOLD_S, self.clock)

    def note(self, host="a", instance="inst-1", *networks):
        self.placements.note(Placement(host, instance, networks or ("net",)))

    def coming(self, host="a", instance=None):
        return dict(self.placements.coming(host, instance))

    def test_each_network_of_each_instance_counts(self):
        self.note("a", "inst-1", "net-a", "net-b")
        self.note("a", "inst-2", "net-b")
        self.note("b", "inst-3", "net-b")
        self.assertEqual({"net-a": 1, "net-b": 2}, self.coming())
        self.assertEqual({}, self.coming("c"))

    def test_what_is_told_twice_counts_once(self):
        self.note()
        self.note()
        self.assertEqual({"net": 1}, self.coming())

    def test_an_instance_does_not_count_against_itself(self):
        self.note()
        self.assertEqual({}, self.coming(instance="inst-1"))

    def test_it_ends_when_the_facts_tell_of_it(self):
        self.note()
        self.placements.arrived("b", {"inst-1"})
        self.placements.arrived("a", {"inst-2"})
        self.assertEqual({"net": 1}, self.coming())
        self.placements.arrived("a", {"inst-1"})
        self.assertEqual({}, self.coming())
        self.assertEqual(0, len(self.placements))

    def test_it_ends_with_its_time(self):
        self.note()
        self.clock.now += HOLD_S / 2
        self.note("a", "inst-2")
        self.clock.now += HOLD_S / 2
        self.assertEqual({"net": 1}, self.coming())
        self.note("b", "inst-3")
        self.assertEqual(2, len(self.placements))

    def test_the_oldest_give_way_when_there_are_too_many(self):
        with mock.patch.object(placements, "MAX_PLACEMENTS", 3):
            for number in range(5):
                self.note(f"h{number}", f"inst-{number}")
        self.assertEqual(3, len(self.placements))
        self.assertEqual({}, self.coming("h1"))
        self.assertEqual({"net": 1}, self.coming("h2"))

    def test_where_an_instance_was_placed(self):
        self.note()
        self.assertEqual("a", self.placements.of("inst-1").host)
        self.assertIsNone(self.placements.of("inst-2"))
        self.clock.now += HOLD_S
        self.assertIsNone(self.placements.of("inst-1"))

    def test_an_instance_is_in_one_place(self):
        self.note("a")
        self.note("b")
        self.assertEqual({}, self.coming("a"))
        self.assertEqual({"net": 1}, self.coming("b"))
        self.placements.note(Placement("b", "inst-1", ()))
        self.assertEqual({}, self.coming("b"))

    def test_of_those_that_knew_nothing_of_each_other_one_yields(self):
        def stays(instance, *order):
            self.setUp()
            for each in order:
                self.note("a", each)
            found = self.placements.coming("a", instance, settling=True)
            return not found

        # Each worker notes its own first.
        self.assertTrue(stays("inst-1", "inst-1", "inst-2"))
        self.assertFalse(stays("inst-2", "inst-2", "inst-1"))

    def test_who_was_there_before_stays(self):
        self.note("a", "inst-9")
        self.note("a", "inst-1")
        found = self.placements.coming("a", "inst-1", settling=True)
        self.assertEqual({"net": 1}, dict(found))

    def test_the_first_host_that_is_free_is_chosen_and_noted(self):
        found = self.placements.choose(
            "inst-1", ("net",), ["a", "b", "c"], lambda host: host != "a"
        )
        self.assertEqual(Placement("b", "inst-1", ("net",)), found)
        self.assertEqual({"net": 1}, self.coming("b"))

    def test_no_host_is_free(self):
        found = self.placements.choose(
            "inst-1", ("net",), ["a", "b"], lambda host: False
        )
        self.assertIsNone(found)
        self.assertEqual(0, len(self.placements))

    def test_two_threads_never_take_one_place(self):
        together = threading.Barrier(16)
        hosts = [f"h{number}" for number in range(8)]
        found = []

        def choose(number):
            together.wait(10)
            found.append(
                self.placements.choose(
                    f"inst-{number}",
                    ("net",),
                    hosts,
                    lambda host: not self.coming(host),
                )
            )

        threads = [
            threading.Thread(target=choose, args=(number,))
            for number in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = [each.host for each in found if each is not None]
        self.assertEqual(hosts, sorted(taken))
        self.assertEqual(8, found.count(None))

    @hypothesis.given(
        strategies.lists(
            strategies.one_of(
                strategies.tuples(
                    strategies.just("note"),
                    strategies.sampled_from("ab"),
                    strategies.sampled_from("xyz"),
                ),
                strategies.tuples(
                    strategies.just("arrived"),
                    strategies.sampled_from("ab"),
                    strategies.sampled_from("xyz"),
                ),
                strategies.tuples(
                    strategies.just("wait"),
                    strategies.integers(1, 40),
                    strategies.none(),
                ),
            )
        )
    )
    @hypothesis.settings(deadline=None, derandomize=True)
    def test_it_is_what_a_plain_list_of_placements_would_be(self, steps):
        self.setUp()
        model: dict[tuple[str, str], float] = {}
        for what, one, other in steps:
            if what == "note":
                self.note(one, other)
                if self.clock.now >= model.get((one, other), 0.0):
                    model = {k: v for k, v in model.items() if k[1] != other}
                    model[one, other] = self.clock.now + HOLD_S
            elif what == "arrived":
                self.placements.arrived(one, {other})
                model.pop((one, other), None)
            else:
                self.clock.now += one
            for host in "ab":
                count = sum(
                    self.clock.now < ending
                    for (name, _), ending in model.items()
                    if name == host
                )
                expected = {"net": count} if count else {}
                self.assertEqual(expected, self.coming(host))
