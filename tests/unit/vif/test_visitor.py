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


"""A thread in another network namespace, and back."""

import errno
import os
import pathlib
import threading
import unittest
from concurrent import futures
from unittest import mock

from sriov_rt.vif import namespaces
from sriov_rt.vif import visitor

#: A descriptor that no test has open.
THERE = 1 << 20


class VisitTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        patched = mock.patch.object(visitor, "enter")
        self.enter = patched.start()
        self.addCleanup(patched.stop)

    def _entered(self):
        return [call.args[0] for call in self.enter.call_args_list]

    def test_it_goes_there_and_comes_back(self):
        places = []
        found = visitor.visit(THERE, lambda: places.extend(self._entered()))
        self.assertIsNone(found)
        home, there = places
        self.assertEqual(there, THERE)
        self.assertEqual(self._entered(), [home, THERE, home])

    def test_it_returns_what_the_function_returns(self):
        self.assertEqual(namespaces.inside(THERE, lambda: 42), 42)

    def test_it_comes_back_from_what_raises(self):
        def fail():
            raise KeyError("inside")

        with self.assertRaisesRegex(KeyError, "inside"):
            visitor.visit(THERE, fail)
        home, _, back = self._entered()
        self.assertEqual(home, back)

    def test_a_namespace_that_cannot_be_entered(self):
        called = mock.Mock()
        self.enter.side_effect = [None, OSError(errno.EPERM, "no"), None]
        with self.assertRaises(PermissionError):
            visitor.visit(THERE, called)
        called.assert_not_called()

    def test_who_may_not_enter_his_own_does_not_leave(self):
        called = mock.Mock()
        self.enter.side_effect = OSError(errno.EPERM, "no")
        with self.assertRaises(PermissionError):
            visitor.visit(THERE, called)
        self.assertEqual(self.enter.call_count, 1)
        called.assert_not_called()

    def test_without_a_way_back_the_process_ends(self):
        stuck = OSError(errno.ENOMEM, "no memory")
        self.enter.side_effect = [None, None, stuck]
        with (
            mock.patch.object(os, "abort", side_effect=SystemExit) as abort,
            self.assertLogs(visitor.LOG, "CRITICAL"),
            self.assertRaises(SystemExit),
        ):
            visitor.visit(THERE, lambda: None)
        abort.assert_called_once_with()

    def test_the_first_thread_of_a_process_stays_where_it_is(self):
        who = visitor.visit(THERE, threading.get_native_id)
        self.assertNotEqual(who, os.getpid())

    def test_any_other_thread_goes_itself(self):
        with futures.ThreadPoolExecutor(1) as pool:
            me = pool.submit(threading.get_native_id).result()
            who = pool.submit(
                visitor.visit, THERE, threading.get_native_id
            ).result()
        self.assertEqual(me, who)

    def test_nothing_stays_open(self):
        before = sorted(pathlib.Path("/proc/self/fd").iterdir())
        visitor.visit(THERE, lambda: None)
        after = sorted(pathlib.Path("/proc/self/fd").iterdir())
        self.assertEqual(before, after)
