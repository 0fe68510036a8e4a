# SPDX-License-Identifier: Apache-2.0

"""What the run of all tests says of a runner that failed."""

import ast
import configparser
import contextlib
import io
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

from tests import environments
from tests import parts
from tests import periodic
from tests import results
from tests import run
from tests import touched
from tests.children import Interrupted
from tests.testbed import errors
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
            if name == "pep8":
                begun.wait(60)
                raise KeyboardInterrupt
            try:
                with tempfile.TemporaryFile() as sink:
                    threading.Timer(0.2, begun.set).start()
                    children.run(("sleep", "60"), sink, 60.0)
            except Interrupted:
                ended.append(name)
                raise
            raise AssertionError

        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            run.run_all((), wait, children.end)
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn("mypy", ended)
        self.assertIn("cloud", ended)
        self.assertNotIn("vm", ended)

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
        self.assertEqual({"benchmarks", "cluster", "debian13"}, later)


class BackgroundTest(unittest.TestCase):
    def test_what_it_starts_there_can_be_interrupted(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        found = []

        def run_plan(plan):
            found.append(signal.getsignal(signal.SIGINT))
            return [run.Outcome("pep8", 1, 0, 0, 1.0)]

        with (
            mock.patch.object(run, "run_plan", run_plan),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            self.assertEqual(0, run.main(["pep8"]))
        self.assertEqual([signal.default_int_handler], found)


class ReportTest(unittest.TestCase):
    def _report(self, *outcomes, later=()):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            code = run.report(outcomes, 61.0, later)
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
            run.Outcome("vm", 1, 0, 2, 3.0, skips), later=("benchmarks",)
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
                logs,
                Progress(io.StringIO()),
                deadline,
                run.Ahead(
                    logs, [runner], tox, children, Progress(io.StringIO())
                ),
                children,
                tox,
            )
            outcome = session.one(runner)
        self.seen = (logs / "seen").read_text()
        return outcome, told.getvalue()

    def test_what_runs_past_the_deadline_is_ended_and_has_failed(self):
        runner = run.Runner("vm", False, 300)
        script = 'case "$*" in *--notest*) exit;; esac\necho begun\nsleep 60'
        outcome, told = self._run(script, runner, 0)
        self.assertEqual((0, 1), (outcome.passed, outcome.failed))
        self.assertIn("vm is ended after 1 s", told)
        self.assertIn("begun", told)

    def test_what_is_installed_ahead_is_not_installed_again(self):
        outcome, _ = self._run("", run.Runner("vm", False, 300))
        self.assertEqual(1, outcome.passed)
        self.assertEqual(
            "run --notest -e vm\nrun -e vm --skip-pkg-install\n",
            self.seen,
        )

    def test_what_cannot_be_installed_is_told_by_its_runner(self):
        outcome, told = self._run(
            "echo no such release; exit 1", run.Runner("vm", False, 300)
        )
        self.assertEqual(1, outcome.failed)
        self.assertIn("no such release", told)
        self.assertEqual("run --notest -e vm\nrun -e vm\n", self.seen)

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
                logs,
                Progress(io.StringIO()),
                time.monotonic() + 60,
                run.Ahead(
                    logs,
                    [each for each in lane.runners if each.name in "ac"],
                    tox,
                    children,
                    Progress(io.StringIO()),
                ),
                children,
                tox,
            )
            outcomes = session.run(lane, ("a", "c"))
            seen = (logs / "seen").read_text().split("\n")
        self.assertEqual(["a", "c"], [each.runner for each in outcomes])
        self.assertEqual(["away", "a kept=1", "c kept=1", "away", ""], seen)

    def test_a_bed_that_nobody_wants_is_left_alone(self):
        lane = run.Lane((), run.Bed(("-c", "1/0"), "-x"))
        nowhere = pathlib.Path("/nonexistent")
        children = run.Children()
        progress = Progress(io.StringIO())
        session = run.Session(
            nowhere,
            progress,
            0,
            run.Ahead(nowhere, [], nowhere, children, progress),
            children,
        )
        self.assertEqual([], session.run(lane, ("unit",)))


class SharedTest(unittest.TestCase):
    """Runners of one environment have the commands of tox.ini."""

    def test_words_of_tox_are_replaced(self):
        checks = environments.Checks(
            pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        )
        for name in environments.SHARED:
            for command in checks.commands(name, ["a b"]):
                with self.subTest(name):
                    self.assertNotRegex("".join(command), "[{}]|toxinidir")
        (unit,) = checks.commands("unit", ["a b"])
        self.assertEqual(["run", "a b"], unit[-2:])


class PlanTest(unittest.TestCase):
    def _plans(self, *arguments):
        return run.plans(run.parser().parse_args(arguments))

    def test_the_gate_is_all_but_what_is_left_out(self):
        (gate,) = self._plans()
        self.assertEqual(
            {"benchmarks", "cluster", "debian13"}, set(gate.later)
        )
        names = {each.name for each in run.RUNNERS}
        self.assertEqual(names - {*gate.later}, set(gate.runners))
        self.assertFalse(gate.whole or gate.quick)

    def test_a_part_is_one_runner_with_its_tests(self):
        (plan,) = self._plans("--periodic", "vm-verify")
        self.assertEqual({"vm": (r"^tests\.vm\.test_verify\.",)}, plan.runners)
        self.assertTrue(plan.whole)

    def test_all_parts_follow_each_other(self):
        found = [each.name for each in self._plans("--periodic")]
        self.assertEqual([f"part {each.name}" for each in parts.PARTS], found)

    def test_nothing_is_run_that_is_not_there(self):
        for arguments in (["nowhere"], ["--periodic", "vm"]):
            with (
                self.subTest(arguments),
                self.assertRaises(errors.TestbedError),
            ):
                self._plans(*arguments)


class PartsTest(unittest.TestCase):
    """Each test of the periodic run is in a part that runs it."""

    def test_each_module_is_in_one(self):
        for path in sorted(TESTS.rglob("test_*.py")):
            room, *words = path.relative_to(TESTS).with_suffix("").parts
            if "cases" in words:
                continue
            for each in ast.parse(path.read_text()).body:
                if not isinstance(each, ast.ClassDef):
                    continue
                nodes = [
                    n for n in each.body if isinstance(n, ast.FunctionDef)
                ]
                if not any(map(touched.is_periodic, (each, *nodes))):
                    continue
                name = ".".join(("tests", room, *words, each.name, ""))
                found = [
                    part.name
                    for part in parts.PARTS
                    if part.runner == room
                    and (
                        not part.only
                        or any(re.search(only, name) for only in part.only)
                    )
                ]
                with self.subTest(name):
                    self.assertEqual(1, len(found), found)

    def test_each_runner_that_is_left_out_is_whole_in_them(self):
        for runner in run.RUNNERS:
            if runner.periodic:
                found = [p for p in parts.PARTS if p.runner == runner.name]
                self.assertTrue(found)
        in_parts = {
            name
            for part in parts.PARTS
            if part.runner == "benchmarks"
            for name in part.only
        }
        there = {each.stem for each in (TESTS / "benchmarks").glob("bench_*")}
        # It works in a cloud that is up, and runs if it is named.
        self.assertEqual(there - {"bench_boot"}, in_parts)


class ImportsTest(unittest.TestCase):
    """What brings up Kubernetes and Magnum is that of their own runners."""

    def test_the_others_of_the_gate_do_not_import_it(self):
        rooms = ("unit", "functional", "packages", "vm", "cloud")
        seen = {
            f"tests.{'.'.join(path.relative_to(TESTS).with_suffix('').parts)}"
            for room in rooms
            for path in (TESTS / room).rglob("*.py")
        }
        left = [*seen]
        while left:
            for name in _imported(left.pop()) - seen:
                seen.add(name)
                left.append(name)
        self.assertIn("tests.testbed.rtvm.vm", seen)
        for name in ("kube.cluster", "kube.node", "magnum"):
            self.assertNotIn(f"tests.testbed.{name}", seen)


def _imported(name):
    """Return the modules of tests that a module imports."""
    path = TESTS.parent.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.exists():
        return set()
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{each.name}" for each in node.names}
            found.add(node.module)
    return {each for each in found if each.startswith("tests.")}


class TouchedTest(unittest.TestCase):
    def test_every_file_is_of_a_row(self):
        listed = subprocess.run(
            ("git", "ls-files"),
            check=True,
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for each in listed:
            with self.subTest(each):
                touched.of_file(each)

    def test_every_room_has_a_row_of_its_own(self):
        package = TESTS.parent / "sriov_rt"
        rooms = {
            f"sriov_rt/{each.name}"
            for each in package.iterdir()
            if each.name != "__pycache__"
        }
        rows = {each for each in touched.NEEDS if each.startswith("sriov_rt/")}
        self.assertEqual(rooms, rows)
        with self.assertRaises(errors.TestbedError):
            touched.of_file("sriov_rt/another/module.py")

    def test_what_rows_name_is_there(self):
        runners = {each.name for each in run.RUNNERS}
        for row, names in touched.NEEDS.items():
            with self.subTest(row):
                self.assertTrue((TESTS.parent / row).exists())
                for name in names:
                    path = TESTS.joinpath(*name.split("."))
                    self.assertTrue(
                        name in runners
                        or path.is_dir()
                        or path.with_suffix(".py").exists(),
                        name,
                    )

    def test_a_test_needs_itself_and_a_helper_those_beside_it(self):
        for name, needs in (
            ("tests/vm/test_vf.py", "vm.test_vf"),
            ("tests/vm/network.py", "vm"),
            ("tests/functional/vif/isolated.py", "functional.vif"),
            (
                "tests/functional/neutron/cases/test_agent.py",
                "functional.neutron",
            ),
            ("tests/unit/vif/test_records.py", "unit.vif.test_records"),
        ):
            self.assertEqual([needs], touched.of_file(name))

    def test_what_only_a_part_has_is_named_and_not_run(self):
        found = touched.needed(
            {"vm.test_pair", "vm.test_vf", "cluster.test_magnum", "docs"}
        )
        self.assertEqual(
            {"vm": [r"^tests\.vm\.test_vf\."], "docs": []}, found.runners
        )
        self.assertIn("tools/test --periodic vm-peers", found.left_out)
        self.assertIn("tools/test --periodic vm-vfs", found.left_out)
        self.assertIn("tools/test --periodic cluster", found.left_out)
        self.assertIn("other tests of vm (tools/test vm)", found.left_out)
        self.assertNotIn("docs (tools/test docs)", found.left_out)

    def test_a_whole_runner_is_whole_beside_one_of_its_tests(self):
        found = touched.needed({"kubernetes", "kubernetes.test_labels"})
        self.assertEqual({"kubernetes": []}, found.runners)
