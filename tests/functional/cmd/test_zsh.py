# SPDX-License-Identifier: Apache-2.0

"""What zsh completes, by the script that ``sriov-rt complete`` prints."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

#: Says what zsh's own functions are called with, in their place.
_CALLS = """
_describe() { print -rl -- "${(@P)2}" }
_arguments() { print -rl -- "$@" }
words=("${(@)argv[2,-1]}")
(( CURRENT = $#words ))
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
        self.assertIn("vif:Commands of sriov-rt vif", found)
        self.assertIn("profile:", str(self.complete("sriov-rt", "onload", "")))
        found = self.complete("sriov-rt", "vif", "pl")
        self.assertIn(
            "plug:Plug a port; show it if it is plugged already", found
        )

    def test_options_and_their_values(self):
        found = "\n".join(self.complete("sriov-rt", "vf", "xml", "--as", ""))
        self.assertIn(":way:(interface hostdev network pooled)", found)
        found = "\n".join(self.complete("sriov-rt", "agent", "list", "--"))
        self.assertIn("--not-ready[list the hosts", found)
        self.assertIn("]:FILE:_files", found)

    def test_a_command_that_is_a_group_too(self):
        found = self.complete("sriov-rt", "verify", "network", "")
        self.assertTrue(found[0].startswith("serve:"))
        self.assertIn("--streams[", "\n".join(found))
