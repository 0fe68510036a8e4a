# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.parse import partition
from sriov_rt.parse.errors import ParseError


class PartitionTest(unittest.TestCase):
    def test_states(self):
        for text in (
            "member",
            "root",
            "isolated",
            "root invalid",
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)",
        ):
            with self.subTest(text):
                self.assertEqual(text, partition.parse_partition(text))

    def test_no_states(self):
        for text in (
            "",
            "Isolated",
            "isolated ",
            "member invalid",
            "isolated invalid ()",
            "isolated invalid (a\nb)",
            "isolated invalid (\x1b[2J)",
            "isolated" * 100,
            "isolated invalid (" + "a" * 400 + ")",
        ):
            with self.subTest(text), self.assertRaises(ParseError):
                partition.parse_partition(text)
