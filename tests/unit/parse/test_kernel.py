# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.parse import kernel
from tests.unit.parse import properties

_word = st.text("abz019_-.,:/", min_size=1)
_value = st.one_of(st.none(), st.text("abz019_-.,:/= \t"))
_line = st.text('ab=" \t\n-_')


class CommandLineTest(properties.ParserTestCase):
    def parsed(self, text):
        return kernel.parse_kernel_command_line(text).parameters

    def test_splits_at_blanks_and_the_first_equals_sign(self):
        self.assertEqual(
            (("BOOT_IMAGE", "/vmlinuz"), ("root", "UUID=1"), ("ro", None)),
            self.parsed(" BOOT_IMAGE=/vmlinuz  root=UUID=1\tro \n"),
        )

    def test_an_empty_value_is_not_a_missing_one(self):
        self.assertEqual((("a", ""), ("b", None)), self.parsed("a= b"))

    def test_quotes_keep_blanks_and_are_taken_off(self):
        self.assertEqual((("a", "b c"),), self.parsed('a="b c"'))
        self.assertEqual((("a", "b c"), ("d", None)), self.parsed('"a=b c" d'))
        self.assertEqual((("a b", None),), self.parsed('"a b"'))
        self.assertEqual((("a", 'b" c"d'),), self.parsed('a=b" c"d'))
        self.assertEqual((("a", "b c"),), self.parsed('a="b c'))
        self.assertEqual((("a", 'b"'),), self.parsed('"a="b""'))

    def test_an_equals_sign_in_front_belongs_to_the_key(self):
        self.assertEqual((("=a", None),), self.parsed("=a"))
        self.assertEqual((("=a", "b"),), self.parsed("=a=b"))

    def test_what_init_gets_is_left_out(self):
        self.assertEqual((("a", None),), self.parsed("a -- isolcpus=2"))
        self.assertEqual(2, len(self.parsed("--a --=b")))

    def test_hyphen_and_underscore_are_the_same_in_a_key(self):
        line = kernel.parse_kernel_command_line("nohz-full=2-3 nohz_full=4-5")
        for key in "nohz_full", "nohz-full":
            self.assertEqual("4-5", line.get(key))
            self.assertEqual(("2-3", "4-5"), line.all(key))
            self.assertIn(key, line)

    def test_a_key_without_a_value_is_there(self):
        line = kernel.parse_kernel_command_line("quiet")
        self.assertIn("quiet", line)
        self.assertIsNone(line.get("quiet"))
        self.assertEqual((None,), line.all("quiet"))

    def test_a_missing_key_is_not(self):
        line = kernel.parse_kernel_command_line("quiet")
        self.assertNotIn("isolcpus", line)
        self.assertIsNone(line.get("isolcpus"))
        self.assertEqual((), line.all("isolcpus"))

    def test_is_immutable_and_iterable(self):
        line = kernel.parse_kernel_command_line("a b=c")
        self.assertEqual([("a", None), ("b", "c")], list(line))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            line.parameters = ()

    def test_a_line_longer_than_the_limit_is_refused(self):
        size = kernel.MAX_COMMAND_LINE
        self.assertEqual(1, len(self.parsed("a" * size)))
        error = self.refusal(self.parsed, "a" * (size + 1))
        self.assertEqual(size, error.position)

    def test_hostile_lines_are_bounded(self):
        for unit in '"', " ", "a ", "=", '" ', '"a" ', "a=":
            with self.subTest(unit):
                text = unit * (kernel.MAX_COMMAND_LINE // len(unit))
                self.assert_bounded(
                    kernel.parse_kernel_command_line, text, 8 * 1024 * 1024
                )

    @properties.deterministic
    @given(st.lists(st.tuples(_word.filter(lambda key: key != "--"), _value)))
    def test_reads_back_what_was_quoted(self, parameters):
        line = " ".join(
            key if value is None else f'{key}="{value}"'
            for key, value in parameters
        )
        self.assertEqual(tuple(parameters), self.parsed(line))

    @properties.deterministic
    @given(st.one_of(st.text(), _line))
    def test_takes_any_text(self, text):
        for key, value in self.parsed(text):
            self.assertIn(key, text)
            self.assertTrue(value is None or value in text)


class IsolcpusTest(properties.ParserTestCase):
    def check(self, flags, cpus, value, **kwargs):
        with self.subTest(value):
            found = kernel.parse_isolcpus(value, **kwargs)
            expected = kernel.IsolCpus(frozenset(flags), frozenset(cpus))
            self.assertEqual(expected, found)

    def refused(self, value, position):
        with self.subTest(value):
            error = self.refusal(kernel.parse_isolcpus, value)
            self.assertEqual(position, error.position)
            self.assertEqual("isolcpus", error.what)

    def test_without_flags_it_is_domain(self):
        self.check({"domain"}, {2, 3}, "2-3")
        self.check({"domain"}, (), "")

    def test_flags_come_first(self):
        self.check({"nohz"}, {2}, "nohz,2")
        self.check(
            {"nohz", "domain", "managed_irq"},
            {2, 3, 5},
            "managed_irq,domain,nohz,2-3,5",
        )

    def test_unknown_flags_are_passed_over_as_in_the_kernel(self):
        self.check({"domain"}, {2}, "future,2")
        self.check({"nohz"}, {2}, "future_thing,nohz,2")

    def test_refuses_what_the_kernel_drops(self):
        self.refused("fut3re,2", 0)
        self.refused("nohz,do-main,2", 5)
        self.refused("nohz,2-x", 7)
        self.refused("2,nohz", 2)

    def test_refuses_flags_without_cpus(self):
        self.refused("nohz", 4)
        self.refused("nohz,domain", 11)
        # The kernel takes these for flags when they come first.
        self.refused("all", 3)
        self.refused("domain,N", 8)

    def test_n_is_the_last_possible_cpu(self):
        self.check({"domain"}, {2, 3}, "domain,2-N", possible=4)
        self.refused("domain,2-N", 9)

    def test_refuses_cpus_beyond_the_possible_ones(self):
        error = self.refusal(kernel.parse_isolcpus, "2-63", possible=4)
        self.assertEqual(2, error.position)

    def test_hostile_values_are_bounded(self):
        for unit in "a,", "a", ",", "nohz,", "0-8191:1/2,", "a_":
            with self.subTest(unit):
                text = unit * (64 * 1024 // len(unit))
                self.assert_bounded(kernel.parse_isolcpus, text)
        self.assert_bounded(kernel.parse_isolcpus, "a" * (64 * 1024 + 1))

    @properties.deterministic
    @given(st.one_of(st.text(), st.text("nohz,domaiN_0123-:/ ")))
    def test_is_total(self, value):
        found = self.outcome(kernel.parse_isolcpus, value, possible=64)
        if found is not None:
            self.assertTrue(found.flags <= kernel.ISOLCPUS_FLAGS)
            self.assertTrue(found.flags)


class VersionTest(properties.ParserTestCase):
    def check(self, release, *numbers):
        with self.subTest(release):
            self.assertEqual(
                kernel.KernelVersion(*numbers, release),
                kernel.parse_version(release),
            )

    def test_takes_the_numbers_in_front(self):
        self.check("6.1.0-44-rt-amd64", 6, 1, 0)
        self.check("5.14.0-427.el9.x86_64+rt", 5, 14, 0)
        self.check("6.12-rc3", 6, 12, 0)
        self.check("6.6.119.3", 6, 6, 119)
        self.check("7.0", 7, 0, 0)

    def test_takes_the_newline_of_osrelease_off(self):
        self.assertEqual("6.1.0", kernel.parse_version("6.1.0\n").full)

    def test_sorts_by_number(self):
        self.assertLess(
            kernel.parse_version("6.9.1"), kernel.parse_version("6.12.0")
        )

    def test_refuses_what_is_no_release(self):
        for release in (
            *("", "6", "6.", "v6.1", "6.1 rt", "6.1.0\n\n", "٦.1.0", "-6.1"),
            *("6_0.1", "999999.1", "6.999999", "6.1" + "x" * 62),
        ):
            with self.subTest(release):
                self.refusal(kernel.parse_version, release)

    @properties.deterministic
    @given(st.one_of(st.text(), st.text("0123456789.-rt \n")))
    def test_is_total(self, release):
        found = self.outcome(kernel.parse_version, release)
        if found is not None:
            self.assertEqual(release.removesuffix("\n"), found.full)
            self.assertRegex(found.full, rf"^0*{found.major}\.0*{found.minor}")
