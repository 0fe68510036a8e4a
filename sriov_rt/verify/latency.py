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

"""A latency measurement of this host, tool by tool, under a load."""

import contextlib
import dataclasses
import math
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host import conditions
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import cyclictest
from sriov_rt.verify import hotplug
from sriov_rt.verify import hwlat
from sriov_rt.verify import load as loads
from sriov_rt.verify import oslat
from sriov_rt.verify import process
from sriov_rt.verify import timerlat
from sriov_rt.verify import validity
from sriov_rt.verify.errors import NotIsolated
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.load import Load
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Tool
from sriov_rt.verify.profiles import Profile
from sriov_rt.verify.profiles import Step
from sriov_rt.verify.results import Result
from sriov_rt.verify.results import Results

#: Program and package of each tool; hwlat is the kernel's own.
PROGRAMS: Mapping[Tool, tuple[str, str]] = {
    Tool.CYCLICTEST: (cyclictest.TOOL, "rt-tests"),
    Tool.OSLAT: (oslat.TOOL, "rt-tests"),
    Tool.TIMERLAT: (timerlat.PROGRAM, "rtla"),
}

#: Where tracefs is, below the root.
TRACING = "sys/kernel/tracing"

#: Seconds that a tool may take on top of its duration.
_SLACK_S = 60.0

#: Seconds after the start at which the threads of a tool are looked at.
_SETTLED_S = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    :param tool: what runs.
    :param elapsed_s: for how long.
    :param duration_s: how long it will.
    :param left_s: until the end of the whole run.
    """

    tool: Tool
    elapsed_s: float
    duration_s: int
    left_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of a measurement.

    :param measured: the isolated ones that are online.
    :param housekeeping: those from which it is measured.
    """

    measured: CpuSet
    housekeeping: CpuSet


def cpus_of(root: Root) -> Cpus:
    """Return which CPUs of a host to measure.

    :raises NotIsolated: if none is isolated, or all are.
    """
    online = values.cpu_set(root, "sys/devices/system/cpu/online")
    isolated = values.cpu_set(root, "sys/devices/system/cpu/isolated")
    if isinstance(online, Unknown):
        raise NotIsolated(online.reason)
    if isinstance(isolated, Unknown):
        # Linux writes an empty line where none is.
        raise NotIsolated(
            f"no CPU is isolated ({isolated.reason}); boot with isolcpus, "
            "see 'sriov-rt host check --fix-plan'"
        )
    measured = isolated & online
    if not measured:
        raise NotIsolated(
            "no CPU is isolated; boot with isolcpus, see 'sriov-rt host "
            "check --fix-plan'"
        )
    if not online - isolated:
        raise NotIsolated(
            "all CPUs are isolated; leave one for housekeeping in isolcpus"
        )
    return Cpus(measured, online - isolated)


def missing(profile: Profile, load: Load) -> Iterator[tuple[str, str]]:
    """Yield each program that is wanted and not there, and its package."""
    wanted = [
        PROGRAMS[each.tool] for each in profile.steps if each.tool in PROGRAMS
    ]
    for name, package in dict.fromkeys([*wanted, *loads.programs(load)]):
        if shutil.which(name) is None:
            yield name, package


class LatencyRun:
    """Runs the steps of a profile, and keeps what each measured.

    :param progress: is called about twice a second.
    """

    def __init__(
        self,
        root: Root,
        cpus: Cpus,
        load: Load,
        results: Results,
        progress: Callable[[Progress], object] | None = None,
    ) -> None:
        self._root = root
        self._cpus = cpus
        self._load = load
        self._results = results
        self._progress = progress

    def run(self, profile: Profile, *, resume: bool) -> list[Result]:
        """Return a result of each step that was measured.

        :param resume: take what was measured before in the same way and in
            the same boot.
        :raises RunFailed: if a tool can't be run; what was measured before
            is kept.
        """
        found: list[Result] = []
        todo: list[Step] = []
        now = conditions.observe(self._root, boot=True)
        for step in profile.steps:
            kept = self._results.get(step) if resume else None
            if kept is not None and self._counts(kept, step, now):
                found.append(kept)
            else:
                todo.append(step)
        whole = sum(each.duration_s + _SLACK_S for each in todo)
        with self._loaded(whole) as ended:
            for number, step in enumerate(todo):
                left = sum(each.duration_s for each in todo[number + 1 :])
                result = self._step(step, left, ended)
                self._results.put(result)
                found.append(result)
                if _INTERRUPTED in result.measurement.problems:
                    break
        order = [each.tool for each in profile.steps]
        return sorted(found, key=lambda each: order.index(each.step.tool))

    def _counts(
        self, kept: Result, step: Step, now: Mapping[str, str]
    ) -> bool:
        return (
            kept.step == step
            and kept.load == self._load.name
            and kept.conditions == now
            and not kept.measurement.problems
        )

    def _step(
        self, step: Step, left_s: float, ended: Callable[[], list[str]]
    ) -> Result:
        hangs_on = conditions.observe(self._root, boot=True)
        before = validity.now(self._root)

        def tick(elapsed: float) -> None:
            rest = max(step.duration_s - elapsed, 0.0) + left_s
            if self._progress is not None:
                self._progress(
                    Progress(step.tool, elapsed, step.duration_s, rest)
                )

        if step.tool is Tool.HWLAT:
            ran = self._hwlat(step, tick)
        else:
            ran = self._program(step, tick)
        after = validity.now(self._root)
        measured = self._cpus.measured
        problems = [
            *ran.problems,
            *validity.clocks(before, after, measured),
            *ended(),
        ]
        if ran.interrupted:
            problems.insert(0, _INTERRUPTED)
        return Result(
            step,
            self._load.name,
            hangs_on,
            emulated=conditions.emulated(self._root),
            measurement=Measurement(
                tool=step.tool,
                version=ran.version,
                command=ran.command,
                started_at=before.realtime,
                duration_s=ran.duration_s,
                cpus=tuple(ran.cpus),
                problems=tuple(problems),
            ),
        )

    def _hwlat(self, step: Step, tick: Callable[[float], None]) -> "_Ran":
        began = time.monotonic()
        cpus, interrupted = hwlat.run(
            step, self._cpus.measured, self._root.path / TRACING, tick
        )
        release = self._root.read_text("proc/sys/kernel/osrelease")
        return _Ran(
            version=release.strip() if isinstance(release, str) else "",
            command=f"tracing_thresh={step.threshold_us} "
            f"width={hwlat.WIDTH_US} window={hwlat.WINDOW_US}",
            duration_s=time.monotonic() - began,
            cpus=cpus,
            interrupted=interrupted,
        )

    def _program(self, step: Step, tick: Callable[[float], None]) -> "_Ran":
        measured, housekeeping = self._cpus.measured, self._cpus.housekeeping
        maxima = cyclictest.Maxima(step.interval_us or 1)
        lines: list[bytes] = []
        refused: tuple[str, ...] = ()
        settled = step.tool not in _THREADS

        def ticked(pid: int, elapsed: float) -> None:
            nonlocal refused, settled
            # A busy host takes a while to start them.
            if not settled and elapsed > _SETTLED_S:
                refused = validity.threads(pid, measured, step.priority)
                settled = not refused
            tick(elapsed)

        with tempfile.TemporaryDirectory(prefix="sriov-rt-verify-") as place:
            output = pathlib.Path(place) / "output.json"
            command = _COMMANDS[step.tool](
                step, measured, housekeeping, str(output)
            )
            sink = {
                Tool.CYCLICTEST: maxima.feed,
                Tool.TIMERLAT: lines.extend,
            }.get(step.tool, _ignore)
            began = time.monotonic()
            ended = process.run(
                command,
                step.duration_s + _SLACK_S,
                sink,
                ticked,
                name=step.tool,
            )
            elapsed = time.monotonic() - began
            if ended.code != 0 and not ended.interrupted:
                raise RunFailed(step.tool, ended.last_line())
            document = b"\n".join(lines)
            if step.tool is not Tool.TIMERLAT:
                document = _document(output, ended)
        version, cpus, duration_s = _PARSERS[step.tool](document, maxima)
        duration_s = min(elapsed, duration_s or elapsed, step.duration_s)
        expected = 0
        if step.interval_us and not ended.interrupted:
            expected = math.floor(step.duration_s * 1e6 / step.interval_us)
        return _Ran(
            version=version,
            command=" ".join(command),
            duration_s=duration_s,
            cpus=cpus,
            interrupted=ended.interrupted,
            problems=(
                *refused,
                *validity.samples(cpus, measured, expected),
            ),
        )

    @contextlib.contextmanager
    def _loaded(self, limit_s: float) -> Iterator[Callable[[], list[str]]]:
        """Keep the load running; it is ended with all of its workers.

        :param limit_s: seconds after which it ends by itself, for a run that
            was killed.
        :returns: a sentence for each part of it that has ended.
        """
        parts = []
        with contextlib.ExitStack() as stack:
            if self._load.domain and limit_s:
                parts.append(
                    stack.enter_context(
                        hotplug.running(
                            self._load.domain, self._cpus.housekeeping, limit_s
                        )
                    )
                )
            if self._load.stressors and limit_s:
                parts.append(stack.enter_context(self._stressed(limit_s)))
            yield lambda: [why for each in parts if (why := each())]

    @contextlib.contextmanager
    def _stressed(self, limit_s: float) -> Iterator[Callable[[], str]]:
        """Keep stress-ng running."""
        # Not in /tmp, which may be memory: a disk is part of the load.
        self._results.directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix="load-", dir=self._results.directory
        ) as place:
            command = loads.command(
                self._load, self._cpus.housekeeping, place, math.ceil(limit_s)
            )
            with process.beside(command) as runs:
                yield lambda: "" if runs() else _UNLOADED


@dataclasses.dataclass(frozen=True, slots=True)
class _Ran:
    """What came of one tool."""

    version: str
    command: str
    duration_s: float
    cpus: Sequence[CpuLatency]
    interrupted: bool
    problems: tuple[str, ...] = ()


_INTERRUPTED = "it was interrupted before its end"

_UNLOADED = "the load (stress-ng) ended before it did"

#: Tools whose threads are looked at while they run.
_THREADS = (Tool.CYCLICTEST, Tool.OSLAT)

_COMMANDS = {
    Tool.CYCLICTEST: cyclictest.command,
    Tool.OSLAT: oslat.command,
    Tool.TIMERLAT: timerlat.command,
}

Parsed = tuple[str, list[CpuLatency], float]


def _cyclictest(document: bytes, maxima: cyclictest.Maxima) -> Parsed:
    return (*cyclictest.parse(document, maxima), 0.0)


_PARSERS: Mapping[Tool, Callable[[bytes, cyclictest.Maxima], Parsed]] = {
    Tool.CYCLICTEST: _cyclictest,
    Tool.OSLAT: lambda document, _: oslat.parse(document),
    Tool.TIMERLAT: lambda document, _: timerlat.parse(document),
}


def _ignore(lines: list[bytes]) -> None:
    """Pass over what a tool prints."""


def _document(path: pathlib.Path, ended: process.Ended) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise RunFailed(path.name, ended.last_line()) from None


def describe(cpus: Cpus) -> str:
    """Return which CPUs are measured from which."""
    return (
        f"CPUs {cpulist.format_cpu_list(cpus.measured)}, from "
        f"{cpulist.format_cpu_list(cpus.housekeeping)}"
    )
