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

"""Run every runner of the project and sum up what they found.

``tools/test`` starts this. Each runner's whole output is in its log; the
last line is ``N passed, N failed, N skipped`` over all of them.

All others run beside the virtual machine, which mostly emulates one CPU; the
benchmarks have the machine to themselves.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from concurrent import futures

from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.progress import Progress

#: The release of tox that runs the environments of tox.ini.
TOX = "tox>=4.27,<5"

_TOTALS = re.compile(
    r"^ - (Passed|Skipped|Failed|Unexpected Success): +([0-9]+)$", re.MULTILINE
)
_SKIP = re.compile(r"^\{[0-9]+\} (\S+) .*SKIPPED(?:: *(.*))?$", re.MULTILINE)
_FAILED = re.compile(r"^\{[0-9]+\} (.*) FAILED$", re.MULTILINE)
#: A test's traceback in stestr's output, up to the next test's heading.
_TRACEBACK = re.compile(
    r"^(\S.*)\n-+\n+Captured traceback:\n~+\n((?:.*\n)*?)(?=\S.*\n-{8}|={4})",
    re.MULTILINE,
)
#: The error that a traceback ends with; its first line.
_ERROR = re.compile(r"^ *([A-Za-z_][\w.]*: .*)$", re.MULTILINE)
_ERROR_LENGTH = 160
#: Lines shown of each, and tests that are shown.
_TRACEBACK_LINES, _MOST_TRACEBACKS = 30, 10
#: The table that tests/benchmarks prints.
_BENCHMARK = re.compile(r"^\| .*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Runner:
    """One environment of tox.ini.

    :param name: the environment.
    :param counts: its tests are counted by stestr; otherwise the whole run
        is one check.
    :param limit: seconds after which it is ended.
    :param shown: lines of its output that are worth a reader's time.
    :param packages: Debian packages that it wants; the test beds install
        their own.
    """

    name: str
    counts: bool
    limit: float
    shown: re.Pattern[str] | None = None
    packages: tuple[str, ...] = ()


#: For real containers and programs that Onload's stand-in is loaded into.
_FUNCTIONAL = (
    "binutils",
    "busybox-static",
    "gcc",
    "iproute2",
    "iputils-ping",
    "libc6-dev",
    "libvirt-clients",
    "libvirt-daemon-driver-lxc",
    "libvirt-daemon-system",
    "lxc",
    "musl-tools",
)

Lane = tuple[Runner, ...]

#: One stage after the other; the lanes of one are run at once, and the
#: runners of a lane one after the other.
STAGES: tuple[tuple[Lane, ...], ...] = (
    (
        (
            Runner("pep8", False, 300),
            Runner("mypy", False, 600),
            Runner("unit", True, 900),
            Runner("functional", True, 1500, packages=_FUNCTIONAL),
            # Builds Kubernetes and NFD in an empty cache: 10 to 20 minutes.
            # Before the benchmarks and the cloud, which use the same
            # programs.
            Runner("kubernetes", True, 2700),
            Runner("docs", False, 600),
            Runner("cloud", True, 4500),
        ),
        (Runner("vm", True, 4500),),
    ),
    ((Runner("benchmarks", False, 1500, _BENCHMARK),),),
)
RUNNERS = tuple(
    runner for stage in STAGES for lane in stage for runner in lane
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a runner found, and how long it took in seconds."""

    runner: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    skips: tuple[str, ...] = ()


def _tox(cache: pathlib.Path) -> pathlib.Path:
    home = cache / "tox"
    program = home / "bin" / "tox"
    if not program.exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run(
            (home / "bin" / "pip", "install", "--quiet", TOX), check=True
        )
    return program


def _count(runner: Runner, code: int, output: str) -> tuple[int, int, int]:
    if not runner.counts:
        return (1, 0, 0) if code == 0 else (0, 1, 0)
    totals = {kind: int(number) for kind, number in _TOTALS.findall(output)}
    passed = totals.get("Passed", 0)
    failed = totals.get("Failed", 0) + totals.get("Unexpected Success", 0)
    if not failed and (code != 0 or not passed):
        # It ended before its tests did, or ran none: that is a failure too.
        failed = 1
    return passed, failed, totals.get("Skipped", 0)


def _run(
    runner: Runner, tox: pathlib.Path, logs: pathlib.Path, progress: Progress
) -> Outcome:
    log = logs / f"test-{runner.name}.log"
    began = time.monotonic()
    packages.install(runner.packages, logs / "apt.log")
    with progress.step(f"{runner.name} (log: {log})"), log.open("wb") as sink:
        child = subprocess.Popen(
            (tox, "run", "-e", runner.name),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = child.wait(runner.limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 15)
            code = child.wait(60)
    output = log.read_text(errors="replace")
    passed, failed, skipped = _count(runner, code, output)
    if failed:
        print("\n".join(_failures(output)), flush=True)
    elif runner.shown is not None:
        print("\n".join(runner.shown.findall(output)), flush=True)
    skips = tuple(f"{a}: {b or 'no reason'}" for a, b in _SKIP.findall(output))
    seconds = time.monotonic() - began
    return Outcome(runner.name, passed, failed, skipped, seconds, skips)


def _run_all(
    names: Collection[str], run: Callable[[Runner], Outcome]
) -> list[Outcome]:
    """Run the named runners and return what they found, in their order."""

    def one(lane: Lane) -> list[Outcome]:
        return [run(each) for each in lane if each.name in names]

    found = []
    for stage in STAGES:
        with futures.ThreadPoolExecutor(len(stage)) as pool:
            for outcomes in pool.map(one, stage):
                found += outcomes
    return found


def _failures(output: str) -> Sequence[str]:
    """Return what tells why a runner failed: names, tracebacks, the end."""
    tracebacks = _TRACEBACK.findall(output)
    errors = {name: _error(text) for name, text in tracebacks}
    lines = [
        f"FAILED {name} {errors.get(name.partition(' [')[0], '')}".rstrip()
        for name in _FAILED.findall(output)
    ]
    for name, text in tracebacks[:_MOST_TRACEBACKS]:
        lines += ["", name, *text.splitlines()[:_TRACEBACK_LINES]]
    return [*lines, "", *output.splitlines()[-60:]]


def _error(traceback: str) -> str:
    """Return the first line of the error that a traceback ends with."""
    found = _ERROR.search(traceback.rpartition('  File "')[2])
    return found[1][:_ERROR_LENGTH] if found else ""


def _report(outcomes: Sequence[Outcome]) -> int:
    print(
        f"\n{'runner':12} {'passed':>7} {'failed':>7} {'skipped':>8} "
        f"{'seconds':>8}"
    )
    for each in outcomes:
        print(
            f"{each.runner:12} {each.passed:7} {each.failed:7} "
            f"{each.skipped:8} {each.seconds:8.0f}"
        )
    for each in outcomes:
        for skip in each.skips:
            print(f"skipped in {each.runner}: {skip}")
    passed = sum(each.passed for each in outcomes)
    failed = sum(each.failed for each in outcomes)
    skipped = sum(each.skipped for each in outcomes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named runners, or all, and return the exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    names = [runner.name for runner in RUNNERS]
    parser = argparse.ArgumentParser(prog="tools/test", description=__doc__)
    parser.add_argument(
        "runners",
        nargs="*",
        metavar="RUNNER",
        help=f"of {', '.join(names)}; all by default",
    )
    parser.add_argument(
        "--list", action="store_true", help="name the runners and end"
    )
    args = parser.parse_args(arguments)
    if args.list:
        print("\n".join(names))
        return 0
    if unknown := set(args.runners) - set(names):
        parser.error(f"no runner {', '.join(sorted(unknown))}")
    places = paths.Paths.from_environment()
    places.make()
    progress = Progress()
    with progress.step("tox"):
        tox = _tox(places.cache)
    return _report(
        _run_all(
            args.runners or names,
            lambda each: _run(each, tox, places.log, progress),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
