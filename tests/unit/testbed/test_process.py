# SPDX-License-Identifier: Apache-2.0

"""Processes of the test cloud: known again, and ended with their own."""

import dataclasses
import pathlib
import signal
import tempfile
import threading
import unittest

from tests.testbed import errors
from tests.testbed import process
from tests.testbed.identity import ProcessId
from tests.testbed.identity import family
from tests.testbed.waiting import wait_for


class ProcessTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.room = pathlib.Path(scratch.name)

    def start(self, script: str) -> process.Record:
        record = process.start(
            "it", ("sh", "-c", script), log=self.room / "it.log"
        )
        self.addCleanup(
            process.stop, record.identity, first=signal.SIGKILL, grace=0
        )
        return record

    def test_a_record_is_read_back_as_it_was(self) -> None:
        record = self.start("sleep 60")
        record.save(self.room)
        self.assertEqual(record, process.Record.load(self.room / "it.json"))

    def test_a_pid_with_another_start_time_is_somebody_else(self) -> None:
        own = self.start("sleep 60").identity
        other = dataclasses.replace(own, start_time=own.start_time - 1)
        self.assertFalse(other.alive)
        other.signal(signal.SIGKILL)
        self.assertTrue(own.alive)

    def test_a_pid_that_is_a_thread_by_now_is_left_alone(self) -> None:
        over = threading.Event()
        thread = threading.Thread(target=over.wait)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(over.set)
        assert thread.native_id is not None
        ProcessId(thread.native_id, 0).signal(signal.SIGKILL)

    def test_stopped_once_all_threads_have_taken_the_signal(self) -> None:
        identity = self.start("exec sleep 60").identity
        self.assertFalse(identity.stopped)
        identity.signal(signal.SIGSTOP)
        wait_for("it is stopped", lambda: identity.stopped, timeout=10)
        identity.signal(signal.SIGCONT)
        wait_for("it goes on", lambda: not identity.stopped, timeout=10)

    def test_stop_ends_children_whose_parents_are_gone(self) -> None:
        record = self.start("(sleep 61 & sleep 62 &) ; exec sleep 60")
        wait_for(
            "there are three processes",
            lambda: len(family(record.identity)) == 3,
            timeout=10,
        )
        members = family(record.identity)
        process.stop(record.identity)
        self.assertFalse(any(member.alive for member in members))

    def test_stop_kills_what_does_not_listen(self) -> None:
        record = self.start("trap '' TERM; echo ready; sleep 60; sleep 60")
        wait_for("it is ready", record.log.read_text, timeout=10)
        process.stop(record.identity, grace=0.2)
        self.assertFalse(record.identity.alive)

    def test_stopping_what_has_ended_does_nothing(self) -> None:
        process.stop(ProcessId(pid=2**22 + 1, start_time=0))


class WaitForTest(unittest.TestCase):
    def test_says_what_did_not_come_and_why(self) -> None:
        def probe() -> bool:
            raise ConnectionRefusedError("nobody listens")

        with self.assertRaisesRegex(
            errors.TimedOut, "a service answers: nobody listens"
        ):
            wait_for("a service answers", probe, timeout=0.1, interval=0.01)
