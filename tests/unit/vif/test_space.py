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


"""What a watch knows of namespaces and the links in them."""

import dataclasses
import struct
import unittest

from sriov_rt.vif import requests
from sriov_rt.vif.listener import Heard
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.space import Space
from sriov_rt.vif.space import Spaces
from tests.unit.vif.test_limits import LINK


def told(index: int) -> bytes:
    return struct.pack("=BxHiII", 0, 1, index, 0, 0)


def event(kind: int, index: int) -> Heard:
    return Heard(1, kind, told(index))


class SpacesTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.spaces = Spaces()
        self.space = self.add("tenant", 1)
        self.other = self.add("pid:7", 2)

    def add(self, name, number):
        space = Space(name, Identity(4, number), number)
        self.spaces.add(space)
        return space

    def put(self, space, index):
        link = dataclasses.replace(
            LINK, index=index, name=f"eth{index}", namespace=space.name
        )
        self.spaces.put(space, link)
        return link

    def test_a_namespace_is_found_by_its_number_and_by_what_it_is(self):
        self.assertIs(self.space, self.spaces.numbered(1))
        self.assertIs(self.space, self.spaces.identified(Identity(4, 1)))
        self.assertIsNone(self.spaces.numbered(3))
        self.assertIsNone(self.spaces.identified(Identity(4, 3)))

    def test_links_of_all(self):
        # Each namespace numbers its own.
        links = [self.put(self.space, 2), self.put(self.other, 2)]
        self.assertEqual(links, self.spaces.links())
        self.assertEqual(links[0], self.spaces.find(self.space, "eth2"))
        self.assertIsNone(self.spaces.find(self.space, "eth3"))

    def test_one_that_goes_takes_its_links_along(self):
        self.put(self.space, 2)
        kept = self.put(self.other, 2)
        self.spaces.follow(self.space, event(requests.RTM_NEWLINK, 3))
        self.spaces.remove(1)
        self.spaces.remove(1)
        self.assertEqual([kept], self.spaces.links())
        self.assertEqual([], list(self.spaces.told()))
        self.assertEqual([self.other], list(self.spaces))
        self.assertIsNone(self.spaces.identified(Identity(4, 1)))

    def test_one_that_is_known_by_another_name(self):
        self.put(self.other, 2)
        self.assertEqual([self.other], list(self.spaces.of_processes()))
        self.spaces.rename(self.other, "second")
        self.assertEqual([], list(self.spaces.of_processes()))
        (link,) = self.spaces.links()
        self.assertEqual("second", link.namespace)
        self.spaces.rename(self.space, "pid:9")
        # Nothing is in it yet: nobody asks what it is called.
        self.assertEqual([], list(self.spaces.of_processes()))

    def test_events_are_read_once_and_the_last_counts(self):
        for index in (2, 3, 2):
            self.spaces.follow(self.space, event(requests.RTM_NEWLINK, index))
        found = list(self.spaces.told())
        self.assertEqual([(self.space, told(2)), (self.space, told(3))], found)
        self.assertEqual([], list(self.spaces.told()))

    def test_what_was_read_since_is_not_read_again(self):
        self.spaces.follow(self.space, event(requests.RTM_NEWLINK, 2))
        self.put(self.space, 2)
        self.assertEqual([], list(self.spaces.told()))

    def test_what_cannot_be_read_now_is_read_later(self):
        self.spaces.follow(self.space, event(requests.RTM_NEWLINK, 2))
        for _ in self.spaces.told():
            break
        self.assertEqual(1, len(list(self.spaces.told())))

    def test_a_link_that_went(self):
        self.put(self.space, 2)
        self.spaces.follow(self.space, event(requests.RTM_NEWLINK, 2))
        self.spaces.follow(self.space, event(requests.RTM_DELLINK, 2))
        self.assertEqual([], self.spaces.links())
        self.assertEqual([], list(self.spaces.told()))
        self.assertEqual(set(), self.space.indices)
