# SPDX-License-Identifier: Apache-2.0

"""rtla timerlat: the kernel's own account of a wakeup, IRQ and thread.

rtla prints a table, no JSON: a row a bucket, then ``count`` (all samples,
those above the last bucket included) and ``max``, with a column of the
interrupt and one of the thread for each CPU. Later versions measure with
threads of user space where the kernel has timerlat_fd (from 6.5 on), and have
a third column: the return to user space, which is what a program sees.
"""

import re

from sriov_rt.parse import cpulist
from sriov_rt.verify import process
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.latency_tool import Parsed
from sriov_rt.verify.latency_tool import ProgramTool
from sriov_rt.verify.measurement import MAX_BUCKETS
from sriov_rt.verify.measurement import MAX_LATENCY_US
from sriov_rt.verify.measurement import MAX_SAMPLES
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus

TOOL = "timerlat"

_COLUMN = re.compile(r"(IRQ|Thr|Usr)-(\d{1,5})")

#: The columns of each CPU: the last is what counts.
_KINDS = (("IRQ", "Thr", "Usr"), ("IRQ", "Thr"))

#: The rest is not needed; later versions have decimals in "avg:".
_TOTALS = ("count:", "max:")

_ACTION = "--on-threshold"

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

    def has_actions(self) -> bool:
        """Return whether this rtla runs a command at a threshold.

        It does from Linux 6.17 on (``--on-threshold``).

        :raises RunFailed: if there is no rtla.
        """
        lines = process.Lines(_MAX_HELP)
        ended = process.run(
            (self.program, TOOL, "hist", "--help"),
            _HELP_S,
            lines.feed,
            name=self.name,
        )
        return _ACTION in ended.error or _ACTION.encode() in lines.whole()

    def at_threshold(self, latency_us: int, mark: str) -> tuple[str, ...]:
        """Return the options to print a line at the first sample above.

        rtla's trace is stopped by then; it ends after it, and prints its
        table.

        :param mark: the line, of letters and hyphens.
        """
        return (
            f"--thread={latency_us}",
            f"{_ACTION}=shell,command=echo {mark}",
        )

    def parse(self, document: bytes) -> Parsed:
        """Return the latencies of each CPU; rtla prints no version."""
        return Parsed("", _parse(document))


def _parse(output: bytes) -> list[CpuLatency]:
    """Return the latencies of each CPU's thread.

    With threads of user space it is the return to them that counts.

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
        # Of a trace that was stopped, the last sample may lack its return.
        worst = _bounded(max(totals["max:"][first + 1 : column + 1]))
        found.append(CpuLatency(cpu, samples, worst, histogram))
    return found


def _columns(lines: list[str]) -> tuple[list[int], int]:
    """Return the CPUs, and how many columns each has."""
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
