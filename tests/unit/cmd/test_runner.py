# SPDX-License-Identifier: Apache-2.0

"""Commands that something waits for start without slow imports."""

import argparse
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

from sriov_rt.cmd import command
from sriov_rt.cmd import runner
from sriov_rt.vif import plugger as pluggers
from tests.unit import imports
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT

#: Modules that take 10 ms and more, and that no hook needs to start.
SLOW = (
    "cliff", "kubernetes", "libvirt", "neutron", "nova", "openstack",
    "oslo_config", "oslo_messaging", "pbr", "prettytable", "pyroute2",
    "requests", "stevedore", "yaml",
)  # fmt: skip

_LISTS = (
    "import argparse, sys\n"
    "from sriov_rt.cmd import main, runner\n"
    "cls = runner.load(runner.COMMANDS[sys.argv[1]])\n"
    "cls().configure(argparse.ArgumentParser())\n"
    "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
)


def imported(name: str) -> set[str]:
    """Return the packages that a command imports before it runs."""
    done = subprocess.run(
        (sys.executable, "-c", _LISTS, name),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


class Double(command.ShowOne):
    """Double a number."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the number."""
        parser.add_argument("number", type=int)
        parser.add_argument("--apply", action="store_true")

    def run(self, args: argparse.Namespace) -> command.Result:
        """Return it."""
        double = 2 * args.number
        if double < 0:
            raise ValueError("must be 0 or greater")
        fields = {"number": args.number, "double": double}
        return command.one(
            fields.items(),
            {"double": double},
            text=[f"{args.number} * 2 = {double}"] if args.apply else None,
            code=int(double > 100),
            apply=(lambda: print("applied")) if args.apply else None,
        )


class StartTest(unittest.TestCase):
    def test_a_hook_imports_only_what_it_needs(self):
        for name in runner.COMMANDS:
            with self.subTest(name):
                found = imported(name)
                self.assertIn("sriov_rt", found)
                self.assertEqual(set(), found.intersection(SLOW))

    def test_each_is_a_command(self):
        for name, place in runner.COMMANDS.items():
            self.assertTrue(
                issubclass(runner.load(place), command.Command), name
            )


class ProgramTest(unittest.TestCase):
    def run_program(self, *words):
        printed, said = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            try:
                code = runner.program(Double, "double", words)
            except SystemExit as end:
                code = end.code
        return code, printed.getvalue(), said.getvalue()

    def test_a_table(self):
        code, printed, said = self.run_program("3")
        self.assertEqual((0, ""), (code, said))
        self.assertIn("| double | 6     |", printed)

    def test_the_document(self):
        code, printed, _ = self.run_program("--json", "51")
        self.assertEqual((1, {"double": 102}), (code, json.loads(printed)))

    def test_a_plan_is_printed_before_it_is_applied(self):
        for words, printed in (
            (("3", "--apply"), "3 * 2 = 6\napplied\n"),
            (("3", "--apply", "-f", "value"), "3\n6\napplied\n"),
        ):
            with self.subTest(words):
                found = self.run_program(*words)
                self.assertEqual((0, printed), found[:2])

    def test_every_format_of_cliff(self):
        rows = {"number": 3, "double": 6}
        code, printed, _ = self.run_program("3", "-f", "json")
        self.assertEqual((0, rows), (code, json.loads(printed)))
        for words, expected in (
            (("-f", "value", "-c", "double"), "6\n"),
            (("-f", "yaml"), "number: 3\ndouble: 6\n"),
            (("--json", "-c", "double", "--noindent"), '{"double": 6}\n'),
        ):
            with self.subTest(words):
                found = self.run_program("3", *words)
                self.assertEqual((0, expected), found[:2])

    def test_help_and_bad_arguments(self):
        code, printed, _ = self.run_program("--help")
        self.assertEqual(0, code)
        self.assertIn("Double a number.", printed)
        for words in ((), ("x",), ("3", "--nosuch"), ("3", "-f", "nosuch")):
            code, printed, said = self.run_program(*words)
            self.assertEqual((2, ""), (code, printed))
            self.assertIn("see 'double --help'", said)

    def test_an_error_is_one_sentence(self):
        self.assertEqual(
            (2, "", "sriov-rt: error: must be 0 or greater\n"),
            self.run_program("--", "-3"),
        )


class PlugTest(unittest.TestCase):
    WORDS = (
        "vif", "plug", "--port", PORT, "--owner", "web", "--kind", "macvlan",
        "--network", "physnet1", "--namespace", "box",
    )  # fmt: skip

    def run_hook(self, *words):
        printed = io.StringIO()
        plugger = fakes.plugger(pathlib.Path("records"))
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(io.StringIO()),
            mock.patch.object(pluggers, "configured", return_value=plugger),
        ):
            return runner.main([*self.WORDS, *words]), printed.getvalue()

    def test_json_and_plans_take_no_cliff(self):
        with imports.replaced("sriov_rt.cmd.display", None):
            code, printed = self.run_hook("--json", "--dry-run")
            self.assertEqual(0, code)
            self.assertTrue(json.loads(printed))
            self.assertEqual(0, self.run_hook("--dry-run")[0])

    def test_rows_are_those_of_cliff(self):
        code, printed = self.run_hook("--dry-run", "-f", "json")
        self.assertEqual((0, {"plan"}), (code, set(json.loads(printed))))

    def test_other_commands_are_left_to_the_shell(self):
        for words in ([], ["vif"], ["vif", "show"], ["--debug", *self.WORDS]):
            self.assertIsNone(runner.main(words))
