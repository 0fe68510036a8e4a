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

"""What the run of all tests says of a runner that failed."""

import ast
import configparser
import contextlib
import io
import pathlib
import tempfile
import threading
import time
import unittest

from tests import periodic
from tests import results
from tests import run
from tests.testbed.progress import Progress

#: As stestr prints it, captured logging and all.
OUTPUT = """\
{0} tests.cloud.test_a.TestA.test_passes [0.1s] ... ok
{0} tests.cloud.test_a.TestA.test_fails [0.2s] ... FAILED
{0} setUpClass (tests.cloud.test_b.TestB) [0.0s] ... FAILED

==============================
Failed 2 tests - output below:
==============================

tests.cloud.test_a.TestA.test_fails
-----------------------------------

Captured traceback:
~~~~~~~~~~~~~~~~~~~
    Traceback (most recent call last):
      File "tests/cloud/test_a.py", line 38, in test_fails
    raise errors.CommandFailed("virsh")

    tests.testbed.errors.CommandFailed: virsh exited 1

error: failed to get domain


setUpClass (tests.cloud.test_b.TestB)
-------------------------------------

Captured traceback:
~~~~~~~~~~~~~~~~~~~
    Traceback (most recent call last):
    AssertionError: ERROR: no memory


======
Totals
======
Ran: 2 tests in 796.7633 sec.
 - Passed: 1
 - Skipped: 0
 - Expected Fail: 0
 - Unexpected Success: 0
 - Failed: 2
"""


def _nothing():
    """End nothing."""


TESTS = pathlib.Path(run.__file__).parent


def _last_name(decorator: ast.expr) -> str:
    return ast.unparse(decorator).rpartition(".")[2]


class FailuresTest(unittest.TestCase):
    def test_names_come_first_then_each_traceback(self):
        lines = list(results.failures(OUTPUT))
        self.assertEqual(
            [
                "FAILED tests.cloud.test_a.TestA.test_fails [0.2s] ... "
                "tests.testbed.errors.CommandFailed: virsh exited 1",
                "FAILED setUpClass (tests.cloud.test_b.TestB) [0.0s] ... "
                "AssertionError: ERROR: no memory",
            ],
            lines[:2],
        )
        text = "\n".join(lines[: -OUTPUT.count("\n") - 1])
        self.assertIn("CommandFailed: virsh exited 1", text)
        self.assertIn("error: failed to get domain", text)
        self.assertIn("AssertionError: ERROR: no memory", text)

    def test_output_without_tests_is_shown_by_its_end(self):
        output = "\n".join(f"line {n}" for n in range(1000))
        lines = list(results.failures(output))
        self.assertEqual("line 999", lines[-1])
        self.assertLess(len(lines), 100)


class LanesTest(unittest.TestCase):
    def test_each_runner_is_an_environment_of_tox_once(self):
        ini = configparser.ConfigParser()
        ini.read(pathlib.Path(__file__).parents[3] / "tox.ini")
        names = [runner.name for runner in run.RUNNERS]
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertIn(f"testenv:{name}", ini)

    def test_those_that_are_named_run_once_and_are_told_in_order(self):
        began = []

        def note(lane, names):
            wanted = [each.name for each in lane.runners if each.name in names]
            began.extend(wanted)
            return [run.Outcome(name, 1, 0, 0, 0.0) for name in wanted]

        names = ("benchmarks", "cloud", "unit", "vm")
        found = run.run_all(names, note, _nothing)
        self.assertEqual(
            ["unit", "cloud", "vm", "benchmarks"],
            [each.runner for each in found],
        )
        self.assertEqual("benchmarks", began[-1])
        self.assertEqual(sorted(names), sorted(began))

    def test_what_fails_a_runner_is_not_swallowed(self):
        def fail(lane, names):
            raise OSError

        with self.assertRaises(OSError):
            run.run_all(("unit",), fail, _nothing)

    def test_ctrl_c_ends_what_runs_and_begins_nothing_more(self):
        children = run.Children()
        begun = threading.Event()
        ended = []

        def wait(lane, names):
            name = lane.runners[0].name
            if name == "functional":
                begun.wait(60)
                raise KeyboardInterrupt
            try:
                with tempfile.TemporaryFile() as sink:
                    threading.Timer(0.2, begun.set).start()
                    children.run(("sleep", "60"), sink, 60.0)
            except run.Interrupted:
                ended.append(name)
                raise
            raise AssertionError

        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            run.run_all((), wait, children.end)
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn("pep8", ended)
        self.assertNotIn("cloud", ended)

    def test_no_fixtures_are_made_for_tests_that_are_left_out(self):
        # unittest sets a class up for a test that is skipped, unless the
        # class is.
        for path in sorted(TESTS.rglob("test_*.py")):
            for each in ast.parse(path.read_text()).body:
                if not isinstance(each, ast.ClassDef):
                    continue
                later = [
                    "periodic" in map(_last_name, test.decorator_list)
                    for test in each.body
                    if isinstance(test, ast.FunctionDef)
                    and test.name.startswith("test_")
                ]
                with self.subTest(path=path.name, name=each.name):
                    self.assertFalse(later and all(later))

    def test_these_runners_are_left_to_the_periodic_run(self):
        later = {runner.name for runner in run.RUNNERS if runner.periodic}
        self.assertEqual({"benchmarks", "debian13"}, later)


class ReportTest(unittest.TestCase):
    def _report(self, *outcomes, left_out=()):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            code = run.report(outcomes, 61.0, left_out)
        return code, told.getvalue().splitlines()

    def test_the_last_line_counts_all(self):
        code, lines = self._report(
            run.Outcome("unit", 5, 0, 1, 3.0), run.Outcome("vm", 2, 1, 0, 9.0)
        )
        self.assertEqual(1, code)
        self.assertEqual("7 passed, 1 failed, 1 skipped", lines[-1])

    def test_seconds_of_each_and_of_all(self):
        code, lines = self._report(run.Outcome("unit", 5, 0, 0, 3.0))
        self.assertEqual(0, code)
        self.assertRegex("\n".join(lines), r"(?m)^unit .* 3$")
        self.assertRegex("\n".join(lines), r"(?m)^in all +61$")

    def test_what_is_left_out_is_named_apart_from_what_was_skipped(self):
        skips = (f"a.b.c: {periodic.REASON}", "a.b.d: no KVM")
        _, lines = self._report(
            run.Outcome("vm", 1, 0, 2, 3.0, skips), left_out=("benchmarks",)
        )
        self.assertIn("skipped in vm: a.b.d: no KVM", lines)
        heading = lines.index("left to tools/test --periodic:")
        self.assertEqual(
            ["  benchmarks", "  vm: a.b.c"], lines[heading + 1 : -1]
        )


class SessionTest(unittest.TestCase):
    def _run(self, script, runner, seconds=60.0):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        logs = pathlib.Path(directory.name)
        tox = logs / "tox"
        tox.write_text(f'#!/bin/sh\necho "$*" >> {logs}/seen\n{script}\n')
        tox.chmod(0o755)
        deadline = time.monotonic() + seconds
        children = run.Children()
        with contextlib.redirect_stdout(io.StringIO()) as told:
            session = run.Session(
                tox,
                logs,
                Progress(io.StringIO()),
                deadline,
                run.Environments(tox, logs, [runner.name], children),
                children,
            )
            outcome = session.one(runner)
        self.seen = (logs / "seen").read_text()
        return outcome, told.getvalue()

    def test_what_runs_past_the_deadline_is_ended_and_has_failed(self):
        runner = run.Runner("unit", False, 300)
        script = 'case "$*" in *--notest*) exit;; esac\necho begun\nsleep 60'
        outcome, told = self._run(script, runner, 0)
        self.assertEqual((0, 1), (outcome.passed, outcome.failed))
        self.assertIn("unit is ended after 1 s", told)
        self.assertIn("begun", told)

    def test_what_is_installed_ahead_is_not_installed_again(self):
        outcome, _ = self._run("", run.Runner("unit", False, 300))
        self.assertEqual(1, outcome.passed)
        self.assertEqual(
            "run --notest -e unit\nrun -e unit --skip-pkg-install\n",
            self.seen,
        )

    def test_what_cannot_be_installed_is_told_by_its_runner(self):
        outcome, told = self._run(
            "echo no such release; exit 1", run.Runner("unit", False, 300)
        )
        self.assertEqual(1, outcome.failed)
        self.assertIn("no such release", told)
        self.assertEqual("run --notest -e unit\nrun -e unit\n", self.seen)

    def test_runners_of_a_bed_find_it_up_and_it_is_taken_away(self):
        with tempfile.TemporaryDirectory() as place:
            logs = pathlib.Path(place)
            tox = logs / "tox"
            tox.write_text(
                "#!/bin/sh\n"
                f'[ $2 = --notest ] || echo "$3 kept=$SRIOV_RT_KEEP" '
                f">> {logs}/seen\n"
            )
            tox.chmod(0o755)
            note = f"open('{logs}/seen', 'a').write('away\\n')"
            lane = run.Lane(
                tuple(run.Runner(name, False, 60) for name in "abc"),
                run.Bed(("-c", note), "-x"),
            )
            children = run.Children()
            session = run.Session(
                tox,
                logs,
                Progress(io.StringIO()),
                time.monotonic() + 60,
                run.Environments(tox, logs, ["a", "c"], children),
                children,
            )
            outcomes = session.run(lane, ("a", "c"))
            seen = (logs / "seen").read_text().split("\n")
        self.assertEqual(["a", "c"], [each.runner for each in outcomes])
        self.assertEqual(["away", "a kept=1", "c kept=1", "away", ""], seen)

    def test_a_bed_that_nobody_wants_is_left_alone(self):
        lane = run.Lane((), run.Bed(("-c", "1/0"), "-x"))
        nowhere = pathlib.Path("/nonexistent")
        children = run.Children()
        environments = run.Environments(nowhere, nowhere, [], children)
        session = run.Session(
            nowhere,
            nowhere,
            Progress(io.StringIO()),
            0,
            environments,
            children,
        )
        self.assertEqual([], session.run(lane, ("unit",)))
