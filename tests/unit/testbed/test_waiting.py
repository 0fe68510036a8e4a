# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Programs that the test bed waits for, and what it reads of them."""

import ast
import pathlib
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator

from tests.testbed import errors
from tests.testbed import paths
from tests.testbed import terminal
from tests.testbed import waiting

#: What reads the output of programs, and is started at terminals.
READERS = ("sriov_rt", "tests/cloud", "tests/testbed")
#: It is shown line by line as it comes, and Ctrl-C ends it.
AT_A_TERMINAL = {"tests/testbed/tempest_run.py": 1}
#: As virsh(1) does before it starts pkttyagent(1), on standard error.
COMPLAINS = "(: < /dev/tty) 2> /dev/null && echo an agent >&2; echo data"


class RunTest(unittest.TestCase):
    def test_what_is_read_is_the_standard_output_alone(self) -> None:
        text = waiting.run(("sh", "-c", "echo no >&2; echo yes"), timeout=10)
        self.assertEqual("yes\n", text)

    def test_a_failure_shows_both_outputs(self) -> None:
        with self.assertRaises(errors.CommandFailed) as caught:
            waiting.run(("sh", "-c", "echo a; echo b >&2; exit 3"), timeout=10)
        self.assertEqual("a\nb\n", caught.exception.output)
        self.assertEqual(3, caught.exception.status)

    def test_what_takes_too_long_ends_with_its_children(self) -> None:
        began = time.monotonic()
        with self.assertRaisesRegex(errors.TimedOut, "begun"):
            waiting.run(
                ("sh", "-c", "echo begun; sleep 60 & sleep 60"), timeout=0.5
            )
        self.assertLess(time.monotonic() - began, 10)

    def test_a_program_at_our_terminal_has_none(self) -> None:
        script = (
            "from tests.testbed import waiting\n"
            f"command = ('sh', '-c', {COMPLAINS!r})\n"
            "open('/dev/tty').close()\n"
            "print(repr(waiting.run(command, timeout=10)))\n"
        )
        status, text = terminal.run((sys.executable, "-c", script))
        self.assertEqual((0, "'data\\n'"), (status, text.strip()))


class RunLoggedTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.log = pathlib.Path(scratch.name) / "it.log"

    def run_script(self, script: str, timeout: float = 10) -> None:
        waiting.run_logged(("sh", "-c", script), timeout=timeout, log=self.log)

    def test_a_log_has_both_outputs_in_their_order(self) -> None:
        self.log.write_text("before\n")
        self.run_script("echo a; echo b >&2; echo c")
        self.assertEqual("before\na\nb\nc\n", self.log.read_text())

    def test_a_failure_shows_the_end_of_the_log(self) -> None:
        with self.assertRaisesRegex(errors.CommandFailed, "no such package"):
            self.run_script("echo no such package >&2; exit 100")

    def test_what_takes_too_long_is_ended(self) -> None:
        with self.assertRaisesRegex(errors.TimedOut, "begun"):
            self.run_script("echo begun; exec sleep 60", timeout=0.5)


class ReadersTest(unittest.TestCase):
    """Whatever is read comes without complaints, and from no terminal."""

    def test_what_is_read_is_apart(self) -> None:
        for file, call in started():
            if "STDOUT" in call.get("stderr", ""):
                with self.subTest(file):
                    # A log may have both.
                    self.assertNotIn("PIPE", call.get("stdout", ""))

    def test_what_is_read_has_no_terminal(self) -> None:
        without = [
            file
            for file, call in started()
            if ("capture_output" in call or "PIPE" in call.get("stdout", ""))
            and call.get("start_new_session") != "True"
        ]
        for file, count in AT_A_TERMINAL.items():
            for _ in range(count):
                without.remove(file)
        self.assertEqual([], without)


def started() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the file and the keywords of each call that starts a program."""
    for name in READERS:
        for file in sorted((paths.CHECKOUT / name).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call):
                    continue
                if ast.unparse(node.func).startswith("subprocess."):
                    yield (
                        str(file.relative_to(paths.CHECKOUT)),
                        {
                            each.arg or "**": ast.unparse(each.value)
                            for each in node.keywords
                        },
                    )
