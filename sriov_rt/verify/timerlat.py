# SPDX-License-Identifier: Apache-2.0

"""rtla timerlat: the kernel's own latencies of a timer's IRQ and thread.

rtla prints a table, not JSON: a row for each bucket, then ``count`` (all
samples, including those above the last bucket) and ``max``. Each CPU has a
column for the interrupt and one for the thread. Later versions use threads of
user space if the kernel has timerlat_fd (from 6.5 on), and have a third
column: the return to user space, which is what a program sees.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import tempfile
from collections.abc import Callable

from sriov_rt.facts.culprit import Culprit
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import blame
from sriov_rt.verify import process
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.latency_tool import SLACK_S
from sriov_rt.verify.latency_tool import Parsed
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.latency_tool import Run
from sriov_rt.verify.measurement import MAX_BUCKETS
from sriov_rt.verify.measurement import MAX_LATENCY_US
from sriov_rt.verify.measurement import MAX_SAMPLES
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus

TOOL = "timerlat"

_COLUMN = re.compile(r"(IRQ|Thr|Usr)-(\d{1,5})")

#: The columns of each CPU: the last one is used.
_KINDS = (("IRQ", "Thr", "Usr"), ("IRQ", "Thr"))

#: The totals that are read; later versions have decimals in "avg:".
_TOTALS = ("count:", "max:")

_ACTION = "--on-threshold"

#: The option without auto-analysis, of an rtla that has one.
_ANALYSIS = "--no-aa"

#: The line that the command run by rtla prints.
_MARK = b"sriov-rt-breach"

#: rtla's default file for its trace, in its working directory, and how much
#: of its end is read, in bytes.
_TRACE = "timerlat_trace.txt"
_MAX_TRACE = 64 * 1024 * 1024

#: The longest output of a run that stops, in bytes.
_MAX_TABLE = 1024 * 1024

#: Seconds to wait for another sample above the bound.
AGAIN_S = 60

#: The longest help that is read, in bytes, and the seconds that it may take.
_MAX_HELP = 64 * 1024
_HELP_S = 10.0

#: The most lines that are read: buckets and a few more.
_MAX_LINES = MAX_BUCKETS + 100


class Timerlat(ProgramTool):
    """One run of rtla's timerlat."""

    name = TOOL
    measures = "the interrupt of a timer and the wake-up of its thread"
    program = "rtla"
    package = "rtla"
    tracer = TOOL
    writes_file = False
    interval_us = 1000

    def command(self, cpus: Cpus, output: str = "") -> tuple[str, ...]:
        """Return the command line.

        rtla has no option for the housekeeping CPUs; taskset does it.

        :param output: not used: rtla prints to standard output.
        """
        step = self.step
        return (
            "taskset",
            "--cpu-list",
            cpulist.format_cpu_list(cpus.housekeeping),
            self.program,
            TOOL,
            "hist",
            f"--cpus={cpulist.format_cpu_list(cpus.measured)}",
            f"--period={step.interval_us}",
            f"--priority=f:{step.priority}",
            f"--duration={step.duration_s}s",
            "--bucket-size=1",
            f"--entries={step.buckets}",
        )

    def run(
        self, cpus: Cpus, root: Root, tick: Callable[[float], object]
    ) -> Run:
        """Measure once, and then look for the culprit of the worst sample.

        The table does not say when that was, so this waits for another one.
        """
        ran = super().run(cpus, root, tick)
        if not ran.culprits or self.bound_us is None or ran.interrupted:
            return ran
        worst = max(ran.culprits, key=lambda each: each.latency_us)
        others = tuple(each for each in ran.culprits if each is not worst)
        step = dataclasses.replace(
            self.step, duration_s=min(self.step.duration_s, AGAIN_S)
        )
        named: Culprit | None = None
        with contextlib.suppress(RunFailed, OutputInvalid, KeyboardInterrupt):
            _, named = Timerlat(step).until_above(
                Cpus(CpuSet((worst.cpu,)), cpus.housekeeping),
                self.bound_us,
                lambda: None,
            )
        if named is None:
            why = f"none above the bound came again within {step.duration_s} s"
            named = dataclasses.replace(worst, why=why)
        return dataclasses.replace(ran, culprits=(*others, named))

    def until_above(
        self, cpus: Cpus, bound_us: int, breached: Callable[[], None]
    ) -> tuple[int, Culprit | None]:
        """Measure until the first sample above a bound, and analyse it.

        An older rtla (6.1 is one) starts its trace when its table has begun: a
        sample in between is in the table alone, and another one is waited for.

        :param cpus: one is measured.
        :param breached: called at that sample, before rtla ends, where rtla
            says so by then; and before another one is waited for.
        :returns: the worst sample, µs, and its culprit; None where there is
            none, or this rtla says no more.
        :raises KeyboardInterrupt: if it was interrupted.
        :raises RunFailed: if rtla can't run.
        :raises OutputInvalid: if its output is not understood.
        """
        worst, named = self._until_above(cpus, bound_us, breached)
        if named is None or named.why != blame.NO_SAMPLE_WHY:
            return worst, named
        breached()
        with contextlib.suppress(RunFailed, OutputInvalid):
            other, again = self._until_above(cpus, bound_us, lambda: None)
            return max(worst, other), again or named
        return worst, named

    def _until_above(
        self, cpus: Cpus, bound_us: int, breached: Callable[[], None]
    ) -> tuple[int, Culprit | None]:
        command = (*self.command(cpus), *self._stopping(bound_us))
        lines = process.Lines(_MAX_TABLE)
        marked = False

        def read(found: list[bytes]) -> None:
            nonlocal marked
            if not marked and _MARK in found:
                marked = True
                breached()
            lines.feed([each for each in found if each != _MARK])

        limit_s = self.step.duration_s + SLACK_S
        with tempfile.TemporaryDirectory(prefix="sriov-rt-rtla-") as place:
            directory = pathlib.Path(place)
            ended = process.run(
                command, limit_s, read, directory=directory, name=self.name
            )
            trace = _end(directory / _TRACE)
        if ended.interrupted:
            raise KeyboardInterrupt
        printed = lines.whole()
        # Newer versions exit with another code after a stop.
        if ended.code < 0 or not printed.strip():
            raise RunFailed(self.name, ended.last_line())
        worst = max(each.max_us for each in self.parse(printed).cpus)
        named = blame.of_analysis(printed, self.name)
        if named is None and trace:
            (cpu,) = cpus.measured
            named = blame.of_osnoise(trace, self.name, cpu, bound_us)
        if named is None or worst <= bound_us:
            return worst, None
        # A trace lacks what came after it stopped, or has another sample.
        worst = max(worst, named.latency_us)
        return worst, dataclasses.replace(named, latency_us=worst)

    def _stopping(self, latency_us: int) -> tuple[str, ...]:
        """Return options to stop at the first sample above and analyse it.

        A newer rtla (such as 6.12) analyses the sample by itself; an older one
        (6.1) keeps a trace with the events of osnoise. From Linux 6.17 on,
        rtla runs a command at the sample, after stopping its trace and before
        printing its table.

        :raises RunFailed: if there is no rtla.
        """
        lines = process.Lines(_MAX_HELP)
        ended = process.run(
            (self.program, TOOL, "hist", "--help"),
            _HELP_S,
            lines.feed,
            name=self.name,
        )
        said = ended.error + lines.whole().decode(errors="replace")
        options = [f"--thread={latency_us}", f"--stack={latency_us}"]
        if _ACTION in said:
            mark = _MARK.decode()
            options.append(f"{_ACTION}=shell,command=echo {mark}")
        if _ANALYSIS not in said:
            # No file name: old versions disagree on its syntax.
            options += ["--trace", "--event=osnoise"]
        return tuple(options)

    def parse(self, document: bytes) -> Parsed:
        """Return the latencies of each CPU; rtla prints no version."""
        return Parsed("", _parse(document))


def _end(path: pathlib.Path) -> bytes:
    """Return the end of a trace; empty if there is none."""
    try:
        with path.open("rb") as trace:
            trace.seek(max(0, os.fstat(trace.fileno()).st_size - _MAX_TRACE))
            return trace.read(_MAX_TRACE)
    except FileNotFoundError:
        return b""


def _parse(output: bytes) -> list[CpuLatency]:
    """Return the latencies of each CPU's thread.

    With threads of user space it is the latency of the return to them.

    :raises OutputInvalid: if it is not the table of rtla 6.1 or later.
    """
    lines = output.decode(errors="replace").splitlines()
    if len(lines) > _MAX_LINES:
        raise OutputInvalid(TOOL, "too many lines")
    cpus, width = _columns(lines)
    buckets: list[tuple[int, tuple[int, ...]]] = []
    totals: dict[str, tuple[int, ...]] = {}
    for line in lines:
        name, *fields = line.split() or [""]
        if len(fields) != width * len(cpus):
            continue
        if name in _TOTALS:
            totals[name] = tuple(_number(each) for each in fields)
        elif name.isascii() and name.isdigit():
            counts = tuple(_number(each) for each in fields)
            buckets.append((_bounded(int(name[:11])), counts))
    for name in _TOTALS:
        if name not in totals:
            raise OutputInvalid(TOOL, f"no line '{name}'")
    found = []
    for number, cpu in enumerate(cpus):
        first = width * number
        column = first + width - 1
        histogram = tuple(
            (latency, counts[column])
            for latency, counts in sorted(buckets)
            if counts[column]
        )
        samples = totals["count:"][column]
        if sum(count for _, count in histogram) > samples:
            raise OutputInvalid(TOOL, "more samples in buckets than in all")
        # The last sample of a stopped run may lack its return.
        worst = _bounded(max(totals["max:"][first + 1 : column + 1]))
        found.append(CpuLatency(cpu, samples, worst, histogram))
    return found


def _columns(lines: list[str]) -> tuple[list[int], int]:
    """Return the CPUs and how many columns each has."""
    head = next((each for each in lines if each.startswith("Index")), "")
    names = _COLUMN.findall(head)
    cpus = [int(cpu) for kind, cpu in names if kind == "IRQ"]
    for kinds in _KINDS:
        expected = [(kind, cpu) for cpu in cpus for kind in kinds]
        if cpus and [(kind, int(cpu)) for kind, cpu in names] == expected:
            return cpus, len(kinds)
    raise OutputInvalid(TOOL, "no columns of CPUs")


def _number(text: str) -> int:
    if text == "-":
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 16:
        raise OutputInvalid(TOOL, "a column that is no number")
    return min(int(text), MAX_SAMPLES)


def _bounded(value: int) -> int:
    if value > MAX_LATENCY_US:
        raise OutputInvalid(TOOL, "a latency of more than an hour")
    return value
