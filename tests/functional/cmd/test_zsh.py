# SPDX-License-Identifier: Apache-2.0

"""What zsh completes, by the script that ``sriov-rt complete`` prints."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

#: Prints what zsh's own functions are called with, in their place.
_CALLS = """
compadd() { shift; print -rl -- "$@" }
_files() { print -r -- "<files>" }
words=("${(@)argv[2,-1]}")
(( CURRENT = $#words ))
PREFIX=$words[-1]
source $1
"""


class ZshTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.script = pathlib.Path(place.name, "_sriov-rt")
        cls.script.write_text(
            subprocess.run(
                (
                    *(sys.executable, "-m", "sriov_rt.cmd.main"),
                    *("complete", "--shell", "zsh"),
                ),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=300,
            ).stdout
        )

    def complete(self, *words: str) -> list[str]:
        """Return what is completed behind words; the last may be empty."""
        done = subprocess.run(
            ("zsh", "-f", "-c", _CALLS, "zsh", self.script, *words),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        self.assertEqual("", done.stderr)
        return done.stdout.splitlines()

    def test_groups_and_commands(self):
        found = self.complete("sriov-rt", "")
        self.assertLess({"vif", "explain", "complete"}, set(found))
        found = self.complete("sriov-rt", "onload", "")
        self.assertLess({"lxc-hook", "profile"}, set(found))
        found = self.complete("sriov-rt", "onload", "profile", "")
        self.assertEqual({"list", "show"}, set(found))

    def test_options_once_one_is_begun(self):
        found = self.complete("sriov-rt", "agent", "list", "--")
        self.assertLess({"--not-ready", "--json"}, set(found))
        found = self.complete("sriov-rt", "vif", "plug", "./x y", "--")
        self.assertIn("--kind", found)
        self.assertNotIn("--not-ready", found)

    def test_files_behind_a_command(self):
        for words in (("guest", "render"), ("guest", "render", "/a/b")):
            found = self.complete("sriov-rt", *words, "")
            self.assertEqual(["<files>"], [each for each in found if each])

    def test_a_command_that_is_a_group_too(self):
        found = self.complete("sriov-rt", "verify", "network", "")
        self.assertEqual(["serve", "<files>"], found)
        found = self.complete("sriov-rt", "verify", "network", "--")
        self.assertIn("--streams", found)
