# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.parse import text


class TextTest(unittest.TestCase):
    def test_what_steers_a_terminal(self):
        for evil, printed, masked in (
            ("a\x1b[2J", "a\\x1b[2J", "a?[2J"),
            ("a\nb\t\x7f", "a\\x0ab\\x09\\x7f", "a?b??"),
            ("\x9b2J\u202e", "\\x9b2J\\x202e", "?2J?"),
            ("µs 'x' é", "µs 'x' é", "µs 'x' é"),
        ):
            self.assertEqual(printed, text.printable(evil))
            self.assertEqual(printed, text.printable(printed))
            self.assertEqual(masked, text.masked(evil))
