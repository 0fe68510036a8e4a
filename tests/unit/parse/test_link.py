# SPDX-License-Identifier: Apache-2.0

import pathlib
import re
import unittest

from hypothesis import given
from hypothesis import strategies as st

import sriov_rt
from sriov_rt.parse import link

SOURCES = pathlib.Path(sriov_rt.__file__).parent


class LinkTest(unittest.TestCase):
    def test_names_of_interfaces(self):
        for name in ("eth0", "enp1s0f0v3", "a.7", "x" * 15, "...", "-"):
            self.assertTrue(link.is_interface(name), name)
        for name in ("", ".", "..", "x" * 16, "a/b", "a:1", "a%d", "a b", "ä"):
            self.assertFalse(link.is_interface(name), name)

    def test_macs(self):
        self.assertTrue(link.is_mac("02:00:5e:10:00:01"))
        for text in ("02:00:5E:10:00:01", "02:00:5e:10:00", "0:0:0:0:0:0", ""):
            self.assertFalse(link.is_mac(text), text)
        self.assertTrue(link.is_multicast("01:00:5e:00:00:01"))
        self.assertFalse(link.is_multicast("02:00:5e:00:00:01"))

    def test_hardware_addresses(self):
        for pairs, expected in (
            (5, False),
            (6, True),
            (20, True),
            (21, False),
        ):
            text = ":".join(["0a"] * pairs)
            self.assertEqual(expected, link.is_hardware_address(text), text)

    @given(st.text())
    def test_total(self, text):
        if link.is_mac(text):
            self.assertEqual(6, len(bytes.fromhex(text.replace(":", ""))))
        if link.is_interface(text):
            self.assertNotIn("/", text)

    def test_a_mac_is_parsed_in_one_place(self):
        mac = re.compile(r"\{2\}\)?\{5\}")
        found = [
            str(path.relative_to(SOURCES))
            for path in sorted(SOURCES.rglob("*.py"))
            if mac.search(path.read_text())
        ]
        self.assertEqual(["parse/link.py"], found)
