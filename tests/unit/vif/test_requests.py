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

"""Requests on links."""

import dataclasses
import struct
import unittest

from sriov_rt.vif import requests
from sriov_rt.vif.attributes import Attributes
from sriov_rt.vif.edge import Subinterface

MACVLAN = Subinterface(
    name="srt0",
    kind="macvlan",
    mode="bridge",
    parent="vf0",
    namespace="tenant",
    mac="02:00:5e:10:00:01",
    mtu=1400,
    alias="sriov-rt:p:o",
)


def header(request: bytes) -> tuple[int, int]:
    length, kind, flags, _, _ = struct.unpack_from("=IHHII", request)
    assert length == len(request)
    return kind, flags


def link(request: bytes) -> tuple[int, int, int, Attributes]:
    _, _, index, flags, change = struct.unpack_from("=BxHiII", request, 16)
    return index, flags, change, Attributes(request[32:])


class LinkRequestsTest(unittest.TestCase):
    def test_a_subinterface_is_made_where_it_is_to_be(self):
        request = requests.new_link(MACVLAN, parent=7, target=12)
        kind, how = header(request)
        self.assertEqual(kind, requests.RTM_NEWLINK)
        self.assertTrue(how & requests.NLM_F_EXCL)
        self.assertTrue(how & requests.NLM_F_ACK)
        _, flags, _, found = link(request)
        self.assertEqual(flags, 0)
        self.assertEqual(found.text(3, 15), "srt0")
        self.assertEqual(found.number(5), 7)
        self.assertEqual(found.number(28), 12)
        self.assertEqual(found[1].hex(), "02005e100001")
        self.assertEqual(found.number(4), 1400)
        info = found.nested(18)
        self.assertEqual(info.text(1, 15), "macvlan")
        self.assertEqual(info.nested(2).number(1), 4)

    def test_it_is_made_up_if_it_is_to_be(self):
        what = dataclasses.replace(MACVLAN, up=True)
        request = requests.new_link(what, parent=7, target=None)
        self.assertEqual(link(request)[1:3], (1, 1))

    def test_each_kind_has_its_modes(self):
        for kind, mode, value in (
            ("macvlan", "private", 1),
            ("macvlan", "vepa", 2),
            ("macvtap", "bridge", 4),
            ("macvtap", "passthru", 8),
            ("ipvlan", "l2", 0),
            ("ipvlan", "l3", 1),
            ("ipvlan", "l3s", 2),
        ):
            what = Subinterface("srt0", kind, mode, "vf0")
            with self.subTest(kind=kind, mode=mode):
                request = requests.new_link(what, parent=7, target=None)
                info = link(request)[3].nested(18)
                self.assertEqual(info.text(1, 15), kind)
                self.assertEqual(info.nested(2).number(1), value)

    def test_what_is_not_asked_for_is_left_to_the_kernel(self):
        what = Subinterface("srt0", "ipvlan", "l2", "vf0")
        found = link(requests.new_link(what, parent=7, target=None))[3]
        self.assertEqual(set(found), {3, 5, 18})

    def test_only_the_flags_that_are_told_change(self):
        request = requests.set_link(index=3, flags={0x1: True, 0x100: False})
        index, flags, change, found = link(request)
        self.assertEqual((index, flags, change), (3, 0x1, 0x101))
        self.assertEqual(found, {})

    def test_a_link_is_moved_and_renamed_in_one_message(self):
        request = requests.set_link(index=3, target=9, rename="eth0")
        found = link(request)[3]
        self.assertEqual(found.number(28), 9)
        self.assertEqual(found.text(3, 15), "eth0")

    def test_statistics_are_not_asked_for(self):
        for request in (
            requests.get_link(name="eth0"),
            requests.get_link(index=4),
            requests.get_links(),
        ):
            self.assertEqual(link(request)[3].number(29), 0x8)

    def test_a_dump_has_its_own_end(self):
        _, how = header(requests.get_links())
        self.assertFalse(how & requests.NLM_F_ACK)

    def test_a_link_is_deleted_by_its_index(self):
        request = requests.delete_link(5)
        self.assertEqual(header(request)[0], requests.RTM_DELLINK)
        self.assertEqual(link(request)[0], 5)
