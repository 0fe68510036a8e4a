# SPDX-License-Identifier: Apache-2.0

import queue
import signal
import threading
import unittest

from sriov_rt.service import signals


class WaitTest(unittest.TestCase):
    def setUp(self):
        self.received = queue.SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        signals.handle(self.received)

    def test_what_has_come_already(self):
        for number in (signal.SIGHUP, signal.SIGTERM):
            self.received.put(number)
        self.assertEqual(signal.SIGHUP, signals.wait(self.received))
        self.assertEqual(signal.SIGTERM, signals.wait(self.received))

    def test_one_that_interrupts_no_wait_of_the_main_thread(self):
        """The kernel gives it to another thread: nothing wakes this one."""

        def raised() -> None:
            signal.pthread_kill(threading.get_ident(), signal.SIGHUP)

        # Longer than it takes to begin to wait.
        threading.Timer(0.2, raised).start()
        self.assertEqual(signal.SIGHUP, signals.wait(self.received))


class ServeTest(unittest.TestCase):
    """What an agent does by its signals, and how it ends."""

    def served(self, *numbers: int) -> tuple[int, list[str]]:
        """Return the exit code, and what SIGHUP has done."""
        received, done = queue.SimpleQueue(), []
        for number in numbers:
            received.put(number)
        actions = {signal.SIGHUP: lambda: done.append("reloaded")}
        with self.assertLogs(signals.LOG, "INFO") as logs:
            code = signals.serve(received, actions)
        (self.said,) = logs.output
        return code, done

    def test_what_has_no_action_ends_it(self):
        self.assertEqual(
            (0, ["reloaded", "reloaded"]),
            self.served(signal.SIGHUP, signal.SIGHUP, signal.SIGTERM),
        )
        self.assertIn("stopping on SIGTERM", self.said)

    def test_an_error_of_a_thread_is_one_of_the_agent(self):
        code, done = self.served(signals.CRASHED, signal.SIGHUP)
        self.assertEqual((signals.EXIT_CRASHED, []), (code, done))
        self.assertIn("stopping on an error", self.said)
