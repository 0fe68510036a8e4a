# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.parse import errors
from sriov_rt.parse import timestamp


class TimestampTest(unittest.TestCase):
    def test_a_moment_is_printed_and_read(self):
        self.assertEqual(
            "2026-09-21 14:13 UTC", timestamp.text(1_790_000_000.0)
        )
        for typed in (
            "2026-09-21T14:13",
            "2026-09-21 14:13 UTC",
            "2026-09-21T16:13+02:00",
        ):
            with self.subTest(typed):
                self.assertEqual(1_789_999_980.0, timestamp.parse(typed))

    def test_what_is_no_moment(self):
        for typed in ("", "noon", "4h", "2026-13-01", "9" * 400):
            with (
                self.subTest(typed),
                self.assertRaises(errors.ParseError),
            ):
                timestamp.parse(typed)

    def test_what_no_clock_has_is_printed_all_the_same(self):
        for at in (1e300, -1e300, float("nan"), float("inf")):
            self.assertEqual(str(at), timestamp.text(at))
