# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import tempfile
import threading
import unittest

from sriov_rt import deadline


class CallTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.stopped = threading.Event()
        self.addCleanup(self.stopped.set)

    def test_what_it_returns_or_raises_is_its_callers(self):
        self.assertEqual(7, deadline.Call("a sum", lambda: 3 + 4).result(60))
        with self.assertRaises(ZeroDivisionError):
            deadline.Call("a quotient", lambda: 1 / 0).result(60)
        # A time-out inside the call is not our deadline.
        with self.assertRaisesRegex(TimeoutError, "of its own"):
            deadline.Call("a call", self._times_out).result(60)

    def _times_out(self):
        raise TimeoutError("of its own")

    def test_a_read_that_does_not_end_is_named_and_left(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        fifo = pathlib.Path(place.name, "fifo")
        os.mkfifo(fifo)
        call = deadline.Call("the look at a file", fifo.read_text)
        with (
            self.assertLogs(deadline.LOG) as logged,
            self.assertRaises(deadline.Expired) as raised,
        ):
            call.result(0.1)
        self.assertIn(
            "the look at a file has not ended within 0.1 s; 'cat /proc/",
            str(raised.exception),
        )
        # The log has the Python line that the call is at.
        self.assertIn("read_text", logged.output[0])
        self.assertFalse(call.has_ended)
        fifo.write_text("later")
        self.assertEqual("later", call.result(60))

    def test_no_more_than_a_few_go_on_at_once(self):
        calls = deadline.Calls("a call", 2)
        for _ in range(2):
            with (
                self.assertLogs(deadline.LOG),
                self.assertRaisesRegex(deadline.Expired, "/stack"),
            ):
                calls.result(self.stopped.wait, 0.1)
        threads = threading.active_count()
        for _ in range(3):
            with self.assertRaisesRegex(
                deadline.Expired, "did not begin within 0.1 s"
            ):
                calls.result(self.stopped.wait, 0.1)
        self.assertEqual(threads, threading.active_count())
        self.stopped.set()
        self.assertEqual(1, calls.result(lambda: 1, 60))
