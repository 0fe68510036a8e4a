# SPDX-License-Identifier: Apache-2.0

"""The contributor's recipe for a command makes one."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from tests.periodic import periodic

ROOT = pathlib.Path(__file__).resolve().parents[3]

PAGE = ROOT / "doc/source/contributor/index.rst"


@periodic
class RecipeTest(unittest.TestCase):
    """A copy of the tree, with the page's command in it."""

    def setUp(self):
        place = self.enterContext(tempfile.TemporaryDirectory())
        self.copy = pathlib.Path(place)
        shutil.copytree(
            ROOT / "sriov_rt",
            self.copy / "sriov_rt",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        text = PAGE.read_text()
        (code,) = re.findall(
            r"code-block:: python\n\n((?:   [^\n]*\n|\n)*?   class List\("
            r"(?:[^\n]*\n)+?)(?=\S)",
            text,
        )
        (module, line) = re.search(
            r"This is ``sriov_rt/cmd/(\w+)\.py``.*?``(\"[^`]+)``",
            text,
            re.DOTALL,
        ).groups()
        file = self.copy / f"sriov_rt/cmd/{module}.py"
        file.write_text(textwrap.dedent(code))
        shell = self.copy / "sriov_rt/cmd/shell.py"
        before = "COMMANDS: Mapping[str, str] = {\n"
        shell.write_text(
            shell.read_text().replace(before, f"{before}    {line}\n")
        )

    def run_command(self, *words):
        done = subprocess.run(
            (sys.executable, "-m", "sriov_rt.cmd.main", "cpus", *words),
            cwd=self.copy,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    def test_it_prints_rows_and_a_document(self):
        for words, expected in (
            (("--json",), {"cpus": [0, 1, 8]}),
            (("-f", "json"), [{"CPU": 0}, {"CPU": 1}, {"CPU": 8}]),
            (
                ("-f", "json", "-c", "parity"),
                [{"Parity": each} for each in ("even", "odd", "even")],
            ),
        ):
            with self.subTest(words):
                code, printed, said = self.run_command("list", "0-1,8", *words)
                self.assertEqual((0, ""), (code, said))
                self.assertEqual(expected, json.loads(printed))

    def test_it_has_help_and_refuses_what_it_does_not_know(self):
        code, printed, _ = self.run_command("list", "--help")
        self.assertEqual(0, code)
        self.assertIn("List the CPUs that a range names.", printed)
        for words in (("list", "x"), ("list", "--nosuch", "1")):
            code, _, said = self.run_command(*words)
            self.assertEqual(2, code)
            self.assertIn("see 'sriov-rt cpus list --help'", said)
