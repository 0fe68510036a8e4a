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

"""All links of all namespaces, by the best way that there is."""

import dataclasses
import errno
import unittest
from unittest import mock

from sriov_rt.vif import census
from sriov_rt.vif import errors
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.space import Space
from tests.unit.vif.test_limits import LINK

HERE = ["here"]
SPACE = Space("tenant", Identity(1, 2), 7)
VISITED = ["visited"]


class FakeWatch:
    """A watch that has seen one link.

    :param failures: errnos that it gives first.
    """

    def __init__(self, *failures: int) -> None:
        self.valid = True
        self.closed = False
        self.noted = []
        self.expected = []
        self._failures = list(failures)

    def here(self):
        return list(HERE)

    def links(self):
        if self._failures:
            raise OSError(self._failures.pop(0), "said the kernel")
        return ["watched"]

    def note(self, link):
        self.noted.append(link)

    def expect(self, name, descriptor):
        self.expected.append(name)
        return SPACE

    def knows(self, space):
        return space is SPACE

    def heard(self, space, name):
        if self._failures:
            raise OSError(self._failures.pop(0), "said the kernel")
        return name

    def close(self):
        self.closed = True


class CensusTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.made = []
        self._patch("visited", lambda: list(VISITED))
        self._patch("Watch", self._make)
        self.next = [FakeWatch()]
        self.census = census.Census()

    def _patch(self, name, value):
        patched = mock.patch.object(census, name, value)
        patched.start()
        self.addCleanup(patched.stop)

    def _make(self):
        made = self.next.pop(0)
        if isinstance(made, OSError):
            raise made
        self.made.append(made)
        return made

    def test_what_is_watched_and_what_is_here(self):
        self.assertEqual(self.census.links(), ["here", "watched"])
        self.assertEqual(self.census.links(), ["here", "watched"])
        self.assertEqual(len(self.made), 1)

    def test_who_may_not_hear_goes_and_looks(self):
        self.next = [PermissionError(errno.EPERM, "no")]
        self.assertEqual(self.census.links(), VISITED)
        # It is not tried again.
        self.assertEqual(self.census.links(), VISITED)

    def test_after_what_was_lost_it_begins_anew(self):
        self.next = [FakeWatch(errno.ENOBUFS), FakeWatch()]
        self.census.links()
        first = self.made[0]
        first._failures.append(errno.ENOBUFS)
        self.assertEqual(self.census.links(), ["here", "watched"])
        self.assertTrue(first.closed)

    def test_what_is_lost_again_and_again_is_looked_at(self):
        lost = [errno.ENOBUFS] * 9
        self.next = [FakeWatch(*lost) for _ in range(9)]
        self.assertEqual(self.census.links(), VISITED)

    def test_another_error_is_told(self):
        self.next = [FakeWatch(errno.ENOMEM)]
        with self.assertRaises(errors.LinkRefused):
            self.census.links()

    def test_after_a_fork_it_begins_anew(self):
        self.next.append(FakeWatch())
        self.census.links()
        self.made[0].valid = False
        self.census.links()
        self.assertTrue(self.made[0].closed)
        self.assertEqual(len(self.made), 2)

    def test_what_was_read_is_noted(self):
        self.census.note(LINK)
        self.census.links()
        self.census.note(LINK)
        self.assertEqual(self.made[0].noted, [LINK])

    def test_a_namespace_is_made_known(self):
        self.assertIsNone(self.census.expect("tenant", 3))
        self.census.links()
        self.assertIs(self.census.expect("tenant", 3), SPACE)
        self.assertEqual(self.made[0].expected, ["tenant"])

    def test_a_fork_does_not_ask_its_parents_watch(self):
        self.census.links()
        self.made[0].valid = False
        self.assertIsNone(self.census.expect("tenant", 3))
        self.assertEqual(self.made[0].expected, [])

    def test_what_was_heard_of_a_link(self):
        self.assertIsNone(self.census.heard(SPACE, "eth0"))
        self.census.links()
        self.assertEqual(self.census.heard(SPACE, "eth0"), "eth0")
        other = dataclasses.replace(SPACE)
        self.assertIsNone(self.census.heard(other, "eth0"))

    def test_lost_events_say_nothing_of_a_link(self):
        self.next = [FakeWatch()]
        self.census.links()
        self.made[0]._failures.append(errno.ENOBUFS)
        self.assertIsNone(self.census.heard(SPACE, "eth0"))
        self.assertTrue(self.made[0].closed)
        self.next = [FakeWatch()]
        self.assertEqual(self.census.links(), ["here", "watched"])

    def test_closed_it_begins_anew_when_asked(self):
        self.next.append(FakeWatch())
        self.census.links()
        self.census.close()
        self.assertTrue(self.made[0].closed)
        self.assertEqual(self.census.links(), ["here", "watched"])
