# SPDX-License-Identifier: Apache-2.0

import os
import threading
import unittest

from oslo_config import cfg

from sriov_rt.scheduler import worker
from sriov_rt.scheduler.worker import Worker
from tests.unit.scheduler.fakes import Clock


class FakeListener:
    """Listens to nobody, until it is stopped."""

    made: "list[FakeListener]"

    def __init__(self, conf, server, table) -> None:
        self.server = server
        self.stopped = threading.Event()

    def run(self) -> None:
        self.stopped.wait()

    def stop(self) -> None:
        self.stopped.set()


class WorkerCase(unittest.TestCase):
    def setUp(self):
        self.conf = cfg.ConfigOpts()
        self.conf([], default_config_files=[])
        self.clock = Clock()
        self.listeners: list[FakeListener] = []
        self.made = threading.Event()
        self.failures: list[Exception] = []
        self.worker = Worker(self.conf, self.clock, listen=self._listen)
        self.addCleanup(self.worker.stop)

    def _listen(self, *arguments) -> FakeListener:
        if self.failures:
            raise self.failures.pop()
        self.listeners.append(FakeListener(*arguments))
        self.made.set()
        return self.listeners[-1]

    def _advance(self, seconds: float) -> bool:
        self.clock.now += seconds
        return False


class WorkerTest(WorkerCase):
    def test_nothing_runs_before_the_first_request(self):
        self.assertEqual([], self.listeners)

    def test_it_starts_once(self):
        threads = [
            threading.Thread(target=self.worker.start) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(self.made.wait(10))
        self.assertEqual(1, len(self.listeners))

    def test_start_does_not_wait_for_a_queue_that_hangs(self):
        hanging = threading.Event()
        self.addCleanup(hanging.set)

        def listen(*arguments) -> FakeListener:
            hanging.wait()
            return FakeListener(*arguments)

        slow = Worker(self.conf, self.clock, listen=listen)
        # It would not come back: the queue hangs until the next line.
        slow.start()
        hanging.set()
        slow.stop()

    def test_a_listener_that_fails_is_tried_again(self):
        self.failures = [OSError("no route")]
        retry_s, worker.RETRY_S = worker.RETRY_S, 0.01
        self.addCleanup(setattr, worker, "RETRY_S", retry_s)
        with self.assertLogs(worker.LOG, "ERROR"):
            self.worker.start()
            self.assertTrue(self.made.wait(10))

    def test_it_waits_until_all_is_known(self):
        answers = iter([False, False, True])
        self.worker.warm_up(lambda: next(answers))
        self.assertEqual([], list(answers))

    def test_it_waits_no_longer_than_the_limit(self):
        self.worker.warm_up(lambda: self._advance(1.0))
        self.assertEqual(1010.0, self.clock.now)

    def test_after_the_limit_it_never_waits(self):
        self.worker.start()
        self.clock.now += 11
        self.worker.warm_up(lambda: self.fail("looked"))

    def test_the_limit_is_an_option(self):
        self.conf.set_override("warmup_timeout", 0.0, group="sriov_rt")
        impatient = Worker(self.conf, self.clock, listen=self._listen)
        self.addCleanup(impatient.stop)
        impatient.warm_up(lambda: self.fail("looked"))


class ProcessTest(unittest.TestCase):
    def test_one_worker_a_process(self):
        self.assertIs(worker.of_this_process(), worker.of_this_process())

    def test_a_fork_has_its_own(self):
        before = worker.of_this_process()
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            same = worker.of_this_process() is before
            os.write(writer, b"same" if same else b"other")
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as told:
            self.assertEqual(b"other", told.read())
