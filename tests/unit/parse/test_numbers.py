# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import numbers
from tests.unit.parse import properties


class ParseIntTest(properties.ParserTestCase):
    def test_takes_what_is_within_the_bounds(self):
        self.assertEqual(1, numbers.parse_int("1", "x", 1, 99))
        self.assertEqual(99, numbers.parse_int("99", "x", 1, 99))
        self.assertEqual(7, numbers.parse_int("007", "x", 1, 99))
        self.assertEqual(-1, numbers.parse_int("-1", "x", -1, 99))

    def test_refuses_what_is_not(self):
        for text in "0", "100", "-1", "9" * 10_000:
            with self.subTest(text):
                self.refusal(numbers.parse_int, text, **_bounds(1, 99))
        self.refusal(numbers.parse_int, "-2", **_bounds(-1, 99))
        self.refusal(numbers.parse_int, "-0", **_bounds(0, 99))

    def test_refuses_what_int_would_take(self):
        for text in "+1", "1_0", " 1", "1\n", "١", "1٣", "²", "", "-", "--1":
            with self.subTest(text):
                self.refusal(numbers.parse_int, text, **_bounds(-99, 99))

    def test_says_where_the_number_ends(self):
        error = self.refusal(numbers.parse_int, "-12x", **_bounds(-99, 99))
        self.assertEqual(3, error.position)
        self.assertEqual("x", error.what)

    @properties.deterministic
    @given(st.integers(), st.integers(), st.integers())
    def test_is_int_within_bounds(self, number, one, other):
        minimum, maximum = sorted((one, other))
        found = self.outcome(
            numbers.parse_int, str(number), **_bounds(minimum, maximum)
        )
        expected = number if minimum <= number <= maximum else None
        self.assertEqual(expected, found)

    @properties.deterministic
    @given(st.text())
    def test_is_total(self, text):
        self.outcome(numbers.parse_int, text, **_bounds(-(2**63), 2**63))


def _bounds(minimum, maximum):
    return {"what": "x", "minimum": minimum, "maximum": maximum}
