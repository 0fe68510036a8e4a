# SPDX-License-Identifier: Apache-2.0

"""Run the runners of the project and sum up what they found.

``tools/test`` starts this. Each runner's whole output is in its log; the
last line is ``N passed, N failed, N skipped`` over all of them.

``quick``
    Lint, types and the unit tests, but for those that are slow
    (tests/periodic.py): before each commit.
``--touched [REV]``
    ``quick``, and of the other runners the tests that what changed since REV
    needs (tests/touched.py).
nothing, or names of runners
    The gate, or these of its runners. Two lanes are under way at a time, and
    the cloud beside them from the start. It emulates a machine, whose clock
    ticks while it waits for a CPU: the lanes are nice to it. The other
    emulated machine begins when the cloud or the lanes have ended.
``--periodic [PART]``
    What the gate leaves out and names at its end, in parts (tests/parts.py).

What runs in the environment of tests/environments.py builds nothing; tox
installs the others ahead. Runners of one bed, as of the cloud, follow each
other in what was brought up once.
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

from tests import durations
from tests import environments
from tests import parts
from tests import periodic
from tests import results
from tests import touched
from tests.children import Children
from tests.testbed import errors
from tests.testbed import packages
from tests.testbed import paths
from tests.testbed.progress import Progress

#: The release of tox that runs the other environments of tox.ini.
TOX = "tox>=4.27,<5"

#: Seconds after which all runners are stopped, so that the slow ones are
#: reported: CI stops everything at 5400 s and shows nothing.
_WHOLE = 4900.0
#: Factor for a runner's limit when everything is run.
_PATIENCE = 3

#: Set if a bed stays up for the next runner.
KEEP = "SRIOV_RT_KEEP"

#: The table that tests/benchmarks prints.
_BENCHMARK = re.compile(r"^\| .*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Runner:
    """One environment of tox.ini.

    :param name: the environment.
    :param counts: whether stestr counts its tests; otherwise the whole run
        is one check.
    :param limit: seconds after which it is stopped in the gate.
    :param shown: pattern for lines of its output that are printed.
    :param packages: Debian packages that it needs; the test beds install
        their own.
    :param releases: releases of OpenStack whose environments it needs.
    :param periodic: whether it is left to the periodic run.
    """

    name: str
    counts: bool
    limit: float
    shown: re.Pattern[str] | None = None
    packages: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    periodic: bool = False


@dataclasses.dataclass(frozen=True)
class Bed:
    """A test bed that several runners share; the last one removes it.

    Their environments in tox.ini bring it up if it isn't up, and take it
    down unless ``SRIOV_RT_KEEP`` is set.

    :param down: the command that takes it down.
    :param state: suffix of its state directory's name.
    """

    down: tuple[str, ...]
    state: str

    def clear(self, log: pathlib.Path) -> None:
        """Take it down, if it is up."""
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
    """Runners that run one after the other.

    :param runners: the runners in their order.
    :param bed: bed that they share; the first brings it up.
    """

    runners: tuple[Runner, ...]
    bed: Bed | None = None


#: Packages for real containers and for programs that load Onload's stand-in.
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
    "udev",
    "virtinst",
    "zsh",
)

#: The one cloud that is booted. Anything that runs in it is another Runner
#: here, with an environment in tox.ini that begins and ends like "cloud".
CLOUD = Lane(
    (
        Runner("cloud", True, 4500),
        Runner("tempest", True, 4500),
        Runner("cluster", True, 4500, periodic=True),
    ),
    Bed(("-m", "tests.testbed", "down"), "-cloud"),
)

#: Two lanes that show faults quickly come first, then the longest ones. The
#: oldest release's environment, which an empty cache lacks, is made meanwhile.
LANES = (
    Lane((Runner("pep8", False, 900),)),
    Lane((Runner("mypy", False, 1800),)),
    Lane((Runner("unit", True, 2700),)),
    Lane(
        (
            Runner(
                *("functional", True, 4200),
                packages=FUNCTIONAL,
                releases=("2025.2",),
            ),
        )
    ),
    # Builds Kubernetes and NFD if the cache is empty: 5 to 20 minutes.
    Lane((Runner("kubernetes", True, 2700),)),
    # Makes a Debian to build them in, if the cache is empty.
    Lane((Runner("packages", True, 2700),)),
    Lane((Runner("docs", False, 1800),)),
    # Unit and functional once more, with another Python.
    Lane((Runner("debian13", True, 5400, periodic=True),)),
)

#: It emulates a machine as the cloud does, and begins when either the cloud
#: or all of LANES have ended.
VM = Lane((Runner("vm", True, 4500),))

#: Runners that measure time, so that they run alone at the end.
ALONE = (
    Lane((Runner("benchmarks", False, 2400, _BENCHMARK, periodic=True),)),
)

#: Number of LANES that run at the same time.
_AT_ONCE = 2
#: Prefix of the LANES' commands, which yield to the cloud's emulated machine.
_NICE = ("nice", "-n", "10")
#: Number of environments that are installed at the same time.
_INSTALLED_AT_ONCE = 2
#: Seconds after which an installation has failed.
_INSTALL_S = 1800.0

RUNNERS = tuple(
    runner for lane in (*LANES, CLOUD, VM, *ALONE) for runner in lane.runners
)

#: What ``tools/test quick`` runs: no tests of the test bed.
QUICK: Mapping[str, Sequence[str]] = {
    "pep8": (),
    "mypy": (),
    "unit": ("--exclude-regex", r"^tests\.unit\.testbed\."),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Results of a runner, and how long it took in seconds."""

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
        # It ended before its tests did, or ran none: that is a failure, too.
        failed = 1
    return passed, failed, skipped


class Ahead:
    """Environments that are installed beside the runners.

    :param logs: the directory of their outputs.
    :param runners: runners that need environments, in their order.
    :param tox: the program, if it runs one of them.
    :param children: starts the installers.
    :param progress: shows progress.
    """

    def __init__(
        self,
        logs: pathlib.Path,
        runners: Sequence[Runner],
        tox: pathlib.Path | None,
        children: Children,
        progress: Progress,
    ) -> None:
        self._logs = logs
        self._children = children
        self._progress = progress
        commands: dict[str, tuple[str, ...]] = {}
        for each in runners:
            if each.name in environments.SHARED:
                module = ("-m", "tests.environments")
                commands["checks"] = (sys.executable, *module)
            else:
                command = ("run", "--notest", "-e", each.name)
                commands[each.name] = (str(tox), *command)
        for name in sorted({r for each in runners for r in each.releases}):
            commands[name] = (sys.executable, "-m", "tests.releases", name)
        pool = futures.ThreadPoolExecutor(_INSTALLED_AT_ONCE)
        self._installed = {
            name: pool.submit(self._install, name, command)
            for name, command in commands.items()
        }
        pool.shutdown(wait=False)

    def wait(self, runner: Runner) -> bool:
        """Wait for a runner's environments; return whether it has its own.

        If it hasn't, it tries again and reports why that can't be installed.
        """
        for name in runner.releases:
            self._installed[name].result()
        is_shared = runner.name in environments.SHARED
        name = "checks" if is_shared else runner.name
        return self._installed[name].result()

    def _install(self, name: str, command: Sequence[str]) -> bool:
        log = self._logs / f"install-{name}.log"
        with (
            log.open("wb") as sink,
            contextlib.suppress(subprocess.TimeoutExpired),
            self._progress.step(f"environment {name} (log: {log})"),
        ):
            return self._children.run(command, sink, _INSTALL_S) == 0
        return False


@dataclasses.dataclass(frozen=True)
class Session:
    """Settings and programs that all runners of a run share.

    :param logs: the directory of their outputs.
    :param progress: shows progress.
    :param deadline: when remaining runners are stopped, in monotonic seconds.
    :param ahead: environments that are installed ahead.
    :param children: starts the runners.
    :param tox: the program, if it runs a runner.
    :param only: patterns for names of tests, by runner; all tests by default.
    :param nice: prefix of the LANES' commands.
    """

    logs: pathlib.Path
    progress: Progress
    deadline: float
    ahead: Ahead
    children: Children
    tox: pathlib.Path | None = None
    only: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    nice: tuple[str, ...] = ()

    def run(self, lane: Lane, names: Collection[str]) -> list[Outcome]:
        """Run a lane's runners of these names, and return their outcomes."""
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
        """Run one to its end, and print the important lines.

        :param kept: whether its bed is kept for other runners.
        """
        log = self.logs / f"test-{runner.name}.log"
        began = time.monotonic()
        if runner.packages:
            packages.install(runner.packages, self.logs / "apt.log")
        is_installed = self.ahead.wait(runner)
        with self.progress.step(f"{runner.name} (log: {log})"):
            code = self._run(runner, log, kept=kept, is_installed=is_installed)
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
        log: pathlib.Path,
        *,
        kept: bool,
        is_installed: bool,
    ) -> int:
        left = max(self.deadline - time.monotonic(), 1.0)
        limit = runner.limit * (_PATIENCE if periodic.wanted() else 1)
        limit = min(limit, left)
        until = time.monotonic() + limit
        code = 0
        with log.open("wb") as sink:
            try:
                commands, variables = self._commands(
                    runner, is_installed=is_installed
                )
                if kept:
                    variables = {**variables, KEEP: "1"}
                for each in commands:
                    rest = max(until - time.monotonic(), 1.0)
                    done = self.children.run(each, sink, rest, variables)
                    code = code or done
            except subprocess.TimeoutExpired:
                print(
                    f"{runner.name} is ended after {limit:.0f} s", flush=True
                )
                return -signal.SIGTERM
            except errors.TestbedError as error:
                sink.write(f"{error}\n".encode())
                return 1
        return code

    def _commands(
        self, runner: Runner, *, is_installed: bool
    ) -> tuple[list[list[str]], Mapping[str, str]]:
        """Return the commands of a runner, and their environment.

        :raises errors.TestbedError: if a requirement can't be installed.
        """
        only = self.only.get(runner.name, ())
        if runner.name in environments.SHARED:
            checks = environments.checks()
            found = checks.commands(runner.name, only)
            variables = checks.variables(os.environ)
        else:
            command = [str(self.tox), "run", "-e", runner.name]
            if is_installed:
                command.append("--skip-pkg-install")
            if only:
                command += ("--", *only)
            found, variables = [command], os.environ
        is_lane = any(runner in lane.runners for lane in LANES)
        nice = self.nice if is_lane else ()
        return [[*nice, *each] for each in found], variables


def run_all(
    names: Collection[str],
    run: Callable[[Lane, Collection[str]], list[Outcome]],
    end: Callable[[], None],
) -> list[Outcome]:
    """Run the named runners and return their outcomes, in order.

    :param end: stops running ones if this is interrupted.
    """
    may_begin, is_over = threading.Event(), threading.Event()

    def run_second() -> list[Outcome]:
        may_begin.wait()
        return [] if is_over.is_set() else run(VM, names)

    def stop() -> None:
        is_over.set()
        end()

    with futures.ThreadPoolExecutor(2) as machines:
        cloud = machines.submit(run, CLOUD, names)
        cloud.add_done_callback(lambda _: may_begin.set())
        second = machines.submit(run_second)
        try:
            found = _run_lanes(LANES, _AT_ONCE, names, run, stop)
            may_begin.set()
            found += cloud.result() + second.result()
        except BaseException:
            stop()
            may_begin.set()
            raise
    found += _run_lanes(ALONE, 1, names, run, end)
    order = [each.name for each in RUNNERS]
    return sorted(found, key=lambda each: order.index(each.runner))


def _run_lanes(
    lanes: Sequence[Lane],
    at_once: int,
    names: Collection[str],
    run: Callable[[Lane, Collection[str]], list[Outcome]],
    end: Callable[[], None],
) -> list[Outcome]:
    """Run lanes, some at a time; stop all if one raises an error."""
    with futures.ThreadPoolExecutor(at_once) as pool:
        try:
            ended = pool.map(lambda lane: run(lane, names), lanes)
            return [each for outcomes in ended for each in outcomes]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end()
            raise


def report(
    outcomes: Sequence[Outcome],
    seconds: float,
    later: Sequence[str],
    left_out: Sequence[str] = (),
) -> int:
    """Print the results, and return the exit code.

    :param seconds: time that the whole run took.
    :param later: runners that are left to the periodic run.
    :param left_out: other things that were not run.
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
    _print_what_was_not_run(outcomes, later)
    for name in left_out:
        print(f"left out: {name}")
    passed = sum(each.passed for each in outcomes)
    failed = sum(each.failed for each in outcomes)
    skipped = sum(each.skipped for each in outcomes)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def _print_what_was_not_run(
    outcomes: Sequence[Outcome], runners: Sequence[str]
) -> None:
    """Print each skipped test, and what is left to the periodic run."""
    later = list(runners)
    slow = 0
    for each in outcomes:
        for skip in each.skips:
            name, _, reason = skip.partition(": ")
            if reason == periodic.REASON:
                later.append(f"{each.runner}: {name}")
            elif reason == periodic.SLOW_REASON:
                slow += 1
            else:
                print(f"skipped in {each.runner}: {skip}")
    if slow:
        print(f"left to tools/test: {slow} slow ones, and the test bed's own")
    if later:
        print("left to tools/test --periodic:")
    for name in later:
        print(f"  {name}")


@dataclasses.dataclass(frozen=True)
class Plan:
    """Plan of one run of this program.

    :param name: its name, under which its duration is kept.
    :param runners: patterns for names of tests, by runner; all its tests if
        there are none.
    :param later: runners that it leaves to the periodic run.
    :param left_out: other things that it leaves out.
    :param quick: whether slow tests are left out.
    :param whole: whether tests of the periodic run belong to it.
    """

    name: str
    runners: Mapping[str, Sequence[str]]
    later: Sequence[str] = ()
    left_out: Sequence[str] = ()
    quick: bool = False
    whole: bool = False

    def say(self) -> None:
        """Print the plan."""
        for name, only in self.runners.items():
            print(" ".join((name, *only)))
        for each in (*self.later, *self.left_out):
            print(f"left out: {each}")


def plans(args: argparse.Namespace) -> list[Plan]:
    """Return the plans that the command line requests.

    :raises errors.TestbedError: if it names something unknown.
    """
    if args.periodic:
        return [
            Plan(f"part {each.name}", {each.runner: each.only}, whole=True)
            for each in parts.named(args.names)
        ]
    if args.touched is not None:
        found = touched.since(args.touched)
        return [
            Plan("quick", QUICK, quick=True),
            Plan("touched", found.runners, left_out=found.left_out),
        ]
    if args.names == ["quick"]:
        return [Plan("quick", QUICK, quick=True)]
    known = {each.name: each for each in RUNNERS}
    if unknown := set(args.names) - set(known):
        raise errors.TestbedError(f"no runner {', '.join(sorted(unknown))}")
    if args.names:
        wanted: dict[str, Sequence[str]] = dict.fromkeys(args.names, ())
        return [Plan(" ".join(args.names), wanted, whole=periodic.wanted())]
    later = [each.name for each in RUNNERS if each.periodic]
    gate: dict[str, Sequence[str]] = {
        name: () for name in known if name not in later
    }
    return [Plan("gate", gate, later)]


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``tools/test``."""
    found = argparse.ArgumentParser(
        prog="tools/test",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="quick, or runners (all by default), or parts with --periodic",
    )
    found.add_argument(
        "--list",
        action="store_true",
        help="name the runners and the parts, with their last durations",
    )
    found.add_argument(
        "--periodic",
        action="store_true",
        help="run these parts of what the gate leaves out; all by default",
    )
    found.add_argument(
        "--touched",
        nargs="?",
        const="",
        metavar="REV",
        help="run what the change since REV needs, uncommitted and new files "
        "included (by default since it left its upstream or main)",
    )
    found.add_argument(
        "--dry-run", action="store_true", help="print what would be run"
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested plans, and return the exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    options = parser()
    args = options.parse_args(arguments)
    if args.list:
        _list()
        return 0
    try:
        wanted = plans(args)
    except errors.TestbedError as error:
        options.error(str(error))
    if args.dry_run:
        for each in wanted:
            each.say()
        return 0
    # A shell without job control has what it starts in the background ignore
    # SIGINT, and so would all that tests start and then interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        for each in wanted:
            outcomes += run_plan(each)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except errors.TestbedError as error:
        print(f"tools/test: {error}", file=sys.stderr)
        return 1
    return report(
        outcomes,
        time.monotonic() - began,
        [name for each in wanted for name in each.later],
        [name for each in wanted for name in each.left_out],
    )


def run_plan(plan: Plan) -> list[Outcome]:
    """Run a plan, and return the outcomes of its runners.

    :raises errors.TestbedError: if a requirement can't be installed.
    """
    for variable, is_set in (
        (periodic.VARIABLE, plan.whole),
        (periodic.QUICK, plan.quick),
    ):
        os.environ.pop(variable, None)
        if is_set:
            os.environ[variable] = "1"
    places = paths.Paths.from_environment()
    logs = places.log
    if plan.quick:
        # The user may write there, and other checkouts use other directories.
        logs = paths.CHECKOUT / ".tox/log"
        logs.mkdir(parents=True, exist_ok=True)
    else:
        places.make()
    began = time.monotonic()
    deadline = math.inf if plan.whole else began + _WHOLE
    progress = Progress()
    wanted = [each for each in RUNNERS if each.name in plan.runners]
    tox = None
    if any(each.name not in environments.SHARED for each in wanted):
        with progress.step("tox"):
            tox = _tox(places.cache)
    children = Children()
    machines = {each.name for each in (*CLOUD.runners, *VM.runners)}
    session = Session(
        logs,
        progress,
        deadline,
        Ahead(logs, wanted, tox, children, progress),
        children,
        tox,
        plan.runners,
        _NICE if machines & plan.runners.keys() else (),
    )
    outcomes = run_all(plan.runners, session.run, children.end)
    durations.keep(
        plan.name,
        time.monotonic() - began,
        failed=sum(each.failed for each in outcomes),
    )
    return outcomes


def _list() -> None:
    """Print what can be run, and how long each took last time."""
    print("runners:")
    for each in RUNNERS:
        print(f"  {each.name}")
    print("parts of --periodic:")
    for part in parts.PARTS:
        last = durations.last(f"part {part.name}")
        print(f"  {part.name:24} {last:28} {part.what}")
    for name in ("quick", "gate"):
        print(f"{name}: {durations.last(name)}")


if __name__ == "__main__":
    sys.exit(main())
