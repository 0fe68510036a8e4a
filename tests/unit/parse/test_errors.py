# SPDX-License-Identifier: Apache-2.0

import copy
import pickle
import unittest

from sriov_rt import exceptions
from sriov_rt.parse import errors


class ParseErrorTest(unittest.TestCase):
    def test_says_what_is_wrong_and_where(self):
        error = errors.ParseError("cpu list", "0-x", "a CPU expected", 2)
        self.assertEqual(
            "Invalid cpu list '0-x' at 2: a CPU expected.", str(error)
        )
        self.assertEqual("cpu list", error.what)
        self.assertEqual("0-x", error.text)
        self.assertEqual("a CPU expected", error.problem)
        self.assertEqual(2, error.position)

    def test_without_a_position_speaks_of_the_whole_text(self):
        error = errors.ParseError("cpu list", "0-x", "a CPU expected")
        self.assertEqual("Invalid cpu list '0-x': a CPU expected.", str(error))
        self.assertIsNone(error.position)

    def test_shortens_long_texts(self):
        self.assertEqual("x" * 80, errors.ParseError("", "x" * 80, "").text)
        error = errors.ParseError("", "x" * 81, "")
        self.assertEqual("x" * 77 + "...", error.text)

    def test_keeps_a_log_line_one_line(self):
        message = str(errors.ParseError("a", "b\nc\x1b\udc80", "d"))
        self.assertEqual("Invalid a 'b\\nc\\x1b\\udc80': d.", message)

    def test_is_one_of_ours_and_a_value_error(self):
        error = errors.ParseError("", "", "")
        self.assertIsInstance(error, exceptions.SriovRtError)
        self.assertIsInstance(error, ValueError)

    def test_survives_copy_and_pickle(self):
        error = errors.ParseError("a", "b" * 100, "c", 3)
        for twin in copy.copy(error), pickle.loads(pickle.dumps(error)):
            self.assertEqual(str(error), str(twin))
            self.assertEqual(3, twin.position)

    def test_check_length_refuses_what_is_longer(self):
        errors.check_length("a", "bbb", 3)
        with self.assertRaises(errors.ParseError) as caught:
            errors.check_length("a", "bbbb", 3)
        self.assertEqual(3, caught.exception.position)
