# SPDX-License-Identifier: Apache-2.0

"""Every command in every format, and its exit codes."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
import unittest

import yaml

from sriov_rt.cmd import command
from sriov_rt.cmd import main
from sriov_rt.cmd import runner
from sriov_rt.cmd import shell
from tests.periodic import slow
from tests.unit import documented_host
from tests.unit import test_docs

#: Commands that no format can be tried on here, and why.
_ENDLESS = {
    "guest repin": "it needs a running guest",
    "kubevirt domain-hook": "it serves until it is stopped",
    "kubevirt node-hook": "it serves until it is stopped",
    "verify network serve": "it serves until it is stopped",
}


def examples() -> dict[str, list[str]]:
    """Return the documented command line of each command."""
    found: dict[str, list[str]] = {}
    for words, _ in test_docs.samples(
        test_docs.DocumentedOutputTest.REFERENCE
    ):
        name = test_docs.name_of(words)
        if "-c" not in words and test_docs.NOT_RUN.keys().isdisjoint(words):
            found.setdefault(name, words)
    return found


#: Those of which the documentation shows only chosen columns, or nothing.
EXAMPLES = {
    **examples(),
    "agent show": ["sriov-rt", "agent", "show", "rt-2"],
    "host show": ["sriov-rt", "host", "show", "--root", "host/"],
    "onload profile show": [
        *("sriov-rt", "onload", "profile", "show", "latency"),
        *("--config-file", "sriov-rt.conf"),
    ],
    "guest render": [
        *("sriov-rt", "guest", "render", "domain.xml", "--report", "r.json"),
        *("--extra-spec", "sriov_rt:guest=lean"),
    ],
    "kubevirt on-define-domain": [
        *("sriov-rt", "kubevirt", "on-define-domain", "--vmi", "{}"),
        *("--domain", "<domain type='kvm'/>"),
    ],
    "onload lxc-hook": [
        *("sriov-rt", "onload", "lxc-hook", "--config-file", "sriov-rt.conf"),
    ],
}


def run_main(*words: str) -> tuple[int | str | None, str, str]:
    """Return exit code, output and what is on standard error."""
    printed, said = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(said),
    ):
        try:
            code: int | str | None = main.main(words)
        except SystemExit as end:
            code = end.code
    return code, printed.getvalue(), said.getvalue()


def with_options(words: list[str], *options: str) -> list[str]:
    """Return a command line with options before what the shell reads."""
    place = min(
        (words.index(sign) for sign in "<>" if sign in words),
        default=len(words),
    )
    return [*words[:place], *options, *words[place:]]


class EveryCommandTest(documented_host.DocumentedHost):
    def test_each_has_an_example(self):
        self.assertEqual(set(shell.COMMANDS), set(EXAMPLES) | set(_ENDLESS))

    def run_example(self, name: str, *options: str) -> tuple[int, str]:
        """Return exit code and output of a command on a new host."""
        self.boot()
        if name in ("vif unplug", "vif recover"):
            self.run_command(EXAMPLES["vif plug"])
        return self.run_command(with_options(EXAMPLES[name], *options))

    def test_each_prints_every_format(self):
        for name in sorted(set(EXAMPLES) - set(_ENDLESS)):
            cls = runner.load(shell.COMMANDS[name])
            is_one = issubclass(cls, command.ShowOne)
            code, _ = self.run_example(name)
            for form in ("csv", "json", "table", "value", "yaml"):
                if is_one and form == "csv":
                    continue  # openstackclient has it for lists alone
                with self.subTest(name, form=form):
                    found, printed = self.run_example(name, "-f", form)
                    self.assertEqual(code, found, printed)
                    self._check(form, printed, is_one)

    def _check(self, form: str, printed: str, is_one: bool) -> None:
        if form == "json":
            kind = dict if is_one else list
            self.assertIsInstance(json.loads(_document(printed)), kind)
        elif form == "yaml":
            kind = dict if is_one else list
            self.assertIsInstance(yaml.safe_load(_document(printed)), kind)
        elif form == "csv":
            rows = list(csv.reader(io.StringIO(printed)))
            self.assertTrue(rows)

    def test_each_has_a_document(self):
        for name in sorted(set(EXAMPLES) - set(_ENDLESS)):
            with self.subTest(name):
                code, _ = self.run_example(name)
                found, printed = self.run_example(name, "--json")
                self.assertEqual(code, found, printed)
                json.loads(_document(printed))

    def test_each_takes_a_column(self):
        for name in sorted(set(EXAMPLES) - set(_ENDLESS)):
            with self.subTest(name):
                code, printed = self.run_example(name, "-f", "json")
                rows = json.loads(_document(printed))
                if not rows:
                    continue
                first = rows[0] if isinstance(rows, list) else rows
                column = next(iter(first))
                found, printed = self.run_example(
                    name, "-f", "json", "-c", column
                )
                self.assertEqual(code, found, printed)
                rows = json.loads(_document(printed))
                first = rows[0] if isinstance(rows, list) else rows
                self.assertEqual([column], list(first))


def _document(printed: str) -> str:
    """Return what a command printed without what it says beside it.

    The documented host has both streams in one.
    """
    lines = printed.splitlines(keepends=True)
    return "".join(x for x in lines if not x.startswith("sriov-rt: "))


class BadOptionTest(unittest.TestCase):
    def test_an_option_that_it_does_not_have(self):
        for name in sorted(shell.COMMANDS):
            with self.subTest(name):
                code, _, said = run_main(*name.split(), "--nosuch")
                self.assertEqual(2, code)
                # The line that matters, alone.
                (line,) = said.splitlines()
                self.assertRegex(
                    line,
                    rf"^sriov-rt: error: .*; see 'sriov-rt {name} --help'$",
                )

    def test_a_column_that_there_is_not(self):
        for name, columns, said in (
            ("host show", "isolated", "; did you mean cpus.isolated"),
            ("host check", "nosuch", "; there are Severity, Code, Problem"),
        ):
            with self.subTest(name):
                code, out, error = run_main(*name.split(), "-c", columns)
                self.assertEqual((2, ""), (code, out))
                (line,) = [x for x in error.splitlines() if "error" in x]
                self.assertIn(f"error: no column '{columns}'{said}", line)

    def test_help_of_what_is_no_command(self):
        for words, near in (
            ("nosuch", "'sriov-rt help' lists all"),
            ("host nosuch", "'host check'"),
        ):
            with self.subTest(words):
                code, out, said = run_main(*words.split(), "--help")
                self.assertEqual((2, ""), (code, out))
                self.assertIn(f"'{words}' is not a sriov-rt command", said)
                self.assertIn(near, said)

    def test_a_format_that_there_is_not(self):
        for name in sorted(shell.COMMANDS):
            with self.subTest(name):
                code, _, said = run_main(*name.split(), "-f", "nosuch")
                self.assertEqual(2, code)
                # The line that matters, alone.
                (line,) = said.splitlines()
                self.assertRegex(
                    line,
                    rf"^sriov-rt: error: .*; see 'sriov-rt {name} --help'$",
                )


@slow
class ClosedPipeTest(unittest.TestCase):
    """A reader that has gone ends each command with 141, in silence."""

    #: Whatever the command, its result has two rows.
    PROGRAM = (
        "import sys\n"
        "from sriov_rt.cmd import command, main, runner, shell\n"
        "name = sys.argv[1]\n"
        "class_ = runner.load(shell.COMMANDS[name])\n"
        "def run(self, args):\n"
        "    if isinstance(self, command.ShowOne):\n"
        "        return command.one([('a', 'x' * 100_000)], {})\n"
        "    return command.lines(['x' * 100_000] * 2)\n"
        "class_.run = run\n"
        "class_.configure = lambda self, parser: None\n"
        "sys.exit(main.main([*name.split(), '-f', 'value']))\n"
    )

    def test_it_is_quiet(self):
        for name in ("vf list", "vf show", "vif plug", "guest render"):
            read, write = os.pipe()
            os.close(read)
            try:
                done = subprocess.run(
                    (sys.executable, "-c", self.PROGRAM, name),
                    stdin=subprocess.DEVNULL,
                    stdout=write,
                    stderr=subprocess.PIPE,
                    check=False,
                    timeout=60,
                )
            finally:
                os.close(write)
            with self.subTest(name):
                self.assertEqual(141, done.returncode, done.stderr)
