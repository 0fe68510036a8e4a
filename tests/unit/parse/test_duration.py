# SPDX-License-Identifier: Apache-2.0

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
