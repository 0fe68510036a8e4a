# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import selector
from sriov_rt.parse.selector import Operator
from sriov_rt.parse.selector import Requirement
from tests.unit.parse import properties

_NFD = "feature.node.kubernetes.io"
_name = st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,9}[A-Za-z0-9])?\Z").map(
    str
)
_keys = st.one_of(
    st.sampled_from(["x", "y", "in", "notin", f"{_NFD}/x"]), _name
)
_values = st.one_of(st.sampled_from(["", "a", "5", "in"]), _name)
_one = _values.map(lambda value: frozenset({value}))
_requirements = st.one_of(
    st.builds(
        Requirement,
        _keys,
        st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    ),
    st.builds(
        Requirement,
        _keys,
        st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS]),
        _one,
    ),
    st.builds(
        Requirement,
        _keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.frozensets(_values, min_size=1, max_size=4),
    ),
    st.builds(
        Requirement,
        _keys,
        st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]),
        st.integers(0, 2**63 - 1).map(lambda n: frozenset({str(n)})),
    ),
)
_labels = st.dictionaries(_keys, _values)
_words = st.lists(
    st.sampled_from(
        [*"xyz,()!=<> \t5", "==", "!=", "in", "notin", " in (", "a/b", "é"]
    )
).map("".join)


def _parse(text, **kwargs):
    return selector.parse_selector(text, **kwargs)


class GrammarTest(properties.ParserTestCase):
    def check(self, text, *requirements):
        with self.subTest(text):
            expected = tuple(
                Requirement(key, operator, frozenset(values))
                for key, operator, *values in requirements
            )
            self.assertEqual(expected, _parse(text).requirements)

    def refused(self, text, position):
        with self.subTest(text):
            error = self.refusal(_parse, text)
            self.assertEqual(position, error.position)

    def test_each_operator(self):
        self.check("x", ("x", Operator.EXISTS))
        self.check("!x", ("x", Operator.DOES_NOT_EXIST))
        self.check("x=a", ("x", Operator.EQUALS, "a"))
        self.check("x==a", ("x", Operator.EQUALS, "a"))
        self.check("x!=a", ("x", Operator.NOT_EQUALS, "a"))
        self.check("x in (a,b)", ("x", Operator.IN, "a", "b"))
        self.check("x notin (a,b)", ("x", Operator.NOT_IN, "a", "b"))
        self.check("x>5", ("x", Operator.GREATER_THAN, "5"))
        self.check("x<7", ("x", Operator.LESS_THAN, "7"))

    def test_nothing_is_no_requirement(self):
        self.check("")
        self.check(" \t\r\n")

    def test_requirements_are_sorted_by_key(self):
        self.check("z,x=a", ("x", Operator.EQUALS, "a"), ("z", "exists"))
        self.assertEqual(_parse("a=x,x=a"), _parse("x=a,a=x"))

    def test_blanks_stand_anywhere_between_words(self):
        self.check("\rx", ("x", Operator.EXISTS))
        self.check(" ! x ", ("x", Operator.DOES_NOT_EXIST))
        self.check("x\t=\na", ("x", Operator.EQUALS, "a"))
        self.check("x in( a , b )", ("x", Operator.IN, "a", "b"))

    def test_values_may_be_empty(self):
        self.check("x=", ("x", Operator.EQUALS, ""))
        self.check(
            "x= ,z!=",
            ("x", Operator.EQUALS, ""),
            ("z", Operator.NOT_EQUALS, ""),
        )
        self.check("x in ()", ("x", Operator.IN, ""))
        self.check("x in (,a)", ("x", Operator.IN, "", "a"))
        self.check("x in (a,,b,)", ("x", Operator.IN, "", "a", "b"))

    def test_operators_that_are_words_are_also_names(self):
        self.check("in", ("in", Operator.EXISTS))
        self.check("notin=in", ("notin", Operator.EQUALS, "in"))
        self.check("in in (in,notin)", ("in", Operator.IN, "in", "notin"))

    def test_operators_that_are_words_need_no_blank_behind(self):
        self.check("x in(a)", ("x", Operator.IN, "a"))
        self.refused("xin(a)", 3)

    def test_keys_without_a_prefix_get_the_default_one(self):
        parsed = _parse("x,!y,a.b/z=1", default_prefix=_NFD)
        keys = {each.key for each in parsed.requirements}
        self.assertEqual({f"{_NFD}/x", f"{_NFD}/y", "a.b/z"}, keys)

    def test_says_where_the_grammar_breaks(self):
        self.refused(",x", 0)
        self.refused("x,", 2)
        self.refused("x,,y", 2)
        self.refused("x y", 2)
        self.refused("x===a", 3)
        self.refused("x==a==b", 4)
        self.refused("!x=a", 2)
        self.refused("!!x", 1)
        self.refused("!", 1)
        self.refused("(", 0)
        self.refused("x in", 4)
        self.refused("x in a", 5)
        self.refused("x in (a", 7)
        self.refused("x in (a b)", 8)
        self.refused("x in (a)b", 8)
        self.refused("x in (a=b)", 7)
        self.refused("x nott in (y)", 2)
        self.refused("x=(a)", 2)

    def test_refuses_what_kubernetes_takes_for_no_label(self):
        self.refused("ok, -x", 4)
        self.refused("x=a||y=b", 2)
        self.refused("x in (a, b_)", 9)
        self.refused("x=" + "v" * 64, 2)
        self.refused("k" * 64, 0)
        self.refused("/x", 0)
        self.refused("a/b/c", 0)
        self.refused("A/b", 0)
        self.refused("é", 0)
        self.refused("x=a\0", 2)
        self.refused("\0", 0)

    def test_bounds_are_integers(self):
        self.check("x>007", ("x", Operator.GREATER_THAN, "007"))
        for bound in "", "a", "1.5", "-1", "+1", "1_0", "٣", str(2**63):
            self.refused("x>" + bound, 2)
            self.refused("x<" + bound, 2)
        self.check(f"x<{2**63 - 1}", ("x", Operator.LESS_THAN, str(2**63 - 1)))

    def test_a_text_longer_than_the_limit_is_refused(self):
        text = ",".join(["x"] * 128)
        self.assertEqual(128, len(_parse(text).requirements))
        self.refused(text + ",y", 255)
        self.assertTrue(_parse(text + ",y", limit=257))

    def test_hostile_texts_are_bounded(self):
        for unit in (
            *("a", "-", "a-", "a.", "a/", ",", "!", "=", "(", " ", "a,"),
            *("x in (", "a=b,", "x>9,", "9", "x in (a,b),", "\0"),
        ):
            with self.subTest(unit):
                text = unit * (16 * 1024 // len(unit))
                self.assert_bounded(
                    _parse, text, 16 * 1024 * 1024, limit=len(text)
                )
                self.assert_bounded(_parse, text)

    @properties.deterministic
    @given(st.lists(_requirements, max_size=5))
    def test_reads_back_what_it_prints(self, requirements):
        requirements.sort(key=lambda each: each.key)
        expected = selector.Selector(tuple(requirements))
        self.assertEqual(expected, _parse(str(expected), limit=10_000))

    @properties.deterministic
    @given(st.one_of(st.text(), _words))
    def test_is_total(self, text):
        self.outcome(_parse, text)


class MatchTest(properties.ParserTestCase):
    def check(self, expected, text, **labels):
        with self.subTest(text, **labels):
            self.assertIs(expected, _parse(text).matches(labels))

    def test_a_label_that_is_there(self):
        self.check(True, "x=a", x="a")
        self.check(False, "x=a", x="b")
        self.check(False, "x!=a", x="a")
        self.check(True, "x!=a", x="b")
        self.check(True, "x in (a,b)", x="b")
        self.check(False, "x in (a,b)", x="c")
        self.check(False, "x notin (a,b)", x="b")
        self.check(True, "x notin (a,b)", x="c")
        self.check(True, "x", x="")
        self.check(False, "!x", x="")

    def test_a_label_that_is_missing(self):
        self.check(False, "x=a", y="a")
        self.check(False, "x=", y="a")
        self.check(True, "x!=a", y="a")
        self.check(False, "x in (a,)", y="a")
        self.check(True, "x notin (a,)", y="a")
        self.check(False, "x", y="a")
        self.check(True, "!x", y="a")
        self.check(False, "x>0", y="1")
        self.check(False, "x<1", y="0")

    def test_numbers_are_compared_as_numbers(self):
        self.check(True, "x>5", x="10")
        self.check(False, "x>5", x="5")
        self.check(False, "x<5", x="5")
        self.check(True, "x<5", x="-10")
        self.check(True, "x>5", x="+6")
        self.check(True, f"x<{2**63 - 1}", x=str(2**63 - 2))

    def test_a_label_that_is_no_integer_satisfies_no_comparison(self):
        for value in "", "a", "6.5", "6_0", "٦", str(2**63), " 6":
            self.check(False, "x>5", x=value)
            self.check(False, "x<7", x=value)

    def test_an_empty_value_is_a_value(self):
        self.check(True, "x=", x="")
        self.check(False, "x!=", x="")
        self.check(True, "x in ()", x="")
        self.check(False, "x in ()", x="a")

    def test_all_requirements_have_to_match(self):
        self.check(True, "x=a,y=b", x="a", y="b")
        self.check(False, "x=a,y=b", x="a", y="c")
        self.check(False, "x>4,x<6,x!=5", x="5")
        self.check(True, "", x="a")

    def test_a_key_with_the_default_prefix_matches_the_full_label(self):
        parsed = _parse("pci-1924.present=true", default_prefix=_NFD)
        label = f"{_NFD}/pci-1924.present"
        self.assertTrue(parsed.matches({label: "true"}))
        self.assertFalse(parsed.matches({"pci-1924.present": "true"}))

    def test_is_immutable_and_hashable(self):
        parsed = _parse("x>5")
        self.assertEqual({parsed}, {_parse("x > 5")})
        with self.assertRaises(dataclasses.FrozenInstanceError):
            parsed.requirements[0].key = "y"

    @properties.deterministic
    @given(_keys, st.frozensets(_values, min_size=1), _labels)
    def test_opposites_never_agree(self, key, values, labels):
        for one, other, values_of in (
            (Operator.EXISTS, Operator.DOES_NOT_EXIST, frozenset()),
            (
                Operator.EQUALS,
                Operator.NOT_EQUALS,
                frozenset(list(values)[:1]),
            ),
            (Operator.IN, Operator.NOT_IN, values),
        ):
            self.assertIsNot(
                Requirement(key, one, values_of).matches(labels),
                Requirement(key, other, values_of).matches(labels),
            )

    @properties.deterministic
    @given(st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
    def test_a_comparison_is_that_of_the_integers(self, bound, value):
        labels = {"x": str(value)}
        self.assertIs(value > bound, _parse(f"x>{bound}").matches(labels))
        self.assertIs(value < bound, _parse(f"x<{bound}").matches(labels))
