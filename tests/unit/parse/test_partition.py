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
