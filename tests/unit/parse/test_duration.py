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

from sriov_rt.parse import duration
from sriov_rt.parse.errors import ParseError


class DurationTest(unittest.TestCase):
    def test_spans(self):
        for text, seconds in (
            ("1", 1),
            ("90s", 90),
            ("15m", 900),
            ("12h", 43200),
            ("30d", 2592000),
        ):
            self.assertEqual(seconds, duration.parse_duration(text))

    def test_no_spans(self):
        for text in ("", "0", "m", "1w", "-1", "1.5h", "1 h", "9" * 20, "١"):
            with self.subTest(text), self.assertRaises(ParseError):
                duration.parse_duration(text)

    def test_written(self):
        for seconds, text in (
            (0, "0s"),
            (59, "59s"),
            (3900, "1h5m"),
            (90061, "1d1h"),
        ):
            self.assertEqual(text, duration.format_duration(seconds))
