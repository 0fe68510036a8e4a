# SPDX-License-Identifier: Apache-2.0

"""A latency measurement of this host, tool by tool, under a load."""

import contextlib
import dataclasses
import math
import shutil
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.decide import power
from sriov_rt.facts import GuestCgroup
from sriov_rt.host import cgroup
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.partition import ISOLATED
from sriov_rt.verify import hotplug
from sriov_rt.verify import load as loads
from sriov_rt.verify import machine
from sriov_rt.verify import process
from sriov_rt.verify import validity
from sriov_rt.verify.errors import CpusOffline
from sriov_rt.verify.errors import NotIsolated
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.latency_tool import SLACK_S
from sriov_rt.verify.load import Load
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.profiles import Profile
from sriov_rt.verify.results import Result
from sriov_rt.verify.results import Results
from sriov_rt.verify.tools import TOOLS


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run.

    :param elapsed_s: time since the start of the step.
    :param duration_s: duration of the step.
    :param left_s: time until the end of the whole run.
    """

    tool: str
    elapsed_s: float
    duration_s: int
    left_s: float


def cpus_of(root: Root) -> Cpus:
    """Return the CPUs of a host that are measured.

    :raises NotIsolated: if none is isolated, or all are.
    """
    online = values.cpu_set(root, "sys/devices/system/cpu/online")
    isolated = values.cpu_set(root, "sys/devices/system/cpu/isolated")
    if isinstance(online, Unknown):
        raise NotIsolated(online.reason)
    if isinstance(isolated, Unknown):
        # If no CPU is isolated, Linux writes an empty line instead.
        raise NotIsolated(
            f"no CPU is isolated ({isolated.reason}); boot with isolcpus, "
            "see 'sriov-rt host check --fix-plan'"
        )
    measured = isolated & online
    hidden = cgroup.observe(root, CpuSet())
    if (
        not measured
        and isinstance(hidden, GuestCgroup)
        and hidden.partition == ISOLATED
    ):
        raise NotIsolated(
            f"CPUs {cpulist.format_cpu_list(hidden.cpus)} are isolated by "
            f"the partition {hidden.path}, and no program outside it can "
            "measure them; boot with isolcpus to measure"
        )
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


def check_online(
    root: Root, cpus: Cpus, nova_files: compute.Files = compute.FILES
) -> None:
    """Refuse to certify a host while Nova keeps pCPUs of guests offline.

    Guests would get pCPUs that were not measured.

    :param nova_files: Nova's configuration files below the root.
    :raises CpusOffline: if there are such pCPUs.
    """
    nova = compute.observe(root, nova_files)
    managed = power.managed(nova, power.CPU_STATE)
    if left := managed - cpus.measured - cpus.housekeeping:
        raise CpusOffline(cpulist.format_cpu_list(left))


def without_tracers(
    profile: Profile, root: Root
) -> tuple[Profile, tuple[str, ...]]:
    """Return a profile without the tools that the kernel cannot run.

    :returns: the profile, and a sentence for each tool that is left out.
    :raises RunFailed: if no tool is left.
    """
    left_out = {
        each.tool: why
        for each in profile.steps
        if (why := TOOLS[each.tool].unavailable(root))
    }
    said = tuple(
        f"{tool} is left out: {why}" for tool, why in left_out.items()
    )
    if left_out and len(left_out) == len(profile.steps):
        raise RunFailed("latency", "; ".join(said))
    return profile.without(left_out), said


def missing(profile: Profile, load: Load) -> Iterator[tuple[str, str]]:
    """Yield each program that has to be installed, and its package."""
    tools = [TOOLS[each.tool] for each in profile.steps]
    needed = [(each.program, each.package) for each in tools if each.program]
    for name, package in dict.fromkeys([*needed, *loads.programs(load)]):
        if shutil.which(name) is None:
            yield name, package


class LatencyRun:
    """Run of a profile; the result of each step is kept.

    :param progress: called about twice a second.
    :param since: when the last certificate was withdrawn, Unix time: older
        results are measured again.
    :param nova_files: see :func:`check_online`.
    :param bound_us: find the culprits of samples above this, µs; None to find
        none.
    """

    def __init__(
        self,
        root: Root,
        cpus: Cpus,
        load: Load,
        results: Results,
        progress: Callable[[Progress], object] | None = None,
        since: float = 0.0,
        nova_files: compute.Files = compute.FILES,
        bound_us: int | None = None,
    ) -> None:
        self._root = root
        self._bound_us = bound_us
        self._nova = compute.observe(root, nova_files)
        self._cpus = cpus
        self._load = load
        self._results = results
        self._progress = progress
        self._since = since

    def run(self, profile: Profile, *, resume: bool) -> list[Result]:
        """Return the result of each step.

        :param resume: reuse results that were measured in the same way and
            in the same boot.
        :raises RunFailed: if a tool can't be run; earlier results are kept.
        """
        found: list[Result] = []
        todo: list[Step] = []
        now = conditions.observe(self._root, self._nova, boot=True)
        for step in profile.steps:
            kept = self._results.get(step) if resume else None
            if kept is not None and self._counts(kept, step, now):
                found.append(kept)
            else:
                todo.append(step)
        whole = sum(each.duration_s + SLACK_S for each in todo)
        with self._loaded(whole) as ended:
            for number, step in enumerate(todo):
                left = sum(each.duration_s for each in todo[number + 1 :])
                result = self._step(step, left, ended)
                self._results.put(result)
                found.append(result)
                if INTERRUPTED in result.measurement.problems:
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
            and kept.measurement.started_at > self._since
        )

    def _step(
        self, step: Step, left_s: float, ended: Callable[[], list[str]]
    ) -> Result:
        hangs_on = conditions.observe(self._root, self._nova, boot=True)
        before = validity.now(self._root)

        def tick(elapsed: float) -> None:
            left = max(step.duration_s - elapsed, 0.0) + left_s
            if self._progress is not None:
                self._progress(
                    Progress(step.tool, elapsed, step.duration_s, left)
                )

        tool = TOOLS[step.tool](step, self._bound_us)
        ran = tool.run(self._cpus, self._root, tick)
        after = validity.now(self._root)
        measured = self._cpus.measured
        problems = [
            *ran.problems,
            *validity.clocks(before, after, measured),
            *ended(),
        ]
        if ran.interrupted:
            problems.insert(0, INTERRUPTED)
        return Result(
            step,
            self._load.name,
            hangs_on,
            emulated=conditions.emulated(self._root),
            machine=machine.observe(self._root),
            measurement=Measurement(
                tool=step.tool,
                version=ran.version,
                command=ran.command,
                started_at=before.realtime,
                duration_s=ran.duration_s,
                cpus=tuple(ran.cpus),
                problems=tuple(problems),
                culprits=ran.culprits,
            ),
        )

    @contextlib.contextmanager
    def _loaded(self, limit_s: float) -> Iterator[Callable[[], list[str]]]:
        """Run the load meanwhile; stop it with all of its workers.

        :param limit_s: seconds after which it ends by itself, in case this
            run is killed.
        :returns: a function that returns a sentence for each part of the
            load that has ended.
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
        """Run stress-ng meanwhile."""
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


INTERRUPTED = "it was interrupted before its end"

_UNLOADED = "the load (stress-ng) ended before it did"


def describe(cpus: Cpus) -> str:
    """Return which CPUs are measured and from which, as text."""
    return (
        f"CPUs {cpulist.format_cpu_list(cpus.measured)}, from "
        f"{cpulist.format_cpu_list(cpus.housekeeping)}"
    )
