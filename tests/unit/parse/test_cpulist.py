# SPDX-License-Identifier: Apache-2.0

import sys

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import cpulist
from tests.unit.parse import properties

_cpu = st.integers(0, cpulist.MAX_CPUS - 1)
_cpus = st.frozensets(st.one_of(_cpu, st.integers(0, 64)))
_listish = st.text("0123456789-,:/^N al_x\t\n١", max_size=40)


class CpuListTest(properties.ParserTestCase):
    def check(self, expected, text, **kwargs):
        with self.subTest(text):
            found = cpulist.parse_cpu_list(text, **kwargs)
            self.assertEqual(frozenset(expected), found)

    def refused(self, text, position, **kwargs):
        with self.subTest(text):
            error = self.refusal(cpulist.parse_cpu_list, text, **kwargs)
            self.assertEqual(position, error.position)

    def test_numbers_and_ranges(self):
        self.check({0, 1, 2, 3, 8}, "0-3,8")
        self.check({8, 0, 1}, "8,1,0-1")
        self.check({5}, "5-5")
        self.check({7}, "007")
        self.check({8191}, "8191")

    def test_nothing(self):
        self.check((), "")
        self.check((), "\n")
        self.check((), ",, ,")

    def test_blanks_separate_as_in_the_kernel(self):
        self.check({1, 2, 3}, "1 2,\t3\n")
        self.refused("1\n2", 1)
        self.refused("1 -2", 2)

    def test_strides(self):
        self.check({0, 1, 256, 257, 512, 513, 768, 769}, "0-1023:2/256")
        self.check(
            {*range(9, 12), *range(19, 22), *range(29, 32)}, "9-38:3/10"
        )
        self.check({0, 1, 2, 3}, "0-3:4/4")
        self.check({0, 1, 2, 3}, "0-3:9/4000000000")
        self.check((), "0-3:0/2")

    def test_refuses_strides_that_are_none(self):
        self.refused("0-7:3/2", 4)
        self.refused("0-7:0/0", 4)
        self.refused("0-7:1/99999999999", 6)
        self.refused("0-7:1", 5)
        self.refused("0-7:1/", 6)
        self.refused("3:1/2", 1)

    def test_refuses_what_is_no_list(self):
        self.refused("0-x", 2)
        self.refused("1-2-3-4", 3)
        self.refused("7-3", 0)
        self.refused("-1", 0)
        self.refused("1-", 2)
        self.refused("4,5,6?", 5)

    def test_refuses_what_int_would_take(self):
        self.refused("١", 0)
        self.refused("1_0", 1)
        self.refused("+1", 0)
        self.refused("0x1", 1)

    def test_refuses_cpus_that_no_kernel_has(self):
        self.refused("8192", 0)
        self.refused("0-8192", 2)
        self.refused("4000000000", 0)
        self.refused("0-4000000000", 2)
        self.refused("0-" + "9" * 10_000, 2)

    def test_all_and_n_need_the_number_of_cpus(self):
        self.check(range(8), "all", possible=8)
        self.check({0, 2, 4, 6}, "ALL:1/2", possible=8)
        self.check({7}, "N", possible=8)
        self.check({2, 3, 7}, "2-3,N-N", possible=8)
        self.check({0, 7}, "0-N:1/N", possible=8)
        self.refused("0,all", 2)
        self.refused("2-N", 2)
        self.refused("n", 0, possible=8)

    def test_a_cpu_beyond_the_possible_ones_is_refused(self):
        self.check({7}, "7", possible=8)
        self.refused("8", 0, possible=8)
        self.refused("2-63", 2, possible=8)
        self.refused("N", 0, possible=8193)
        self.refused("N", 0, possible=0)

    def test_exclusions_hold_wherever_they_stand(self):
        self.check({1, 2, 4, 6}, "1-4,^3,6", exclusions=True)
        self.check({1, 2, 4}, "^3,1-4", exclusions=True)
        self.check({0}, "0-7,^1-7", exclusions=True)
        self.check((), "^3", exclusions=True)

    def test_exclusions_are_refused_unless_asked_for(self):
        self.refused("1-4,^3", 4)

    def test_blanks_stand_around_numbers_as_in_nova(self):
        self.check({1, 4}, " 1 - 4 , ^ 2\t,, ^2-3 \n", exclusions=True)
        self.refused("1 2", 1, exclusions=True)
        self.refused("^^2", 1, exclusions=True)
        self.refused("1,^", 3, exclusions=True)

    def test_a_text_longer_than_the_limit_is_refused(self):
        self.check((), "," * cpulist.MAX_TEXT)
        self.refused("," * (cpulist.MAX_TEXT + 1), cpulist.MAX_TEXT)

    def test_a_wide_stride_takes_no_more_than_its_range(self):
        self.assert_bounded(
            cpulist.parse_cpu_list, "0-3:4000000000/4000000000"
        )

    def test_hostile_lists_are_bounded(self):
        size = cpulist.MAX_TEXT
        for unit in (
            *(",", " ", "0", "9", "^", "0,", "1-", "^ ", "0-8191,"),
            *("^0-8191,", "0-8191:1/2,", "0-8191:4095/8190,", "N:", "1-2:"),
        ):
            for exclusions in False, True:
                with self.subTest(unit, exclusions=exclusions):
                    text = unit * (size // len(unit))
                    self.assert_bounded(
                        cpulist.parse_cpu_list, text, exclusions=exclusions
                    )

    @properties.deterministic
    @given(_cpus)
    def test_reads_back_what_it_formats(self, cpus):
        text = cpulist.format_cpu_list(cpus)
        for exclusions in False, True:
            found = cpulist.parse_cpu_list(text, exclusions=exclusions)
            self.assertEqual(cpus, found)

    @properties.deterministic
    @given(_cpu, _cpu, st.integers(0, 9000), st.integers(1, 9000))
    def test_a_stride_is_the_start_of_each_group(
        self, one, other, used, group
    ):
        first, last = sorted((one, other))
        used = min(used, group)
        expected = {
            cpu
            for cpu in range(first, last + 1)
            if (cpu - first) % group < used
        }
        found = cpulist.parse_cpu_list(f"{first}-{last}:{used}/{group}")
        self.assertEqual(expected, found)

    @properties.deterministic
    @given(
        st.one_of(st.text(), _listish),
        st.booleans(),
        st.one_of(st.none(), st.integers(-1, 9000)),
    )
    def test_is_total(self, text, exclusions, possible):
        found = self.outcome(
            cpulist.parse_cpu_list,
            text,
            exclusions=exclusions,
            possible=possible,
        )
        limit = cpulist.MAX_CPUS if possible is None else possible
        self.assertTrue(all(0 <= cpu < limit for cpu in found or ()))


class FormatTest(properties.ParserTestCase):
    def test_is_the_kernels_form(self):
        for cpus, text in (
            ((), ""),
            ({0}, "0"),
            ({0, 1}, "0-1"),
            ({8, 2, 1, 0, 3}, "0-3,8"),
            ({1, 3, 5, 6}, "1,3,5-6"),
        ):
            self.assertEqual(text, cpulist.format_cpu_list(cpus))

    def test_takes_cpus_in_any_order_and_twice(self):
        self.assertEqual("1-3", cpulist.format_cpu_list([3, 1, 2, 1]))


class CpuMaskTest(properties.ParserTestCase):
    def refused(self, text, position):
        with self.subTest(text):
            error = self.refusal(cpulist.parse_cpu_mask, text)
            self.assertEqual(position, error.position)

    def test_the_first_cpu_is_the_last_bit(self):
        self.assertEqual({0}, cpulist.parse_cpu_mask("1"))
        self.assertEqual({0, 2}, cpulist.parse_cpu_mask("05\n"))
        self.assertEqual(
            set(range(40)), cpulist.parse_cpu_mask("ff,FFFFFFFF\n")
        )
        self.assertEqual({32}, cpulist.parse_cpu_mask("1,00000000"))
        self.assertEqual({32, 0}, cpulist.parse_cpu_mask("1,1"))
        self.assertEqual(set(), cpulist.parse_cpu_mask("00000000,00000000"))

    def test_refuses_what_is_no_mask(self):
        self.refused("", 0)
        self.refused("0x3", 0)
        self.refused("3,", 2)
        self.refused("f,123456789", 2)
        self.refused("f f", 0)
        self.refused("-1", 0)
        self.refused("1_0", 0)

    def test_refuses_cpus_that_no_kernel_has(self):
        full = ",".join(["ffffffff"] * 256)
        self.assertEqual(8192, len(cpulist.parse_cpu_mask(full)))
        self.refused("1," + full, None)

    def test_hostile_masks_are_bounded(self):
        for unit in "f", ",", "0,", "ffffffff,":
            text = unit * (cpulist.MAX_TEXT // len(unit))
            for each in text, text.rstrip(","):
                with self.subTest(unit):
                    self.assert_bounded(cpulist.parse_cpu_mask, each)

    @properties.deterministic
    @given(_cpus)
    def test_reads_what_the_kernel_prints(self, cpus):
        digits = f"{sum(1 << cpu for cpu in cpus):x}"
        chunks = [digits[max(0, end - 8) : end] for end in _ends(digits)]
        mask = ",".join(reversed(chunks))
        self.assertEqual(cpus, cpulist.parse_cpu_mask(mask))

    @properties.deterministic
    @given(st.one_of(st.text(), st.text("0123456789abcdefF,\n xg")))
    def test_is_total(self, text):
        self.outcome(cpulist.parse_cpu_mask, text)


def _ends(digits):
    return range(len(digits), 0, -8)


class CpuSetTest(properties.ParserTestCase):
    """As a frozenset of the same numbers, and small."""

    @properties.deterministic
    @given(_cpus, _cpus)
    def test_it_is_a_set(self, one, other):
        left, right = cpulist.CpuSet(one), cpulist.CpuSet(other)
        for mixed in (right, other):
            self.assertEqual(one & other, left & mixed)
            self.assertEqual(one | other, left | mixed)
            self.assertEqual(one - other, left - mixed)
            self.assertEqual(one ^ other, left ^ mixed)
            self.assertEqual(one <= other, left <= mixed)
            self.assertEqual(one < other, left < mixed)
            self.assertEqual(one >= other, left >= mixed)
            self.assertEqual(one == other, left == mixed)
            self.assertEqual(one.isdisjoint(other), left.isdisjoint(mixed))
            self.assertEqual(one.union(other), left.union(mixed))
        self.assertEqual(one - other, one - right)
        self.assertEqual(one & other, one & right)
        self.assertEqual(one | other, one | right)
        self.assertEqual(sorted(one), list(left))
        self.assertEqual((len(one), bool(one)), (len(left), bool(left)))
        self.assertEqual(hash(one), hash(left))
        self.assertEqual(5 in one, 5 in left)

    def test_what_is_no_cpu_is_not_in_it(self):
        cpus = cpulist.CpuSet({0, 8191})
        for other in (-1, 8192, 10**12, "0", None):
            self.assertNotIn(other, cpus)
        self.assertNotEqual(cpus, {0, 10**12})
        self.assertNotEqual(cpus, "0,8191")
        for wrong in (-1, 8192, 10**12):
            with self.assertRaises(ValueError):
                cpulist.CpuSet((wrong,))

    def test_it_prints_its_list(self):
        cpus = cpulist.CpuSet({0, 1, 2, 8})
        self.assertEqual("CpuSet('0-2,8')", repr(cpus))

    def test_the_largest_takes_a_kilobyte(self):
        cpus = cpulist.parse_cpu_list("0-8191")
        size = sys.getsizeof(cpus) + sys.getsizeof(cpus.bits)
        self.assertLess(size, 1300)

    def test_short_form(self):
        for cpus, text in (
            ((), ""),
            ({1, 3}, "1,3"),
            ({1, 3, 5}, "1,3,5"),
            ({1, 3, 5, 7}, "1,3,5,7"),
            ({1, 3, 5, 7, 9}, "1-9:1/2"),
            (range(1, 288, 2), "1-287:1/2"),
            ({0, 1, 4, 5, 8, 9, 20}, "0-9:2/4,20"),
            ({0, 1, 4, 5, 8}, "0-1,4-5,8"),
            (range(2, 8), "2-7"),
        ):
            with self.subTest(text):
                self.assertEqual(text, cpulist.format_short_cpu_list(cpus))

    @properties.deterministic
    @given(_cpus)
    def test_reads_back_the_short_form(self, cpus):
        text = cpulist.format_short_cpu_list(cpus)
        self.assertEqual(cpus, cpulist.parse_cpu_list(text))
        self.assertLessEqual(len(text), len(cpulist.format_cpu_list(cpus)))
