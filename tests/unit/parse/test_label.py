# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import label
from tests.unit.parse import properties


class LabelTest(properties.ParserTestCase):
    def test_keys(self):
        for key in (
            *("a", "A.b_c-9", "0", "x" * 63, "example.com/a", "a/b"),
            *("feature.node.kubernetes.io/pci-1924.present", "0.1.2/99"),
            *("a--b/c", "d" * 253 + "/x"),
        ):
            with self.subTest(key):
                self.assertIsNone(label.why_not_key(key))

    def test_what_is_no_key(self):
        for key in (
            *("", "-a", "a-", "a b", "x" * 64, "é", "a\n", "a~"),
            *("/a", "a/", "A/b", "a_b/c", "a..b/c", "-a/b", "a./b", "a/b/c"),
            "d" * 254 + "/x",
        ):
            with self.subTest(key):
                self.assertTrue(label.why_not_key(key))

    def test_values(self):
        for value in "", "a", "6.1", "A_b-c", "x" * 63:
            with self.subTest(value):
                self.assertIsNone(label.why_not_value(value))

    def test_what_is_no_value(self):
        for value in "-1", "a.", "a b", "a/b", "x" * 64, "é", "a\n":
            with self.subTest(value):
                self.assertTrue(label.why_not_value(value))

    def test_integers_are_those_of_go(self):
        for value, number in (
            *(("0", 0), ("007", 7), ("+5", 5), ("-5", -5)),
            (str(2**63 - 1), 2**63 - 1),
            (str(-(2**63)), -(2**63)),
            ("0" * 10_000 + "1", 1),
        ):
            with self.subTest(value[:20]):
                self.assertEqual(number, label.integer(value))

    def test_what_is_no_integer(self):
        for value in (
            *("", "a", "1.5", " 1", "1_0", "٣", "²", "+-5", "--5", "5\n"),
            *(str(2**63), str(-(2**63) - 1), "9" * 10_000),
        ):
            with self.subTest(value[:20]):
                self.assertIsNone(label.integer(value))

    @properties.deterministic
    @given(st.one_of(st.integers(-(2**65), 2**65).map(str), st.text("+-019")))
    def test_an_integer_is_int64(self, value):
        try:
            number = int(value)
        except ValueError:
            number = 2**64
        expected = number if -(2**63) <= number < 2**63 else None
        self.assertEqual(expected, label.integer(value))

    @properties.deterministic
    @given(st.text())
    def test_takes_any_text(self, text):
        for each in label.why_not_key(text), label.why_not_value(text):
            self.assertTrue(each is None or each)
        label.integer(text)
