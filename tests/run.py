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

The cloud is tested beside the virtual machine, each of which mostly emulates
one CPU; the benchmarks have the machine to themselves. With ``--periodic``
each test and each benchmark is run, without it those of tests/periodic.py are
skipped.
"""

import argparse
import contextlib
import dataclasses
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from concurrent import futures
from typing import BinaryIO

from tests import periodic
from tests import results
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.progress import Progress

#: The release of tox that runs the environments of tox.ini.
TOX = "tox>=4.27,<5"

#: Seconds after which what still runs is ended, so that it is told what was
#: too slow: CI ends all at 5400 and shows nothing.
_WHOLE = 4900.0
#: Seconds in which a runner that is ended may tidy up.
_GRACE = 60.0

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
    :param brief: arguments that shorten it where the run is not periodic.
    """

    name: str
    counts: bool
    limit: float
    shown: re.Pattern[str] | None = None
    packages: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()


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
            Runner("functional", True, 1500, packages=_FUNCTIONAL),
            Runner("cloud", True, 4500),
        ),
        (
            Runner("pep8", False, 300),
            Runner("mypy", False, 600),
            # Builds Kubernetes and NFD in an empty cache: 5 to 20 minutes.
            # The cloud and the benchmarks use the same programs.
            Runner("kubernetes", True, 2700),
            Runner("vm", True, 4500),
            Runner("unit", True, 900),
            Runner("docs", False, 600),
        ),
    ),
    (
        (
            Runner(
                "benchmarks",
                False,
                1500,
                _BENCHMARK,
                brief=("--without-machine",),
            ),
        ),
    ),
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
    passed, failed, skipped = results.totals(output)
    if not failed and (code != 0 or not passed):
        # It ended before its tests did, or ran none: that is a failure too.
        failed = 1
    return passed, failed, skipped


@dataclasses.dataclass(frozen=True)
class Session:
    """What the runners of one run share.

    :param tox: the program.
    :param logs: the directory of their outputs.
    :param progress: where to say what goes on.
    :param deadline: when what still runs is ended, in monotonic seconds.
    """

    tox: pathlib.Path
    logs: pathlib.Path
    progress: Progress
    deadline: float

    def run(self, runner: Runner) -> Outcome:
        """Run one to its end, and print what is worth it."""
        log = self.logs / f"test-{runner.name}.log"
        began = time.monotonic()
        packages.install(runner.packages, self.logs / "apt.log")
        with (
            self.progress.step(f"{runner.name} (log: {log})"),
            log.open("wb") as sink,
        ):
            code = self._run(runner, sink)
        output = log.read_text(errors="replace")
        passed, failed, skipped = _count(runner, code, output)
        if failed:
            print("\n".join(results.failures(output)), flush=True)
        elif runner.shown is not None:
            print("\n".join(runner.shown.findall(output)), flush=True)
        seconds = time.monotonic() - began
        skips = results.skips(output)
        return Outcome(runner.name, passed, failed, skipped, seconds, skips)

    def _run(self, runner: Runner, sink: BinaryIO) -> int:
        left = max(self.deadline - time.monotonic(), 1.0)
        limit = min(runner.limit, left)
        short = runner.brief and not periodic.wanted()
        arguments = ("--", *runner.brief) if short else ()
        child = subprocess.Popen(
            (self.tox, "run", "-e", runner.name, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            print(f"{runner.name} is ended after {limit:.0f} s", flush=True)
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(_GRACE)
        raise AssertionError("SIGKILL ends what it is sent to")


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
    parser.add_argument(
        "--periodic",
        action="store_true",
        help="run what takes long, too: more than an hour",
    )
    args = parser.parse_args(arguments)
    if args.periodic:
        os.environ[periodic.VARIABLE] = "1"
    if args.list:
        print("\n".join(names))
        return 0
    if unknown := set(args.runners) - set(names):
        parser.error(f"no runner {', '.join(sorted(unknown))}")
    places = paths.Paths.from_environment()
    places.make()
    deadline = time.monotonic() + _WHOLE
    if periodic.wanted():
        deadline = math.inf
    progress = Progress()
    with progress.step("tox"):
        tox = _tox(places.cache)
    return _report(
        _run_all(
            args.runners or names,
            Session(tox, places.log, progress, deadline).run,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
