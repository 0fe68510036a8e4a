# SPDX-License-Identifier: Apache-2.0

import argparse
import unittest

from sriov_rt.cmd import arguments


class ArgumentsTest(unittest.TestCase):
    def refused(self, read, text: str) -> str:
        """Return what argparse prints of a value."""
        with self.assertRaises(argparse.ArgumentTypeError) as caught:
            read(text)
        return str(caught.exception)

    def test_whole_numbers(self):
        read = arguments.whole(0, 4094)
        self.assertEqual([0, 4094], [read("0"), read("4094")])
        for text in ("", "-1", "4095", "1.5", "0x10", "١", "9" * 5000):
            with self.subTest(text[:10]):
                self.assertIn("from 0 to 4094", self.refused(read, text))

    def test_seconds(self):
        read = arguments.seconds(60)
        self.assertEqual([0.0, 1.5, 60.0], [*map(read, ("0", "1.5", "60"))])
        for text in ("", "x", "-1", "61", "nan", "inf", "1e300"):
            with self.subTest(text):
                self.assertEqual(
                    "0 to 60 seconds expected", self.refused(read, text)
                )
