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

Three lanes are under way at a time, and after them the cloud and the virtual
machine. Each of these emulates a machine, whose clock ticks while it waits for
a CPU: beside others it takes twice the CPU time, and all others several times
as long. What tox installs is installed ahead.
Runners of one bed, as of the cloud, follow each other in what was brought up
once. The benchmarks have the machine to themselves.
With ``--periodic`` everything is run. Without it the benchmarks and the tests
of tests/periodic.py are left out, and are named at the end.
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
import threading
import time
import venv
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
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
#: How many times its limit a runner has where everything is run.
_PATIENCE = 3
#: Seconds in which a runner that is ended may tidy up.
_GRACE = 60.0

#: Set where a bed that is up is for the next runner as well.
KEEP = "SRIOV_RT_KEEP"

#: The table that tests/benchmarks prints.
_BENCHMARK = re.compile(r"^\| .*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Runner:
    """One environment of tox.ini.

    :param name: the environment.
    :param counts: its tests are counted by stestr; otherwise the whole run
        is one check.
    :param limit: seconds after which it is ended in the gate.
    :param shown: lines of its output that are worth a reader's time.
    :param packages: Debian packages that it wants; the test beds install
        their own.
    :param periodic: whether it is left to the periodic run.
    """

    name: str
    counts: bool
    limit: float
    shown: re.Pattern[str] | None = None
    packages: tuple[str, ...] = ()
    periodic: bool = False


@dataclasses.dataclass(frozen=True)
class Bed:
    """What several runners share, and is taken away after the last.

    The environments of these in tox.ini bring it up if it isn't, and take
    it away unless ``SRIOV_RT_KEEP`` is set.

    :param down: the command that takes it away.
    :param state: what its state directory's name ends with.
    """

    down: tuple[str, ...]
    state: str

    def clear(self, log: pathlib.Path) -> None:
        """Take it away, if it is there."""
        state = paths.Paths.from_environment().state
        with log.open("ab") as sink:
            subprocess.run(
                (sys.executable, *self.down),
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, "SRIOV_RT_STATE": f"{state}{self.state}"},
            )


@dataclasses.dataclass(frozen=True)
class Lane:
    """Runners that follow each other.

    :param runners: in their order.
    :param bed: what they share; the first brings it up.
    """

    runners: tuple[Runner, ...]
    bed: Bed | None = None


#: For real containers and programs that Onload's stand-in is loaded into.
FUNCTIONAL = (
    "binutils",
    "busybox-static",
    "etcd-server",
    "gcc",
    "iproute2",
    "iputils-ping",
    "libc6-dev",
    "libvirt-clients",
    "libvirt-daemon-driver-lxc",
    "libvirt-daemon-driver-qemu",
    "libvirt-daemon-system",
    "lxc",
    "musl-tools",
    "openssl",
    "prometheus",
    "qemu-system-x86",
    "rabbitmq-server",
    "virtinst",
    "zsh",
)

#: The one cloud that is booted. Whatever runs in it is one more Runner here,
#: with an environment in tox.ini that begins and ends as that of "cloud".
CLOUD = Lane(
    (Runner("cloud", True, 4500),),
    Bed(("-m", "tests.testbed", "down"), "-cloud"),
)

#: The longest first, but for two that tell what is wrong at a glance. Their
#: environments are installed in this order as well.
LANES = (
    Lane((Runner("functional", True, 4200, packages=FUNCTIONAL),)),
    Lane((Runner("pep8", False, 900),)),
    Lane((Runner("mypy", False, 1800),)),
    Lane((Runner("unit", True, 2700),)),
    # Builds Kubernetes and NFD in an empty cache: 5 to 20 minutes.
    Lane((Runner("kubernetes", True, 2700),)),
    Lane((Runner("docs", False, 1800),)),
    # Makes a Debian to build them in, in an empty cache.
    Lane((Runner("packages", True, 2700),)),
    # Unit and functional once more, with another Python.
    Lane((Runner("debian13", True, 5400, periodic=True),)),
)

#: Those that emulate a machine, which begin when all of these have ended.
MACHINES = (CLOUD, Lane((Runner("vm", True, 4500),)))

#: What is run at the end, alone: it measures time.
ALONE = (
    Lane((Runner("benchmarks", False, 2400, _BENCHMARK, periodic=True),)),
)

#: Of LANES, those that are under way at a time: many tests wait often enough
#: to leave two cores some time for others.
_AT_ONCE = 3
#: Environments of tox that are installed at a time.
_INSTALLED_AT_ONCE = 2
#: Seconds after which an installation has failed.
_INSTALL_S = 1800.0

RUNNERS = tuple(
    runner for lane in (*LANES, *MACHINES, *ALONE) for runner in lane.runners
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


class Interrupted(Exception):
    """Ends a lane whose program was ended by Ctrl-C."""


class Children:
    """Programs that this run has started, each with a session of its own.

    So Ctrl-C at a terminal is not theirs: :meth:`end` passes it on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._has_ended = False

    def run(
        self,
        command: Sequence[str],
        sink: BinaryIO,
        limit: float,
        env: Mapping[str, str] = os.environ,
    ) -> int:
        """Run a program to its end, and return its exit code.

        :param limit: seconds after which it is ended.
        :raises TimeoutExpired: if it was.
        :raises Interrupted: if all are ended meanwhile.
        """
        with self._lock:
            if self._has_ended:
                raise Interrupted
            child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(child)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            _end([child])
            raise
        finally:
            with self._lock:
                self._running.discard(child)
        if self._has_ended:
            raise Interrupted
        return code

    def end(self) -> None:
        """End those that run, and start none any more."""
        with self._lock:
            self._has_ended = True
            running = [*self._running]
        _end(running)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """End programs, and what they have started, as Ctrl-C does at first."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        left = [each for each in children if each.poll() is None]
        for each in left:
            os.killpg(each.pid, number)
        until = time.monotonic() + _GRACE
        for each in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(max(until - time.monotonic(), 0.0))


class Environments:
    """The environments of tox, installed one after another beside the runners.

    :param tox: the program.
    :param logs: the directory of their outputs.
    :param names: of those that are wanted, in the order of their runners.
    :param children: what installs them is one of these.
    """

    def __init__(
        self,
        tox: pathlib.Path,
        logs: pathlib.Path,
        names: Sequence[str],
        children: Children,
    ) -> None:
        self._tox = tox
        self._logs = logs
        self._children = children
        pool = futures.ThreadPoolExecutor(_INSTALLED_AT_ONCE)
        self._installed = {
            name: pool.submit(self._install, name) for name in names
        }
        pool.shutdown(wait=False)

    def wait(self, name: str) -> bool:
        """Wait for one, and return whether it is installed.

        If it isn't, its runner tries again and tells why it can't be.
        """
        return self._installed[name].result()

    def _install(self, name: str) -> bool:
        with (
            (self._logs / f"tox-{name}.log").open("wb") as sink,
            contextlib.suppress(subprocess.TimeoutExpired),
        ):
            command = (str(self._tox), "run", "--notest", "-e", name)
            return self._children.run(command, sink, _INSTALL_S) == 0
        return False


@dataclasses.dataclass(frozen=True)
class Session:
    """What the runners of one run share.

    :param tox: the program.
    :param logs: the directory of their outputs.
    :param progress: where to say what goes on.
    :param deadline: when what still runs is ended, in monotonic seconds.
    :param environments: those of tox that are installed ahead.
    :param children: the runners are of these.
    """

    tox: pathlib.Path
    logs: pathlib.Path
    progress: Progress
    deadline: float
    environments: Environments
    children: Children

    def run(self, lane: Lane, names: Collection[str]) -> list[Outcome]:
        """Run a lane's runners of these names, and return what they found."""
        wanted = [each for each in lane.runners if each.name in names]
        if lane.bed is None or not wanted:
            return [self.one(each) for each in wanted]
        log = self.logs / f"test-{wanted[0].name}-bed.log"
        lane.bed.clear(log)
        try:
            return [self.one(each, kept=True) for each in wanted]
        finally:
            lane.bed.clear(log)

    def one(self, runner: Runner, *, kept: bool = False) -> Outcome:
        """Run one to its end, and print what is worth it.

        :param kept: whether the bed it runs in is there for others as well.
        """
        log = self.logs / f"test-{runner.name}.log"
        began = time.monotonic()
        packages.install(runner.packages, self.logs / "apt.log")
        command = [str(self.tox), "run", "-e", runner.name]
        if self.environments.wait(runner.name):
            command.append("--skip-pkg-install")
        with (
            self.progress.step(f"{runner.name} (log: {log})"),
            log.open("wb") as sink,
        ):
            code = self._run(runner, command, sink, kept=kept)
        output = log.read_text(errors="replace")
        passed, failed, skipped = _count(runner, code, output)
        if failed:
            print("\n".join(results.failures(output)), flush=True)
        elif runner.shown is not None:
            print("\n".join(runner.shown.findall(output)), flush=True)
        seconds = time.monotonic() - began
        skips = results.skips(output)
        return Outcome(runner.name, passed, failed, skipped, seconds, skips)

    def _run(
        self,
        runner: Runner,
        command: Sequence[str],
        sink: BinaryIO,
        *,
        kept: bool,
    ) -> int:
        left = max(self.deadline - time.monotonic(), 1.0)
        limit = runner.limit * (_PATIENCE if periodic.wanted() else 1)
        limit = min(limit, left)
        kept_up = {KEEP: "1"} if kept else {}
        try:
            return self.children.run(
                command, sink, limit, {**os.environ, **kept_up}
            )
        except subprocess.TimeoutExpired:
            print(f"{runner.name} is ended after {limit:.0f} s", flush=True)
            return -signal.SIGTERM


def run_all(
    names: Collection[str],
    run: Callable[[Lane, Collection[str]], list[Outcome]],
    end: Callable[[], None],
) -> list[Outcome]:
    """Run the named runners and return what they found, in their order.

    :param end: ends those that run, where this is interrupted.
    """
    found: list[Outcome] = []
    for lanes, at_once in (
        (LANES, _AT_ONCE),
        (MACHINES, len(MACHINES)),
        (ALONE, 1),
    ):
        with futures.ThreadPoolExecutor(at_once) as pool:
            try:
                for outcomes in pool.map(lambda lane: run(lane, names), lanes):
                    found += outcomes
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                end()
                raise
    return found


def report(
    outcomes: Sequence[Outcome], seconds: float, left_out: Sequence[str]
) -> int:
    """Print what was found, and return the exit code.

    :param seconds: that all of it took.
    :param left_out: runners that were.
    """
    print(
        f"\n{'runner':12} {'passed':>7} {'failed':>7} {'skipped':>8} "
        f"{'seconds':>8}"
    )
    for each in outcomes:
        print(
            f"{each.runner:12} {each.passed:7} {each.failed:7} "
            f"{each.skipped:8} {each.seconds:8.0f}"
        )
    print(f"{'in all':37} {seconds:8.0f}")
    _print_what_was_not_run(outcomes, left_out)
    passed = sum(each.passed for each in outcomes)
    failed = sum(each.failed for each in outcomes)
    skipped = sum(each.skipped for each in outcomes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def _print_what_was_not_run(
    outcomes: Sequence[Outcome], left_out: Sequence[str]
) -> None:
    """Name each test that was skipped, and what the periodic run has."""
    later = list(left_out)
    for each in outcomes:
        for skip in each.skips:
            name, _, reason = skip.partition(": ")
            if reason == periodic.REASON:
                later.append(f"{each.runner}: {name}")
            else:
                print(f"skipped in {each.runner}: {skip}")
    if later:
        print("left to tools/test --periodic:")
    for name in later:
        print(f"  {name}")


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
        help="run what takes long, too: about four hours on two CPUs",
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
    began = time.monotonic()
    deadline = math.inf if periodic.wanted() else began + _WHOLE
    later = {each.name for each in RUNNERS if each.periodic}
    if args.runners or periodic.wanted():
        later = set()
    progress = Progress()
    with progress.step("tox"):
        tox = _tox(places.cache)
    chosen = args.runners or set(names) - later
    children = Children()
    environments = Environments(
        tox, places.log, [each for each in names if each in chosen], children
    )
    session = Session(
        tox, places.log, progress, deadline, environments, children
    )
    try:
        outcomes = run_all(chosen, session.run, children.end)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return report(outcomes, time.monotonic() - began, sorted(later))


if __name__ == "__main__":
    sys.exit(main())
