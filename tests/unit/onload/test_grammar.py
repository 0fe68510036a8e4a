# SPDX-License-Identifier: Apache-2.0

"""Profiles are data: what needs a shell is refused with its line."""

import pathlib
import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.onload import grammar
from sriov_rt.onload.errors import ProfileRejected
from sriov_rt.onload.grammar import Import
from sriov_rt.onload.grammar import Setting
from tests.unit.onload import fakes
from tests.unit.parse.properties import deterministic

#: A line, and what the refusal speaks of.
SHELL = (
    ("onload_set EF_A $B", "an expansion"),
    ('onload_set EF_A "$B"', "an expansion"),
    ("onload_set EF_A $(id)", "a command substitution"),
    ("onload_set EF_A `id`", "a command substitution"),
    ("onload_set EF_A $(( 4 / 2 ))", "an arithmetic expansion"),
    ("onload_set EF_A 1; touch /tmp/owned", "a second command"),
    ("onload_set EF_A 1 && reboot", "a second command"),
    ("onload_set EF_A 1 | sh", "a pipe"),
    ("onload_set EF_A 1 > /etc/passwd", "a redirection"),
    ("onload_set EF_A 1 \\", "a backslash"),
    ("onload_set EF_A 1 2", "other than one value"),
    ("onload_set EF_A", "other than one value"),
    ('onload_set EF_A ""', "other than one value"),
    ("onload_set EF_A=1=2", "other than one value"),
    ("onload_set EF_A '1 2'", "other than one value"),
    ("onload_set EF_A 1#2", "other than one value"),
    ("onload_set EF_A ~root", "other than one value"),
    ("onload_set EF_A {1,2}", "other than one value"),
    ("onload_set EF_A [12]", "other than one value"),
    ("onload_set EF_A ?", "other than one value"),
    ("onload_set 'EF_A' 1", "other than one value"),
    ("onload_set 1EF 1", "other than one value"),
    ("onload_import a b", "other than one value"),
    ('onload_import latency "$@"', "an expansion"),
    ("onload_import ../x", "other than one value"),
    ("onload_import /etc/passwd", "other than one value"),
    ("onload_import 'latency'", "other than one value"),
    ("if true", "neither onload_set nor"),
    ("eval x", "neither onload_set nor"),
    ("EF_A=1", "neither onload_set nor"),
    ("export EF_A=1", "neither onload_set nor"),
    (". /etc/profile", "neither onload_set nor"),
    ("onload_setx EF_A 1", "neither onload_set nor"),
    ("onload_set\u00a0EF_A 1", "neither onload_set nor"),
    ("onload_set EF_A 1\r", "a control character"),
    ("onload_set EF_A 1\0", "a control character"),
    ("\u00a0", "neither onload_set nor"),
    ("\ufeffonload_set EF_A 1", "neither onload_set nor"),
)


class GrammarTest(unittest.TestCase):
    def test_what_it_takes(self):
        text = (
            "# a comment with $(anything) `at` all; é\n"
            "\n"
            "   \t\n"
            "onload_set EF_POLL_USEC 100000\n"
            "\tonload_set  EF_TCP=0   # why not\n"
            'onload_set EF_NAME "node"\n'
            "onload_set EF_NAME 'node'\n"
            "onload_set EF_SCALABLE_FILTERS any=rss:active:passive\n"
            "onload_import throughput_base # fragment\n"
            "onload_import wan-traffic"
        )
        self.assertEqual(
            (
                Setting(4, "EF_POLL_USEC", "100000"),
                Setting(5, "EF_TCP", "0"),
                Setting(6, "EF_NAME", "node"),
                Setting(7, "EF_NAME", "node"),
                Setting(8, "EF_SCALABLE_FILTERS", "any=rss:active:passive"),
                Import(9, "throughput_base"),
                Import(10, "wan-traffic"),
            ),
            grammar.parse(text, "x.opf"),
        )

    def test_shell_is_refused_with_file_and_line(self):
        for line, told in SHELL:
            with self.subTest(line=line):
                with self.assertRaises(ProfileRejected) as caught:
                    grammar.parse(f"# one\n\n{line}\n", "/d/x.opf")
                self.assertEqual("/d/x.opf", caught.exception.path)
                self.assertEqual(3, caught.exception.line)
                self.assertIn(told, caught.exception.problem)
                self.assertIn("/d/x.opf:3: ", str(caught.exception))

    def test_line_ends_are_a_shells(self):
        # Each of these ends a line for str.splitlines().
        for each in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029":
            with self.subTest(each=ascii(each)):
                found = None
                try:
                    found = grammar.parse(f"# x{each}onload_set EF_A 1", "x")
                except ProfileRejected as error:
                    self.assertEqual(1, error.line)
                self.assertFalse(found)

    def test_bounds(self):
        for text in ("#" * (grammar.MAX_LINE + 1), "\n" * 70_000):
            with self.assertRaises(ProfileRejected):
                grammar.parse(text, "x")

    def test_hostile_names_are_no_names(self):
        for each in fakes.HOSTILE_NAMES:
            with self.subTest(each=each):
                self.assertFalse(grammar.is_name(each))

    def test_names(self):
        for each in ("latency", "latency-best", "v9.2_x", "9", "x" * 64):
            with self.subTest(each=each):
                self.assertTrue(grammar.is_name(each))

    @deterministic
    @hypothesis.given(st.text(max_size=200))
    def test_total(self, text):
        try:
            found = grammar.parse(text, "x")
        except ProfileRejected as error:
            self.assertLessEqual(1, error.line)
            self.assertLessEqual(error.line, text.count("\n") + 1)
            return
        for each in found:
            name = pathlib.PurePath(each.name)
            self.assertEqual(1, len(name.parts))

    @deterministic
    @hypothesis.given(
        st.text(
            alphabet="onload_set EF_A1$`'\"\\;|&<>(){}[]*?~#=\t\n./!",
            max_size=80,
        )
    )
    def test_no_value_means_anything_to_a_shell(self, text):
        try:
            found = grammar.parse(f"onload_set EF_A {text}", "x")
        except ProfileRejected:
            return
        for each in found:
            if isinstance(each, Setting):
                self.assertFalse(
                    set(each.value) & set(" \t\n$`'\"\\;|&<>(){}[]?~#!")
                )
