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

"""rtla timerlat: the kernel's own account of a wakeup, IRQ and thread.

rtla prints a table, no JSON: a row a bucket, then ``count`` (all samples,
those above the last bucket included) and ``max``, with a column of the
interrupt and one of the thread for each CPU. Later versions measure with
threads of user space where the kernel has timerlat_fd (from 6.5 on), and have
a third column: the return to user space, which is what a program sees.
"""

import re

from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.measurement import MAX_BUCKETS
from sriov_rt.verify.measurement import MAX_LATENCY_US
from sriov_rt.verify.measurement import MAX_SAMPLES
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.profiles import Step

TOOL = "timerlat"
PROGRAM = "rtla"

_COLUMN = re.compile(r"(IRQ|Thr|Usr)-(\d{1,5})")

#: The columns of each CPU: the last is what counts.
_KINDS = (("IRQ", "Thr", "Usr"), ("IRQ", "Thr"))

#: The rest is not needed; later versions have decimals in "avg:".
_TOTALS = ("count:", "max:")

#: The most lines that are read: buckets and a few more.
_MAX_LINES = MAX_BUCKETS + 100


def command(
    step: Step,
    cpus: CpuSet,
    housekeeping: CpuSet,
    output: str,
) -> tuple[str, ...]:
    """Return the command line.

    :param cpus: those to measure.
    :param housekeeping: rtla has no option for them; taskset does it.
    :param output: not used: it prints to standard output.
    """
    return (
        "taskset",
        "--cpu-list",
        cpulist.format_cpu_list(housekeeping),
        PROGRAM,
        TOOL,
        "hist",
        f"--cpus={cpulist.format_cpu_list(cpus)}",
        f"--period={step.interval_us}",
        f"--priority=f:{step.priority}",
        f"--duration={step.duration_s}s",
        "--bucket-size=1",
        f"--entries={step.buckets}",
    )


def parse(output: bytes) -> tuple[str, list[CpuLatency], float]:
    """Return no version, what each CPU's thread had, and no duration.

    With threads of user space it is when they were there again.

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
    return "", found, 0.0


def _columns(lines: list[str]) -> tuple[list[int], int]:
    """Return the CPUs, and how many columns each has."""
    head = next((each for each in lines if each.startswith("Index")), "")
    names = _COLUMN.findall(head)
    cpus = [int(cpu) for kind, cpu in names if kind == "IRQ"]
    for kinds in _KINDS:
        wanted = [(kind, cpu) for cpu in cpus for kind in kinds]
        if cpus and [(kind, int(cpu)) for kind, cpu in names] == wanted:
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
