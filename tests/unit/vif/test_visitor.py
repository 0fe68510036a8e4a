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

"""The thread that goes into namespaces; nothing here needs a privilege."""

import errno
import os
import pathlib
import threading
import time
import unittest
from concurrent import futures
from unittest import mock

from sriov_rt.vif import namespaces
from sriov_rt.vif import visitor
from sriov_rt.vif.visitor import Visitor

#: Seconds that something may take on a busy machine.
PATIENCE = 10.0

#: A descriptor that no test has open.
THERE = 1 << 20


class VisitorTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        patched = mock.patch.object(visitor, "enter")
        self.enter = patched.start()
        self.addCleanup(patched.stop)
        # Those of other tests may end meanwhile.
        self.visitor = Visitor()

    def _until(self, probe):
        deadline = time.monotonic() + PATIENCE
        while not probe():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def test_a_thread_of_its_own_goes_in_and_comes_back(self):
        found = self.visitor.do(THERE, threading.get_ident)
        self.assertNotEqual(found, threading.get_ident())
        there, back = self.enter.call_args_list
        self.assertEqual(there.args, (THERE,))
        self.assertNotEqual(back.args, (THERE,))

    def test_the_same_goes_again(self):
        found = {self.visitor.do(THERE, threading.get_ident) for _ in range(9)}
        self.assertEqual(len(found), 1)

    def test_what_the_function_raises_is_raised(self):
        def fail():
            raise KeyError("inside")

        with self.assertRaisesRegex(KeyError, "inside"):
            self.visitor.do(THERE, fail)
        self.assertEqual(self.visitor.do(THERE, lambda: 1), 1)

    def test_a_namespace_that_cannot_be_entered(self):
        self.enter.side_effect = [PermissionError(errno.EPERM, "no"), None]
        called = mock.Mock()
        with self.assertRaises(PermissionError):
            self.visitor.do(THERE, called)
        called.assert_not_called()

    def test_one_that_cannot_come_back_ends(self):
        stuck = OSError(errno.ENOMEM, "no memory")
        self.enter.side_effect = [None, stuck, None, None]
        first = self.visitor.do(THERE, threading.get_native_id)
        second = self.visitor.do(8, threading.get_native_id)
        self.assertNotEqual(first, second)
        task = pathlib.Path(f"/proc/self/task/{first}")
        self._until(lambda: not task.exists())

    def test_nobody_is_forgotten_by_one_that_cannot_come_back(self):
        back = iter([OSError(errno.ENOMEM, "no memory")] * 20)

        def enter(descriptor):
            if descriptor != THERE and (error := next(back, None)):
                raise error

        self.enter.side_effect = enter
        with futures.ThreadPoolExecutor(8) as pool:
            found = list(
                pool.map(
                    lambda n: self.visitor.do(THERE, lambda: n), range(64)
                )
            )
        self.assertEqual(found, list(range(64)))

    def test_one_that_nobody_needs_ends(self):
        before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
        with mock.patch.object(visitor, "IDLE_S", 0.01):
            task = self.visitor.do(THERE, threading.get_native_id)
            place = pathlib.Path(f"/proc/self/task/{task}")
            self._until(lambda: not place.exists())
        after = len(list(pathlib.Path("/proc/self/fd").iterdir()))
        self.assertLessEqual(after, before)
        self.assertEqual(self.visitor.do(THERE, lambda: 1), 1)

    def test_many_threads_share_one(self):
        with futures.ThreadPoolExecutor(8) as pool:
            found = list(
                pool.map(
                    lambda n: self.visitor.do(THERE, lambda: (n, _ident())),
                    range(64),
                )
            )
        self.assertEqual([n for n, _ in found], list(range(64)))
        self.assertEqual(len({who for _, who in found}), 1)

    def test_a_fork_has_one_of_its_own(self):
        namespaces.inside(THERE, lambda: None)
        child = os.fork()
        if child == 0:
            os._exit(namespaces.inside(THERE, lambda: 42))
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 42)


class EnterTest(unittest.TestCase):
    def test_the_errno_of_setns_is_raised(self):
        # A pipe is no namespace, whoever asks.
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        with self.assertRaises(OSError) as caught:
            Visitor().do(read, lambda: None)
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertIn("setns", str(caught.exception))


def _ident() -> int:
    return threading.get_ident()
