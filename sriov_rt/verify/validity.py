# SPDX-License-Identifier: Apache-2.0

"""Checks of a measurement's validity."""

import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify.measurement import CpuLatency

#: The least part of the expected samples: fewer mean that the CPU stalled.
MIN_SAMPLES = 0.99

#: How far the clocks may differ after a measurement: by this part of its
#: duration (NTP slews at most 500 ppm) and these seconds; a step is more.
_DRIFT = 1e-3
_STEP_S = 0.05

#: Field of steal time in a cpuN line of /proc/stat, man 5 proc.
_STEAL = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """The clocks and the steal time of a host at one moment.

    :param monotonic: CLOCK_MONOTONIC, which stops while the host is suspended.
    :param boottime: CLOCK_BOOTTIME, which does not.
    :param realtime: CLOCK_REALTIME.
    :param steal: steal time of each CPU, in ticks of USER_HZ.
    """

    monotonic: float
    boottime: float
    realtime: float
    steal: dict[int, int]


def now(root: Root) -> Moment:
    """Return the present moment."""
    return Moment(
        time.clock_gettime(time.CLOCK_MONOTONIC),
        time.clock_gettime(time.CLOCK_BOOTTIME),
        time.clock_gettime(time.CLOCK_REALTIME),
        _steal(root),
    )


def clocks(before: Moment, after: Moment, cpus: CpuSet) -> Iterator[str]:
    """Yield each event that invalidates a measurement, a sentence each.

    :param cpus: the measured CPUs.
    """
    elapsed = after.monotonic - before.monotonic
    slept = after.boottime - before.boottime - elapsed
    if slept > _STEP_S:
        yield f"the host was suspended for {slept:.1f} s"
        elapsed += slept
    step = after.realtime - before.realtime - elapsed
    if abs(step) > _STEP_S + _DRIFT * elapsed:
        yield f"the clock was set by {step:+.1f} s"
    stolen = [
        cpu
        for cpu in sorted(cpus)
        if after.steal.get(cpu, 0) > before.steal.get(cpu, 0)
    ]
    if stolen:
        listed = ", ".join(map(str, stolen))
        yield f"the hypervisor took time from CPU {listed} (steal time)"


def samples(
    found: Sequence[CpuLatency], cpus: CpuSet, expected: int
) -> Iterator[str]:
    """Yield which CPUs have too few samples, a sentence each.

    :param expected: samples that each CPU had time for; 0 to skip the check.
    """
    missing = cpus - {each.cpu for each in found}
    if missing:
        listed = ", ".join(map(str, sorted(missing)))
        yield f"CPU {listed} was not measured"
    for each in found:
        if each.cpu not in cpus:
            yield f"CPU {each.cpu} was measured in place of another"
        elif each.samples < MIN_SAMPLES * expected:
            share = 100 * each.samples / expected
            yield (
                f"CPU {each.cpu} has {each.samples} of {expected} samples "
                f"({share:.1f} %): it stalled, or the tool was stopped"
            )


def threads(pid: int, cpus: CpuSet, priority: int) -> tuple[str, ...]:
    """Return what is wrong with the threads of a running tool.

    :param cpus: each of these CPUs needs a thread of its own.
    :param priority: priority that the threads need under SCHED_FIFO.
    """
    alone = set()
    for name in _tasks(pid):
        try:
            tid = int(name)
            if os.sched_getscheduler(tid) != os.SCHED_FIFO:
                continue
            if os.sched_getparam(tid).sched_priority != priority:
                continue
            allowed = os.sched_getaffinity(tid)
        except (OSError, ValueError):
            continue
        if len(allowed) == 1:
            alone |= allowed
    without = ", ".join(map(str, sorted(cpus - alone)))
    if not without:
        return ()
    return (
        f"CPU {without} has no thread under SCHED_FIFO {priority} of its "
        "own: realtime scheduling or the affinity was refused",
    )


def _tasks(pid: int) -> list[str]:
    try:
        return [
            each.name for each in pathlib.Path(f"/proc/{pid}/task").iterdir()
        ]
    except OSError:
        return []


def _steal(root: Root) -> dict[int, int]:
    text = root.read_text("proc/stat", limit=16 * 1024 * 1024)
    if isinstance(text, Unknown):
        return {}
    found = {}
    for line in text.splitlines():
        name, *fields = line.split()[: _STEAL + 1] or [""]
        number = name.removeprefix("cpu")
        if name == number or not number.isdigit():
            continue
        if len(fields) == _STEAL and fields[-1].isdigit():
            found[int(number)] = int(fields[-1])
    return found
