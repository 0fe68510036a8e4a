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


class OpenstackClientTest(unittest.TestCase):
    """``openstack``, with the entry points of the installed package."""

    def openstack(self, *words: str) -> subprocess.CompletedProcess[str]:
        # No configuration of this machine's, and the code under test.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OS_")
        }
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with tempfile.TemporaryDirectory() as empty:
            return subprocess.run(
                (sys.executable, "-m", "openstackclient.shell", *words),
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE_S,
                cwd=empty,
                env=environment,
            )

    def test_help_of_each_command(self):
        for words in (("host", "list"), ("host", "show"), ("explain",)):
            with self.subTest(words):
                done = self.openstack("realtime", *words, "--help")
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertIn(f"realtime {' '.join(words)} [-h]", done.stdout)
                self.assertIn("--transport-url URL", done.stdout)

    def test_a_command_runs_with_its_client(self):
        with tempfile.TemporaryDirectory() as place:
            facts = pathlib.Path(place, "rt-1.json")
            facts.write_text(json.dumps(builders.realtime_host().to_plain()))
            for option, expected in (
                ("--json", {"host": "rt-1", "passes": True, "reasons": []}),
                (
                    "--format=json",
                    {
                        "Host": "rt-1",
                        "Passes": True,
                        "Problem": "",
                        "Remedy": "",
                    },
                ),
            ):
                done = self.openstack(
                    *_NOBODY, "realtime", "explain", option,
                    "--extra-spec", "sriov_rt:kernel=preempt_rt",
                    "--facts", str(facts),
                )  # fmt: skip
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual([expected], json.loads(done.stdout))

    def test_its_connection_is_the_one_that_is_used(self):
        done = self.openstack(
            *_NOBODY, "realtime", "host", "list",
            "--transport-url=rabbit://127.0.0.1:9/", "--wait=1",
        )  # fmt: skip
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn("nova-api cannot be used: ", done.stderr)
        self.assertIn("http://127.0.0.1:9", done.stderr)
