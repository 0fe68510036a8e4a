# SPDX-License-Identifier: Apache-2.0

import math
import threading
import unittest

from sriov_rt.service.reconciler import NotYet
from sriov_rt.service.reconciler import Reconciler
from tests.unit.agent import fakes

LOGGER = "sriov_rt.service.reconciler"


class ReconcilerTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.down = False
        self.why = "down"
        self.attempts = []
        self.applied = []
        self.reconciler = self._reconciler()

    def _reconciler(self, again_s=math.inf):
        return Reconciler(
            "r",
            self._apply,
            backoff=fakes.backoff(),
            crashed=fakes.Crash(),
            again_s=again_s,
            monotonic=self.clock,
        )

    def _apply(self, state):
        self.attempts.append((self.clock.now, state))
        if self.down:
            raise NotYet(self.why)
        self.applied.append(state)

    def _run(self, seconds):
        """Let the time pass as the thread would see it."""
        until = self.clock.now + seconds
        while True:
            self.clock.now = min(
                until, self.clock.now + self.reconciler.worker.tick()
            )
            if self.clock.now >= until:
                return

    def test_nothing_is_applied_before_a_state_is_wanted(self):
        self._run(1.0)
        self.assertEqual([], self.attempts)

    def test_a_wanted_state_is_applied_once(self):
        self._run(1.0)
        self.reconciler.set_desired("a")
        self._run(100.0)
        self.assertEqual(["a"], self.applied)

    def test_it_is_tried_again_until_it_works(self):
        self.down = True
        self.reconciler.set_desired("a")
        with self.assertLogs(LOGGER):
            self._run(10.0)
        self.assertEqual(
            [0, 1, 3, 7], [when - 1000 for when, _ in self.attempts]
        )
        self.down = False
        with self.assertLogs(LOGGER, "INFO") as logs:
            self._run(10.0)
        self.assertEqual(["a"], self.applied)
        self.assertIn("r: succeeded after 5 attempts", logs.output[0])

    def test_the_latest_state_wins_and_no_other_is_applied_late(self):
        self.down = True
        self.reconciler.set_desired("a")
        with self.assertLogs(LOGGER):
            self._run(2.0)
        self.reconciler.set_desired("b")
        self.reconciler.set_desired("c")
        self.down = False
        self._run(10.0)
        self.assertEqual(["c"], self.applied)

    def test_new_states_do_not_cut_the_delay_short(self):
        self.down = True
        self.reconciler.set_desired("a")
        with self.assertLogs(LOGGER):
            for state in range(40):
                self._run(0.25)
                self.reconciler.set_desired(state)
        self.assertEqual(
            [0, 1, 3, 7], [when - 1000 for when, _ in self.attempts]
        )

    def test_a_state_wanted_during_an_attempt_follows_it(self):
        original = self._apply

        def apply(state):
            original(state)
            if state == "a":
                reconciler.set_desired("b")

        reconciler = Reconciler(
            "r",
            apply,
            backoff=fakes.backoff(),
            crashed=fakes.Crash(),
            monotonic=self.clock,
        )
        reconciler.set_desired("a")
        self.assertEqual(0.0, reconciler.worker.tick())
        self.assertEqual(math.inf, reconciler.worker.tick())
        self.assertEqual(["a", "b"], self.applied)

    def test_the_same_state_is_applied_again_after_the_interval(self):
        self.reconciler = self._reconciler(again_s=300.0)
        self.reconciler.set_desired("a")
        self._run(299.0)
        self.assertEqual(["a"], self.applied)
        self._run(2.0)
        self.assertEqual(["a", "a"], self.applied)

    def test_a_failure_is_a_warning_once_and_a_new_one_again(self):
        self.down = True
        self.reconciler.set_desired("a")
        with self.assertLogs(LOGGER, "WARNING") as logs:
            self._run(10.0)
            self.why = "other"
            self._run(20.0)
        self.assertEqual(2, len(logs.output))
        self.assertIn(
            "r: down (attempt 1; trying again in 1.0 s)", logs.output[0]
        )
        self.assertIn("other", logs.output[1])

    def test_the_final_state_goes_at_once_even_while_attempts_fail(self):
        self.down = True
        self.reconciler.set_desired("a")
        with self.assertLogs(LOGGER):
            self._run(3.5)
        self.down = False
        self.reconciler.finish("end")
        self.reconciler.worker.tick()
        self.assertEqual(["end"], self.applied)
        self.assertTrue(self.reconciler.join(0))

    def test_nothing_follows_the_final_state(self):
        self.reconciler.finish("end")
        self.reconciler.set_desired("late")
        self._run(10.0)
        self.assertEqual(["end"], self.applied)

    def test_a_final_state_that_does_not_come_is_said(self):
        self.down = True
        self.reconciler.finish("end")
        with self.assertLogs(LOGGER):
            self.reconciler.worker.tick()
        self.assertFalse(self.reconciler.join(0))


class HangingTest(unittest.TestCase):
    def test_who_wants_a_state_never_waits_for_one_that_hangs(self):
        hanging, release = threading.Event(), threading.Event()
        applied = []

        def apply(state):
            hanging.set()
            release.wait(10)
            applied.append(state)

        reconciler = Reconciler(
            "r", apply, backoff=fakes.backoff(), crashed=fakes.Crash()
        )
        reconciler.set_desired(1)
        reconciler.start()
        self.assertTrue(hanging.wait(5))
        for state in range(2, 1000):
            reconciler.set_desired(state)
        reconciler.finish("end")
        self.assertFalse(reconciler.join(0.05))
        release.set()
        self.assertTrue(reconciler.worker.join(5))
        self.assertEqual(1, applied[0])
