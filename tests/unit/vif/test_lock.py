# SPDX-License-Identifier: Apache-2.0

import errno
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest
import uuid
from unittest import mock

from sriov_rt.vif import errors
from sriov_rt.vif import lock
from sriov_rt.vif.lock import Locks
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT


class LocksTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name) / "vif"
        self.locks = Locks(self.directory, 0.1)

    def test_a_port_is_held_once(self):
        with self.locks.port(PORT):
            with (
                self.assertRaises(errors.Busy) as caught,
                Locks(self.directory, 0.05).port(PORT),
            ):
                self.fail("held twice")
            self.assertEqual(PORT, caught.exception.port)
        with self.locks.port(PORT):
            pass

    def test_others_are_not_held(self):
        with (
            self.locks.port(PORT),
            self.locks.port(OTHER),
            self.locks.parent(PORT),
            self.locks.parent("eth0"),
        ):
            pass

    def test_the_wait_has_a_bound(self):
        with self.locks.parent("eth0"):
            start = time.monotonic()
            with self.assertRaises(errors.Busy), self.locks.parent("eth0"):
                pass
            self.assertGreaterEqual(time.monotonic() - start, 0.1)
            start = time.monotonic()
            with (
                self.assertRaises(errors.Busy),
                Locks(self.directory, 60).parent("eth0", wait=False),
            ):
                pass
            self.assertLess(time.monotonic() - start, 10)

    def test_a_long_wait_is_told_of(self):
        locks = Locks(self.directory, 1)
        for other in (locks, Locks(self.directory, 1)):
            with (
                other.parent("eth0"),
                mock.patch.object(lock, "QUIET_S", 0.02),
                self.assertLogs("sriov_rt.vif.lock", "WARNING") as logs,
                self.assertRaises(errors.Busy),
                locks.parent("eth0"),
            ):
                pass
            self.assertEqual(1, len(logs.output))
            self.assertIn("waiting for parent eth0", logs.output[0])

    def test_threads_exclude_each_other(self):
        locks = Locks(self.directory, 30)
        inside = []
        together = []

        def work():
            for _ in range(20):
                with locks.parent("eth0"):
                    inside.append(1)
                    together.append(len(inside))
                    time.sleep(0)
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual([1] * 80, together)

    def test_who_waits_is_woken_at_once(self):
        locks = Locks(self.directory, 30)
        held = threading.Event()
        waits = []

        def wait():
            held.wait()
            with locks.parent("eth0"):
                waits.append(time.monotonic())

        thread = threading.Thread(target=wait)
        # Looked at now and then only, it would be some 20 ms later.
        with mock.patch("sriov_rt.vif.lock._LAST_PAUSE_S", 20.0):
            thread.start()
            with locks.parent("eth0"):
                held.set()
                time.sleep(0.1)
            thread.join(10)
        self.assertEqual(len(waits), 1)
        self.assertEqual(locks._turns, {})  # noqa: SLF001

    def test_a_killed_process_holds_nothing(self):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            with self.locks.port(PORT):
                os.write(writer, b"x")
                time.sleep(60)
            os._exit(0)
        os.read(reader, 1)
        with self.assertRaises(errors.Busy), self.locks.port(PORT):
            pass
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with self.locks.port(PORT):
            pass
        os.close(reader)
        os.close(writer)

    def test_a_child_that_is_forked_holds_nothing(self):
        with self.locks.port(PORT):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
        try:
            with Locks(self.directory, 30).port(PORT):
                pass
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def test_where_no_file_can_be_made_locks_are_sockets(self):
        port = str(uuid.uuid4())
        for number in (errno.ENOSPC, errno.EROFS):
            error = OSError(number, os.strerror(number))
            with (
                self.subTest(error=error),
                mock.patch("os.open", side_effect=error),
                self.assertLogs("sriov_rt.vif.lock", "WARNING"),
            ):
                with self.locks.port(port):
                    with (
                        self.assertRaises(errors.Busy),
                        Locks(self.directory, 0.05).port(port),
                    ):
                        self.fail("held twice")
                    with self.locks.port(OTHER):
                        pass
                with Locks(self.directory, 0.05).port(port):
                    pass

    def test_there_is_one_file_whatever_is_locked(self):
        for number in range(50):
            with self.locks.parent(f"eth{number}"):
                pass
        self.assertEqual(["lock"], fakes.files(self.directory))

    def test_no_descriptor_is_left(self):
        before = len(fakes.files("/proc/self/fd"))
        for _ in range(10):
            with (
                self.locks.port(PORT),
                self.assertRaises(errors.Busy),
                self.locks.port(PORT, wait=False),
            ):
                pass
        self.assertEqual(before, len(fakes.files("/proc/self/fd")))

    def test_a_directory_that_cannot_be_used(self):
        self.directory.write_text("")
        with self.assertRaises(errors.RecordsBroken), self.locks.port(PORT):
            pass

    def test_a_file_system_without_locks(self):
        failing = OSError(errno.ENOLCK, "No locks available")
        with (
            mock.patch("fcntl.fcntl", side_effect=failing),
            self.assertRaises(errors.RecordsBroken) as caught,
            self.locks.port(PORT),
        ):
            pass
        self.assertIn("No locks available", str(caught.exception))
