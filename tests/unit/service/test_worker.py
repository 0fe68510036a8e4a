# SPDX-License-Identifier: Apache-2.0

import math
import threading
import unittest

from sriov_rt.service.worker import Worker
from tests.unit.agent import fakes


class TickTest(unittest.TestCase):
    def setUp(self):
        self.clock = fakes.Clock()
        self.calls = []
        self.again_s = 10.0
        self.worker = Worker("w", self._step, fakes.Crash(), self.clock)

    def _step(self):
        self.calls.append(self.clock.now)
        return self.again_s

    def test_the_first_call_is_due_at_once(self):
        self.assertEqual(10.0, self.worker.tick())
        self.assertEqual([1000.0], self.calls)

    def test_it_is_not_called_before_it_is_due(self):
        self.worker.tick()
        self.clock.now += 9.0
        self.assertEqual(1.0, self.worker.tick())
        self.assertEqual(1, len(self.calls))
        self.clock.now += 1.0
        self.worker.tick()
        self.assertEqual(2, len(self.calls))

    def test_waking_makes_it_due(self):
        self.worker.tick()
        self.worker.wake()
        self.worker.tick()
        self.assertEqual(2, len(self.calls))

    def test_the_earliest_of_many_wakes_counts_and_one_call_serves_all(self):
        self.worker.tick()
        for after_s in (0.5, 2.0, 0.7):
            self.worker.wake(after_s)
        self.assertEqual(0.5, self.worker.tick())
        self.clock.now += 0.5
        self.worker.tick()
        self.assertEqual(2, len(self.calls))
        self.clock.now += 9.9
        self.worker.tick()
        self.assertEqual(2, len(self.calls))

    def test_a_wake_never_delays(self):
        self.worker.tick()
        self.worker.wake(500.0)
        self.assertEqual(10.0, self.worker.tick())

    def test_waking_during_the_call_is_not_lost(self):
        def step():
            self.calls.append(self.clock.now)
            if len(self.calls) == 1:
                worker.wake()
            return math.inf

        worker = Worker("w", step, fakes.Crash(), self.clock)
        self.assertEqual(0.0, worker.tick())
        self.assertEqual(math.inf, worker.tick())
        self.assertEqual(2, len(self.calls))


class ThreadTest(unittest.TestCase):
    def test_it_runs_when_woken_and_ends_when_stopped(self):
        ran = threading.Semaphore(0)

        def step():
            ran.release()
            return math.inf

        worker = Worker("w", step, fakes.Crash())
        worker.start()
        self.assertTrue(ran.acquire(timeout=5))
        worker.wake()
        self.assertTrue(ran.acquire(timeout=5))
        worker.stop()
        self.assertTrue(worker.join(5))

    def test_an_unexpected_error_is_told_once_and_ends_it(self):
        crashed = fakes.Crash()

        def step():
            raise RuntimeError("boom")

        worker = Worker("w", step, crashed)
        hook, threading.excepthook = threading.excepthook, lambda args: None
        self.addCleanup(setattr, threading, "excepthook", hook)
        with self.assertLogs("sriov_rt.service.worker", "CRITICAL"):
            worker.start()
            self.assertTrue(worker.join(5))
        self.assertEqual(1, crashed.count)

    def test_what_never_started_counts_as_ended(self):
        worker = Worker("w", lambda: math.inf, fakes.Crash())
        worker.stop()
        self.assertTrue(worker.join(0))
