# SPDX-License-Identifier: Apache-2.0

import pathlib
import unittest

from sriov_rt.devices import options
from sriov_rt.devices import settings
from sriov_rt.parse.errors import ParseError
from sriov_rt.parse.pci import PciAddress
from tests.unit.host import trees

PASSWORD = """
auth_type = password
auth_url = http://keystone.example.org
username = nova
password = secret
"""


class PatternTest(unittest.TestCase):
    def test_addresses_match(self):
        for text, address, expected in (
            ("*", "0000:41:00.0", True),
            ("0000:41:00.0", "0000:41:00.0", True),
            ("41:00.0", "0000:41:00.0", True),
            ("0000:AF:00.0", "0000:af:00.0", True),
            ("0000:AF:*", "0000:af:00.1", True),
            ("0000:41:00.?", "0000:41:00.7", True),
            ("0000:41:00.0", "0000:41:00.1", False),
            ("0000:41:*", "0000:42:00.0", False),
        ):
            with self.subTest(text, address=address):
                found = options.is_chosen(
                    PciAddress.parse(address), [options.pattern(text)]
                )
                self.assertIs(expected, found)

    def test_what_no_address_can_match_is_refused(self):
        for text in (
            *("", "enp1s0", "0000:41:00", "[0-9]*", "/", "0000:41:00.0 "),
            *("0000:41:00.0\n", "*" * 33, "٠*"),
        ):
            with self.subTest(text), self.assertRaises(ParseError):
                options.pattern(text)


class SettingsTest(trees.TreeTest):
    def configured(self, text):
        path = pathlib.Path(self.tree.path, "sriov-rt.conf")
        path.write_text(text)
        return settings.configured([str(path)])

    def test_nothing_is_cleaned_unless_it_is_configured(self):
        found = self.configured("[DEFAULT]\nhost = rt-1\n")
        self.assertEqual((), found.clean)

    def test_the_node_is_that_of_the_agent(self):
        found = self.configured(
            "[DEFAULT]\nhost = rt-1\n[devices]\nclean = 41:00.0, 0000:AF:*\n"
        )
        self.assertEqual("rt-1", found.node)
        self.assertEqual(("0000:41:00.0", "0000:af:*"), found.clean)
        found = self.configured(
            "[DEFAULT]\nhost = rt-1\n[agent]\nnode = rt-1.example.org\n"
        )
        self.assertEqual("rt-1.example.org", found.node)

    def test_placement_takes_credentials(self):
        found = self.configured(f"[placement]{PASSWORD}")
        self.assertIsNotNone(found.placement())
        for text in (
            "",
            "[placement]\nauth_type = nonsense\n",
            f"[placement]{PASSWORD}valid_interfaces = outside\n",
        ):
            with (
                self.subTest(text),
                self.assertRaisesRegex(
                    settings.PlacementUnusable, "nova.conf"
                ),
            ):
                self.configured(text).placement()
