# SPDX-License-Identifier: Apache-2.0

import fractions

import hypothesis
from hypothesis import strategies

from sriov_rt.parse import label
from sriov_rt.parse import quantity
from sriov_rt.parse.quantity import parse_count
from tests.unit.parse import properties


class CountTest(properties.ParserTestCase):
    def test_counts(self):
        for text, expected in (
            ("0", 0),
            ("8", 8),
            ("+8", 8),
            ("1k", 1000),
            ("2Ki", 2048),
            ("3M", 3_000_000),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1E", 10**18),
            ("9223372036854775807", label.MAX_INTEGER),
        ):
            with self.subTest(text=text):
                self.assertEqual(expected, parse_count(text))

    def test_refused(self):
        for text in (
            "",
            "-1",
            "1.5",
            "500m",
            "1 k",
            "1K",
            "ki",
            "1_0",
            "٣",
            "9223372036854775808",
            "10E",
            "1e99",
            "1" * 1000,
        ):
            with self.subTest(text=text):
                self.refusal(parse_count, text)

    @properties.deterministic
    @hypothesis.given(
        strategies.integers(0, 10**15),
        strategies.sampled_from(["", "k", "Ki"]),
    )
    def test_a_number_and_its_unit(self, number, suffix):
        unit = {"": 1, "k": 1000, "Ki": 1024}[suffix]
        hypothesis.assume(number * unit <= label.MAX_INTEGER)
        self.assertEqual(number * unit, parse_count(f"{number}{suffix}"))

    @properties.deterministic
    @hypothesis.given(strategies.text(alphabet="0123456789+-.kKiMGeE \n٣"))
    def test_total(self, text):
        value = self.outcome(parse_count, text)
        if value is not None:
            self.assertLessEqual(0, value)
            self.assertLessEqual(value, label.MAX_INTEGER)


class NumberTest(properties.ParserTestCase):
    def test_numbers(self):
        for text, expected in (
            ("0", 0),
            ("8", 8),
            ("500m", fractions.Fraction(1, 2)),
            ("1.5", fractions.Fraction(3, 2)),
            (".5", fractions.Fraction(1, 2)),
            ("1.", 1),
            ("320Mi", 320 * 2**20),
            ("1k", 1000),
            ("1e3", 1000),
            ("1e-3", fractions.Fraction(1, 1000)),
            ("1E", 10**18),
            ("100n", fractions.Fraction(1, 10**7)),
        ):
            with self.subTest(text=text):
                self.assertEqual(expected, quantity.parse(text))

    def test_refused(self):
        for text in (
            *("", ".", "-1", "1 k", "1K", "ki", "1_0", "٣", "1e99", "10E"),
            "1" * 1000,
        ):
            with self.subTest(text=text):
                self.refusal(quantity.parse, text)
