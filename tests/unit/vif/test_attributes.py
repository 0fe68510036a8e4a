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

"""Attributes of netlink messages."""

import struct
import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.vif.attributes import Attributes
from sriov_rt.vif.attributes import attribute


class AttributesTest(unittest.TestCase):
    def test_each_is_found_by_its_type(self):
        data = attribute(3, b"eth0\0") + attribute(4, struct.pack("=I", 1500))
        found = Attributes(data)
        self.assertEqual(found.text(3, 15), "eth0")
        self.assertEqual(found.number(4), 1500)

    def test_flags_are_no_part_of_the_type(self):
        found = Attributes(attribute(0x8000 | 18, attribute(1, b"macvlan\0")))
        self.assertEqual(found.nested(18).text(1, 15), "macvlan")

    def test_what_is_absent_is_empty(self):
        found = Attributes(b"")
        self.assertEqual(found.text(3, 15), "")
        self.assertIsNone(found.number(4))
        self.assertEqual(found.nested(18), {})

    def test_signed_numbers(self):
        found = Attributes(attribute(1, struct.pack("=i", -1)))
        self.assertEqual(found.number(1, signed=True), -1)
        self.assertEqual(found.number(1), 0xFFFFFFFF)

    def test_a_number_of_no_known_length_is_none(self):
        self.assertIsNone(Attributes(attribute(1, b"abc")).number(1))

    def test_a_text_ends_at_its_limit(self):
        found = Attributes(attribute(3, b"x" * 100))
        self.assertEqual(found.text(3, 15), "x" * 15)

    def test_a_text_ends_at_its_zero_byte(self):
        self.assertEqual(Attributes(attribute(3, b"a\0b")).text(3, 15), "a")

    def test_a_text_that_is_no_utf8_is_still_a_text(self):
        self.assertEqual(Attributes(attribute(3, b"a\xff")).text(3, 9), "a�")

    def test_one_that_is_longer_than_the_data_ends_them(self):
        data = attribute(3, b"eth0") + struct.pack("=HH", 400, 4)
        self.assertEqual(dict(Attributes(data)), {3: b"eth0"})

    def test_one_shorter_than_its_header_ends_them(self):
        data = struct.pack("=HH", 0, 4) * 100
        self.assertEqual(dict(Attributes(data)), {})

    @settings(derandomize=True)
    @given(
        st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=40)),
    )
    def test_what_was_put_together_is_taken_apart(self, wanted):
        data = b"".join(attribute(k, v) for k, v in wanted.items())
        self.assertEqual(dict(Attributes(data)), wanted)

    @settings(derandomize=True)
    @given(st.binary(max_size=200))
    def test_no_bytes_make_it_raise(self, data):
        found = Attributes(data)
        for kind in found:
            self.assertLessEqual(len(found.text(kind, 8)), 8)
            found.number(kind)
            found.nested(kind)
