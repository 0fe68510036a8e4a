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


"""What several threads want at once."""

import functools
import threading
import time
import unittest
from concurrent import futures
from unittest import mock

from sriov_rt.exceptions import SriovRtError
from sriov_rt.vif import together
from sriov_rt.vif.together import Interrupted
from sriov_rt.vif.together import Together

#: Seconds that something may take on a busy machine.
PATIENCE = 10.0


class Refused(SriovRtError):
    pass


class TogetherTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.rounds = []
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.stop = None
        self.together = Together(self._work)
        self.pool = self.enterContext(futures.ThreadPoolExecutor(40))

    def _work(self, what, take):
        first = not self.begun.is_set()
        jobs = take()
        self.begun.set()
        if first:
            # Meanwhile others come.
            self.assertTrue(self.gate.wait(PATIENCE))
        self.rounds.append([job.want for job in jobs])
        for job in jobs:
            if job.want == self.stop:
                raise SystemExit("stopped")
            if isinstance(job.want, int):
                job.finish(job.want * 2)
            elif job.want == "refused":
                job.fail(Refused(what))

    def _until(self, probe):
        deadline = time.monotonic() + PATIENCE
        while not probe():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)

    def _crowd(self, wants):
        """Let one begin, the others wait for it, and all go on."""
        done = [self.pool.submit(self.together.do, "vf0", wants[0])]
        self.assertTrue(self.begun.wait(PATIENCE))
        for count, want in enumerate(wants[1:], 1):
            done.append(self.pool.submit(self.together.do, "vf0", want))
            self._until(
                lambda: len(self.together._waiting["vf0"]) >= count  # noqa: B023
            )
        self.gate.set()
        return done

    def test_one_alone(self):
        self.gate.set()
        self.assertEqual(self.together.do("vf0", 1), 2)
        self.assertEqual(self.together._waiting, {})

    def test_those_that_came_meanwhile_are_done_in_one_go(self):
        done = self._crowd(list(range(9)))
        self.assertEqual([each.result() for each in done], [*range(0, 18, 2)])
        self.assertEqual(self.rounds, [[0], [*range(1, 9)]])
        self.assertEqual(self.together._waiting, {})

    def test_nobody_works_for_all_for_ever(self):
        wants = list(range(1 + 2 * together.MAX_AT_ONCE + 3))
        done = self._crowd(wants)
        self.assertEqual(
            [each.result() for each in done], [2 * n for n in wants]
        )
        sizes = [len(each) for each in self.rounds]
        most = together.MAX_AT_ONCE
        self.assertEqual(sizes, [1, most, most, 3])

    def test_each_has_its_own_error(self):
        done = self._crowd([0, 1, "refused", 3])
        with self.assertRaises(Refused):
            done.pop(2).result()
        self.assertEqual([each.result() for each in done], [0, 2, 6])

    def test_what_the_work_raises_is_for_all_that_it_was_for(self):
        def work(what, take):
            if not self.begun.is_set():
                return self._work(what, take)
            raise Refused(what)

        self.together = Together(work)
        done = self._crowd([0, 1, 2])
        self.assertEqual(done[0].result(), 0)
        for each in done[1:]:
            with self.assertRaises(Refused):
                each.result()
        self.assertEqual(self.together._waiting, {})

    def test_who_was_led_by_one_that_is_stopped_is_told(self):
        self.stop = 2
        done = self._crowd([0, 1, 2, 3])
        self.assertEqual(done[0].result(), 0)
        with self.assertRaises(SystemExit):
            done[1].result()
        for each in done[2:]:
            with self.assertRaises(Interrupted):
                each.result()
        self.stop = None
        self.assertEqual(self.together.do("vf0", 5), 10)

    def test_who_is_interrupted_while_it_waits_is_left_out(self):
        self._leave(lambda wait, what: time.sleep(0.01))

    def test_who_is_interrupted_when_it_is_to_lead_lets_another(self):
        self._leave(lambda wait, what: wait(what))

    def _leave(self, until):
        """Interrupt the first that waits, and see all others done."""
        wait = together.Job.wait

        def interrupted(job, what):
            if job.want != 1:
                return wait(job, what)
            until(functools.partial(wait, job), what)
            raise KeyboardInterrupt

        with mock.patch.object(together.Job, "wait", interrupted):
            first = self.pool.submit(self.together.do, "vf0", 0)
            self.assertTrue(self.begun.wait(PATIENCE))
            left = self.pool.submit(self._fail, 1)
            self._until(lambda: self.together._waiting["vf0"] or left.done())
            others = [
                self.pool.submit(self.together.do, "vf0", each)
                for each in (2, 3)
            ]
            self.gate.set()
            self.assertTrue(left.result(PATIENCE))
            self.assertEqual(first.result(PATIENCE), 0)
            self.assertEqual([n.result(PATIENCE) for n in others], [4, 6])
        self.assertEqual(self.together._waiting, {})
        self.assertFalse([each for each in self.rounds if 1 in each])

    def _fail(self, want):
        try:
            self.together.do("vf0", want)
        except KeyboardInterrupt:
            return True

    def test_other_things_do_not_wait(self):
        first = self.pool.submit(self.together.do, "vf0", 1)
        self.assertTrue(self.begun.wait(PATIENCE))
        self.assertEqual(self.together.do("vf1", 2), 4)
        self.assertFalse(first.done())
        self.gate.set()
        self.assertEqual(first.result(), 2)

    def test_who_waits_for_long_says_so(self):
        with (
            mock.patch.object(together, "QUIET_S", 0.01),
            self.assertLogs(together.LOG, "WARNING") as logs,
        ):
            first = self.pool.submit(self.together.do, "vf0", 0)
            self.assertTrue(self.begun.wait(PATIENCE))
            second = self.pool.submit(self.together.do, "vf0", 1)
            self._until(lambda: logs.output)
            self.gate.set()
            self.assertEqual((first.result(), second.result()), (0, 2))
        self.assertIn("vf0", logs.output[0])
