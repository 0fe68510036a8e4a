# SPDX-License-Identifier: Apache-2.0

"""The commands in openstackclient's own shell, of its release."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests.unit import builders

#: Seconds that a command may take; it is starved where the gate runs.
_PATIENCE_S = 300

#: Credentials that need no Keystone.
_NOBODY = ("--os-auth-type", "none", "--os-endpoint", "http://127.0.0.1:9")

#: Runs several commands in one process, which loads its plug-ins but once, and
#: prints the exit code and the output of each.
_SEVERAL = """
import contextlib, io, json, sys
from openstackclient import shell
found = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            code = shell.main(words)
        except SystemExit as error:
            code = error.code or 0
    found.append((code, output.getvalue()))
print(json.dumps(found))
"""


class OpenstackClientTest(unittest.TestCase):
    """``openstack``, with the entry points of the installed package."""

    def several(self, *commands: tuple[str, ...]) -> list[str]:
        """Return what commands that succeed print."""
        done = self.run_python("-c", _SEVERAL, json.dumps(commands))
        self.assertEqual(0, done.returncode, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual([0] * len(commands), [code for code, _ in found])
        return [output for _, output in found]

    def openstack(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run_python("-m", "openstackclient.shell", *words)

    def run_python(self, *words: str) -> subprocess.CompletedProcess[str]:
        # No configuration of this machine's, and the code under test.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OS_")
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with tempfile.TemporaryDirectory() as empty:
            return subprocess.run(
                (sys.executable, *words),
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE_S,
                cwd=empty,
                env=environment,
            )

    def test_help_of_each_command(self):
        commands = (("host", "list"), ("host", "show"), ("explain",))
        pages = self.several(*(("realtime", *x, "--help") for x in commands))
        for words, page in zip(commands, pages, strict=True):
            with self.subTest(words):
                self.assertIn(f"realtime {' '.join(words)} [-h]", page)
                self.assertIn("--transport-url URL", page)

    def test_a_command_runs_with_its_client(self):
        with tempfile.TemporaryDirectory() as place:
            facts = pathlib.Path(place, "rt-1.json")
            facts.write_text(json.dumps(builders.realtime_host().to_plain()))
            command = (
                "--extra-spec", "sriov_rt:kernel=preempt_rt",
                "--facts", str(facts),
            )  # fmt: skip
            ours, cliffs = self.several(
                (*_NOBODY, "realtime", "explain", "--json", *command),
                (*_NOBODY, "realtime", "explain", "--format=json", *command),
            )
        expected = {"host": "rt-1", "passes": True, "reasons": []}
        self.assertEqual([expected], json.loads(ours))
        row = {"Host": "rt-1", "Passes": True, "Problem": "", "Remedy": ""}
        self.assertEqual([row], json.loads(cliffs))

    def test_its_connection_is_the_one_that_is_used(self):
        done = self.openstack(
            *_NOBODY, "realtime", "host", "list",
            "--transport-url=rabbit://127.0.0.1:9/", "--wait=1",
        )  # fmt: skip
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn("nova-api cannot be used: ", done.stderr)
        self.assertIn("http://127.0.0.1:9", done.stderr)
