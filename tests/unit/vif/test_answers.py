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

"""What the kernel answers on links."""

import struct
import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.vif import answers
from sriov_rt.vif.attributes import attribute

MAC = bytes.fromhex("02005e100001")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value & 0xFFFFFFFF))


def link_info(kind: bytes, mode: bytes) -> bytes:
    data = attribute(2, attribute(1, mode))
    return attribute(18, attribute(1, kind + b"\0") + data)


def body(*attributes: bytes, index: int = 2, flags: int = 0) -> bytes:
    name = attribute(3, b"srt0\0")
    header = struct.pack("=BxHiII", 0, 1, index, flags, 0)
    return header + name + b"".join(attributes)


class LinkTest(unittest.TestCase):
    def test_a_macvlan_in_a_namespace(self):
        told = body(
            attribute(1, MAC),
            number(4, 1400),
            number(5, 7),
            number(37, 0),
            attribute(20, b"sriov-rt:p:o\0"),
            attribute(33, b"\1"),
            link_info(b"macvlan", struct.pack("=I", 4)),
            flags=0x1 | 0x200,
        )
        found = answers.link(told, "tenant", home=0)
        self.assertEqual(found.name, "srt0")
        self.assertEqual(found.index, 2)
        self.assertEqual(found.namespace, "tenant")
        self.assertEqual((found.kind, found.mode), ("macvlan", "bridge"))
        self.assertEqual(found.parent, 7)
        self.assertEqual(found.mac, "02:00:5e:10:00:01")
        self.assertEqual(found.mtu, 1400)
        self.assertTrue(found.up)
        self.assertTrue(found.carrier)
        self.assertEqual(found.alias, "sriov-rt:p:o")
        self.assertFalse(found.promisc)
        self.assertTrue(found.allmulti)

    def test_modes_of_ipvlan(self):
        for value, mode in enumerate(("l2", "l3", "l3s")):
            info = link_info(b"ipvlan", struct.pack("=H", value))
            with self.subTest(mode=mode):
                found = answers.link(body(info), None, None)
                self.assertEqual(found.mode, mode)

    def test_unknown_kinds_and_modes_pass(self):
        for kind, value in ((b"wormhole", 4), (b"macvlan", 77)):
            info = link_info(kind, struct.pack("=I", value))
            with self.subTest(kind=kind):
                found = answers.link(body(info), None, None)
                self.assertEqual(found.kind, kind.decode())
                self.assertIsNone(found.mode)

    def test_a_parent_elsewhere_is_none_of_the_callers(self):
        told = body(number(5, 7), number(37, 3))
        self.assertIsNone(answers.link(told, "tenant", home=0).parent)
        self.assertIsNone(answers.link(told, "tenant", home=None).parent)

    def test_a_parent_in_the_links_own_namespace(self):
        told = body(number(5, 7))
        self.assertEqual(answers.link(told, None, None).parent, 7)
        self.assertIsNone(answers.link(told, "tenant", home=0).parent)

    def test_a_parent_may_have_the_number_of_the_link(self):
        told = body(number(5, 2), number(37, 0), index=2)
        self.assertEqual(answers.link(told, "tenant", home=0).parent, 2)

    def test_a_pci_device_is_told(self):
        told = body(attribute(56, b"0000:01:10.1\0"), attribute(57, b"pci\0"))
        self.assertEqual(answers.link(told, None, None).device, "0000:01:10.1")

    def test_a_port_of_a_bridge_is_told(self):
        found = answers.link(body(number(10, 9)), None, None)
        self.assertEqual(found.master, 9)
        self.assertIsNone(answers.link(body(), None, None).master)

    def test_a_device_of_another_bus_is_not(self):
        told = body(attribute(56, b"virtio0\0"), attribute(57, b"virtio\0"))
        self.assertEqual(answers.link(told, None, None).device, "")

    def test_without_a_name_it_is_no_link(self):
        header = struct.pack("=BxHiII", 0, 1, 2, 0, 0)
        self.assertIsNone(answers.link(header, None, None))

    def test_a_loopback_is_told_by_its_flag(self):
        self.assertTrue(answers.is_loopback(body(flags=0x8 | 0x1)))
        self.assertFalse(answers.is_loopback(body(flags=0x1)))
        self.assertFalse(answers.is_loopback(body(flags=0x8)[:8]))

    def test_too_short_it_is_no_link(self):
        self.assertIsNone(answers.link(b"\0" * 15, None, None))

    @settings(derandomize=True)
    @given(st.binary(max_size=300))
    def test_no_bytes_make_it_raise(self, data):
        found = answers.link(body(data), "tenant", 0)
        self.assertLessEqual(len(found.alias), answers.MAX_ALIAS)
        self.assertLessEqual(len(found.kind), answers.MAX_NAME)
        answers.link(data, None, None)
        answers.abroad(data)
        answers.nsid(data)


class NsidTest(unittest.TestCase):
    def test_a_number(self):
        self.assertEqual(answers.nsid(bytes(4) + number(1, 5)), 5)

    def test_none_assigned(self):
        self.assertIsNone(answers.nsid(bytes(4) + number(1, -1)))

    def test_abroad(self):
        self.assertEqual(answers.abroad(body(number(37, 0))), 0)
        self.assertIsNone(answers.abroad(body()))
