# SPDX-License-Identifier: Apache-2.0

import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import errors
from sriov_rt.nic import names
from sriov_rt.nic import settings_text
from sriov_rt.nic.model import NO_MAC
from sriov_rt.parse import link
from sriov_rt.parse.errors import ParseError


class SettingsTextTest(unittest.TestCase):
    def test_each_attribute(self):
        words = (
            "mac=52:54:00:AB:CD:EF vlan=7 qos=3 vlan_protocol=802.1ad "
            "spoofchk=on trust=off link_state=enable min_tx_rate=0 "
            "max_tx_rate=1000 query_rss=on mtu=9000 promisc=off allmulti=on "
            "driver=vfio-pci"
        )
        self.assertEqual(
            VfSettings(
                mac="52:54:00:ab:cd:ef",
                vlan=7,
                qos=3,
                vlan_protocol="802.1ad",
                spoofchk=True,
                trust=False,
                link_state="enable",
                min_tx_rate=0,
                max_tx_rate=1000,
                query_rss=True,
                mtu=9000,
                promisc=False,
                allmulti=True,
                driver="vfio-pci",
            ),
            settings_text.parse(words.split()),
        )

    def test_no_mac(self):
        self.assertEqual(NO_MAC, settings_text.parse(["mac=none"]).mac)

    def test_what_is_refused(self):
        for word in (
            "vlan",
            "vlan=",
            "vlan=4095",
            "vlan=٧",
            "speed=7",
            "trust=yes",
            "mac=52:54:00:ab:cd",
            "link_state=up",
            "driver=a/b",
            "max_tx_rate=1.5",
            "vlan=" + "0" * 200,
        ):
            with self.subTest(word=word), self.assertRaises(ParseError):
                settings_text.parse([word])
        with self.assertRaises(ParseError):
            settings_text.parse(["vlan=1", "vlan=1"])

    @settings(derandomize=True, max_examples=200, deadline=None)
    @given(st.lists(st.text(max_size=200), max_size=4))
    def test_any_words_are_settings_or_an_error(self, words):
        try:
            settings_text.parse(words)
        except ParseError as error:
            self.assertLess(len(str(error)), 500)


class NamesTest(unittest.TestCase):
    def test_interfaces(self):
        for name in ("eth0", "enp1s0f0np0", "a", "x" * 15, "br-1.100@if2"):
            self.assertTrue(link.is_interface(name), name)
        for name in (
            "",
            ".",
            "..",
            "x" * 16,
            "a/b",
            "a b",
            "a\n",
            "eth0:1",
            "eth%d",
            "ethé",
            "a\0",
        ):
            self.assertFalse(link.is_interface(name), repr(name))

    def test_domain_may_be_left_out_of_an_address(self):
        self.assertEqual("0000:01:10.2", names.parse("01:10.2").address)
        self.assertEqual("10000:01:10.2", names.parse("10000:01:10.2").address)

    @settings(derandomize=True, max_examples=300, deadline=None)
    @given(st.text(max_size=40))
    def test_any_text_is_a_name_or_an_error(self, text):
        try:
            found = names.parse(text)
        except errors.BadName as error:
            self.assertIn("PF/index", str(error))
            return
        for part in (found.interface, found.address):
            self.assertNotIn("/", part or "")
