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

import math
import unittest

from sriov_rt.agent.backoff import Backoff
from sriov_rt.kubernetes import node
from sriov_rt.kubernetes import problems
from sriov_rt.kubernetes.node import Event
from sriov_rt.kubernetes.node import Kind
from sriov_rt.kubernetes.watcher import RESYNC_S
from sriov_rt.kubernetes.watcher import Watcher
from tests.unit.labels import fakes

NFD = "feature.node.kubernetes.io/"
CARD = {NFD + "pci-1924.present": "true", NFD + "kernel-version.major": "6"}
NO_CARD = {NFD + "kernel-version.major": "6"}


class FakeApi:
    """An API server that plays a script: one entry a request.

    A list is answered with a Listing, a watch with a list of Events and of
    numbers, which are seconds that pass; or either with a problem.
    """

    def __init__(self, clock):
        self._clock = clock
        self.script = []
        self.asked = []
        self.interrupted = False

    def list(self):
        self.asked.append("list")
        return self._next()

    def watch(self, version):
        self.asked.append(f"watch {version}")
        script = self._next()
        yield Event(Kind.OPENED, version)
        for each in script:
            if isinstance(each, Exception):
                raise each
            if isinstance(each, Event):
                yield each
            else:
                self._clock.now += each

    def interrupt(self):
        self.interrupted = True

    def _next(self):
        found = self.script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class WatcherTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.api = FakeApi(self.clock)
        self.changes = 0
        self.watcher = Watcher(
            self.api,
            "h",
            Backoff(1.0, 30.0, uniform=max),
            self.changed,
            self.fail,
            monotonic=self.clock.monotonic,
            uniform=max,
        )

    def changed(self):
        self.changes += 1

    def play(self, *script):
        """Play a script to its end; return the last step's delay."""
        self.api.script = list(script)
        self.api.asked = []
        while self.api.script:
            delay_s = self.watcher.step()
        return delay_s

    def begin(self, labels=CARD):
        self.play(node.Listing("5", labels), [10.0])

    def test_list_then_watch_from_there(self):
        delay_s = self.play(node.Listing("5", CARD), [10.0])
        self.assertEqual(["list", "watch 5"], self.api.asked)
        answer = self.watcher.read()
        self.assertEqual(CARD, answer.labels)
        self.assertIsNone(answer.problem)
        self.assertEqual(self.clock.now, answer.confirmed)
        self.assertEqual(1, self.changes)
        self.assertLess(delay_s, 1.0)

    def test_events_move_the_version_and_the_labels(self):
        self.begin()
        self.play([Event(Kind.MODIFIED, "6", NO_CARD), 5.0], [1.0])
        self.assertEqual(["watch 5", "watch 6"], self.api.asked)
        self.assertEqual(NO_CARD, self.watcher.read().labels)
        self.assertEqual(2, self.changes)

    def test_an_event_that_leaves_the_labels_wakes_nobody(self):
        self.begin()
        before = self.watcher.read()
        self.play([Event(Kind.MODIFIED, "6", dict(CARD)), 5.0])
        self.assertIs(before.labels, self.watcher.read().labels)
        self.assertEqual(1, self.changes)

    def test_bookmarks_move_the_version_and_confirm(self):
        self.begin()
        self.play(
            [60.0, Event(Kind.BOOKMARK, "90"), 30.0, problems.Unreachable("x")]
        )
        self.assertEqual(self.clock.now - 30.0, self.watcher.read().confirmed)
        self.play([1.0])
        self.assertEqual(["watch 90"], self.api.asked)
        self.assertEqual(1 + 2, self.changes)  # down, and back

    def test_an_outage_keeps_labels_and_confirms_nothing(self):
        self.begin()
        confirmed = self.watcher.read().confirmed
        delays = [
            self.play(problems.Unreachable("Connection refused"))
            for _ in range(7)
        ]
        self.assertEqual([1, 2, 4, 8, 16, 30, 30], delays)
        answer = self.watcher.read()
        self.assertEqual(CARD, answer.labels)
        self.assertEqual(confirmed, answer.confirmed)
        self.assertIn("see that it runs", answer.problem)
        self.assertEqual(2, self.changes)
        self.clock.now += 60
        self.play([Event(Kind.BOOKMARK, "6"), 1.0])
        self.assertIsNone(self.watcher.read().problem)
        self.assertEqual(["watch 5"], self.api.asked)
        self.assertEqual(1, self.play(problems.Unreachable("again")))

    def test_gone_is_listed_again_at_once_but_not_for_ever(self):
        self.begin()
        gone = Event(Kind.ERROR, "", code=410, message="too old")
        delay_s = self.play([gone], node.Listing("9", NO_CARD), [5.0])
        self.assertEqual(["watch 5", "list", "watch 9"], self.api.asked)
        self.assertEqual(NO_CARD, self.watcher.read().labels)
        self.assertLess(delay_s, 1.0)
        self.assertEqual(0.0, self.play(problems.Expired()))
        listing = node.Listing("9", NO_CARD)
        self.assertGreaterEqual(self.play(listing, problems.Expired()), 1.0)
        self.assertGreaterEqual(self.play(listing, problems.Expired()), 1.0)

    def test_each_refusal_names_its_remedy(self):
        self.begin()
        for problem, words in (
            (problems.CredentialsRefused(), "renew its certificate"),
            (problems.Forbidden("no"), "let it get, list and watch"),
            (problems.CredentialsUnreadable("no"), "correct [kubernetes]"),
        ):
            self.play(problem)
            self.assertIn(words, self.watcher.read().problem)
            self.assertEqual(CARD, self.watcher.read().labels)
        self.play([5.0])
        self.assertIsNone(self.watcher.read().problem)

    def test_retry_after_is_kept(self):
        self.begin()
        busy = problems.Refused(429, "too many", retry_after_s=20.0)
        self.assertEqual(20.0, self.play(busy))

    def test_a_refusal_or_nonsense_makes_it_list_again(self):
        for problem in (
            problems.Refused(504, "too large resource version"),
            node.Garbled("no JSON"),
            [Event(Kind.ERROR, "", code=500, message="oops")],
        ):
            self.begin()
            self.play(problem, node.Listing("9", CARD), [5.0])
            self.assertEqual(
                ["watch 5", "list", "watch 9"], self.api.asked, problem
            )
            self.watcher._version = ""

    def test_watches_that_end_at_once_are_a_failure(self):
        self.begin()
        self.assertEqual([1, 2, 4], [self.play([]) for _ in range(3)])
        self.assertIn("at once", self.watcher.read().problem)

    def test_a_node_that_is_deleted_and_comes_back(self):
        self.begin()
        confirmed = self.watcher.read().confirmed
        self.play([5.0, Event(Kind.DELETED, "6", CARD), 60.0], [60.0])
        answer = self.watcher.read()
        self.assertEqual(CARD, answer.labels)
        self.assertIn("there is no Node 'h'", answer.problem)
        self.assertLess(answer.confirmed, confirmed + 6.0)
        self.play([Event(Kind.ADDED, "8", NO_CARD), 1.0])
        self.assertEqual(NO_CARD, self.watcher.read().labels)
        self.assertIsNone(self.watcher.read().problem)

    def test_a_node_that_was_never_there(self):
        self.begin(labels=None)
        answer = self.watcher.read()
        self.assertIsNone(answer.labels)
        self.assertEqual(-math.inf, answer.confirmed)
        self.assertIn("node_name", answer.problem)

    def test_all_labels_of_nfd_gone_is_nfd_gone(self):
        self.begin(labels=CARD | {"zone": "a"})
        self.play([Event(Kind.MODIFIED, "6", {"zone": "b"}), 60.0])
        answer = self.watcher.read()
        self.assertEqual(CARD | {"zone": "a"}, answer.labels)
        self.assertIn("nfd-master", answer.problem)
        self.play([Event(Kind.MODIFIED, "7", NO_CARD), 1.0])
        self.assertEqual(NO_CARD, self.watcher.read().labels)

    def test_the_same_after_a_restart(self):
        self.watcher._known = CARD
        self.begin(labels={"zone": "b"})
        self.assertIsNone(self.watcher.read().labels)
        self.assertIn("nfd-master", self.watcher.read().problem)

    def test_a_node_that_nfd_never_knew_is_none_of_its(self):
        self.begin(labels={"zone": "b"})
        self.assertEqual({"zone": "b"}, self.watcher.read().labels)

    def test_listed_anew_after_a_long_time(self):
        self.begin()
        self.clock.now += 1.25 * RESYNC_S
        self.play(node.Listing("3", NO_CARD), [5.0])
        self.assertEqual(["list", "watch 3"], self.api.asked)

    def test_stop_cuts_off_the_request_and_is_no_problem(self):
        self.begin()
        self.watcher.stop()
        self.assertTrue(self.api.interrupted)
        self.assertEqual(math.inf, self.play(problems.Unreachable("cut")))
        self.assertIsNone(self.watcher.read().problem)
