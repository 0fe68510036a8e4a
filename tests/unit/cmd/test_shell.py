# SPDX-License-Identifier: Apache-2.0

"""The program ``sriov-rt``: its commands, help and completion."""

import contextlib
import importlib
import io
import unittest

from sriov_rt.cmd import main
from sriov_rt.cmd import shell
from tests.unit.vif.fakes import PORT


class ShellTest(unittest.TestCase):
    def run_main(self, *words):
        printed, said = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            try:
                code = main.main(words)
            except SystemExit as end:
                code = end.code or 0
        return code, printed.getvalue(), said.getvalue()

    def test_every_command_has_help(self):
        code, printed, _ = self.run_main("--help")
        self.assertEqual(0, code)
        for name, place in shell.COMMANDS.items():
            module, _, cls = place.partition(":")
            found = getattr(
                importlib.import_module(f"sriov_rt.cmd.{module}"), cls
            )
            summary = found.__doc__.split("\n")[0].rstrip(".")
            with self.subTest(name):
                self.assertIn(summary, printed)
                code, told, _ = self.run_main(*name.split(), "--help")
                self.assertEqual(0, code)
                self.assertIn(summary, " ".join(told.split()))
                self.assertEqual(told, self.run_main("help", *name.split())[1])

    def test_help_after_a_commands_arguments(self):
        _, expected, _ = self.run_main("vif", "unplug", "--help")
        for words in (
            ("vif", "unplug", "--container-name", "a", "--help"),
            ("vif", "unplug", PORT, "-h"),
        ):
            code, printed, _ = self.run_main(*words)
            self.assertEqual((0, expected), (code, printed))

    def test_the_version(self):
        code, printed, _ = self.run_main("--version")
        self.assertEqual(0, code)
        self.assertRegex(printed, r" \S+\n\Z")

    def test_completion_for_bash(self):
        code, printed, _ = self.run_main("complete")
        self.assertEqual(0, code)
        self.assertIn("cmds_vif='forget list lxc-hook plug", printed)

    def test_completion_for_zsh(self):
        code, printed, _ = self.run_main("complete", "--shell", "zsh")
        self.assertEqual(0, code)
        self.assertTrue(printed.startswith("#compdef sriov-rt\n"))
        for name in shell.COMMANDS:
            words = name.replace(" ", "_").replace("-", "_")
            self.assertIn(f"\n  cmds_{words}='-h --help", printed)

    def test_what_is_no_command(self):
        for words, part in (
            ((), "a command is needed"),
            (("--nosuch",), "'--nosuch' is not a sriov-rt command"),
            (("complete", "--shell", "fish"), "see 'sriov-rt complete --help"),
            (("vif", "plag"), "did you mean 'vif plug'"),
            (("vif", "plag", "x", "--json"), "did you mean 'vif plug'"),
            (("gest", "render"), "did you mean 'guest render'"),
            (("agents",), "did you mean 'agent list' or 'agent show'"),
            (("nosuch",), "'nosuch' is not a sriov-rt command; 'sriov-rt"),
        ):
            with self.subTest(words):
                code, printed, said = self.run_main(*words)
                self.assertEqual((2, ""), (code, printed))
                self.assertIn(part, said)
                self.assertEqual(1, said.count("\n"), said)

    def test_a_column_that_there_is_not(self):
        for form in ("table", "json"):
            code, printed, said = self.run_main(
                "host", "check", "-c", "nonsense", "-f", form
            )
            self.assertEqual((2, ""), (code, printed.partition("\n")[2]))
            self.assertIn("nonsense", said)

    def test_a_traceback_for_who_wants_one(self):
        words = ("onload", "profile", "show", "x", "--config-file", "/none")
        code, _, said = self.run_main(*words)
        self.assertEqual((2, 1), (code, said.count("\n")))
        code, _, said = self.run_main("--debug", *words)
        self.assertEqual(2, code)
        self.assertIn("Traceback", said)
