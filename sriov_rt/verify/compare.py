# SPDX-License-Identifier: Apache-2.0

"""Differences between two measurements, and whether they are certain.

Latencies are compared by the samples above a value, without assuming a
distribution: if both had the same latencies, how often would all of the worst
samples be in the second? Other figures are compared by their standard errors.
"""

import dataclasses
import math
from collections.abc import Iterator

from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import matrix
from sriov_rt.verify import network
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.results import Result

#: Two-sided quantile of the standard normal distribution at 95 %.
Z = 1.96

#: The probability below which a difference is not due to chance.
ALPHA = 0.05

#: The least relative error of a figure, used where its own is unknown or
#: smaller: consecutive seconds are not independent samples.
_LEAST_ERROR = 0.02

#: The compared quantile of the samples.
QUANTILE = 0.9999

COLUMNS = ("What", "Before", "After", "Difference", "Uncertainty", "Verdict")


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One figure of both measurements.

    :param uncertainty: size that the difference may have by chance, in its
        unit; or a sentence where that is unknown.
    :param worse: whether the second is worse by more than chance.
    :param better: whether the second is better by more than chance.
    """

    what: str
    before: float
    after: float
    unit: str
    uncertainty: float | str
    worse: bool = False
    better: bool = False


def differences(before: Collection, after: Collection) -> Iterator[Difference]:
    """Yield the difference of each figure that both have."""
    for tool, first in before.latency.items():
        if tool not in after.latency:
            continue
        others = {
            each.cpu: each for each in after.latency[tool].measurement.cpus
        }
        for cpu in first.measurement.cpus:
            if cpu.cpu in others and cpu.samples and others[cpu.cpu].samples:
                name = f"{tool}, CPU {cpu.cpu}"
                yield from latency(name, cpu, others[cpu.cpu])
    cells = {
        (each.cell, each.tool): (each.figure, each.error)
        for each in after.network
        if each.figure is not None
    }
    for measured in before.network:
        other = cells.get((measured.cell, measured.tool))
        if measured.figure is not None and other is not None:
            scale, unit = _unit(measured.cell.test)
            yield _figure(
                measured.cell.file.removesuffix(".json"),
                (measured.figure / scale, measured.error / scale),
                (other[0] / scale, other[1] / scale),
                unit,
            )
    jobs = {each.cell: each.figures for each in after.disk if each.figures}
    for run in before.disk:
        figures = jobs.get(run.cell)
        if run.figures and figures:
            yield _figure(
                run.cell.file.removesuffix(".json"),
                (run.figures.bandwidth / 1e6, run.figures.error / 1e6),
                (figures.bandwidth / 1e6, figures.error / 1e6),
                "MB/s",
            )


def lacking(before: Collection, after: Collection) -> Iterator[str]:
    """Yield results that are missing or invalid in the second, as clauses."""
    for tool, first in before.latency.items():
        second = after.latency.get(tool)
        left = _measured(first) - (_measured(second) if second else CpuSet())
        if left:
            yield f"not compared: {tool}, CPU {cpulist.format_cpu_list(left)}"
    for each in (before, after):
        for tool, result in each.latency.items():
            for problem in result.measurement.problems:
                yield f"{each.label}: {tool} does not count: {problem}"
    compared = {each.what for each in differences(before, after)}
    cells: list[matrix.Measured] = [*before.network, *before.disk]
    for run in cells:
        name = run.cell.file.removesuffix(".json")
        if run.has_figures and name not in compared:
            yield f"not compared: {name}"


def _measured(found: Result) -> CpuSet:
    """Return the CPUs with samples."""
    return CpuSet(x.cpu for x in found.measurement.cpus if x.samples)


def _number(value: float, digits: int, sign: str = "") -> str:
    """Return a number with some digits, or all those before the point."""
    whole = abs(value) >= 10 ** (digits - 1)
    return format(value, f"{sign}.0f" if whole else f"{sign}.{digits}g")


def row(found: Difference) -> tuple[str, ...]:
    """Return a difference as a row with COLUMNS."""
    verdict = "worse" if found.worse else "better" if found.better else "same"
    uncertainty = found.uncertainty
    if not isinstance(uncertainty, str):
        uncertainty = f"± {_number(uncertainty, 4)} {found.unit}"
    return (
        found.what,
        f"{_number(found.before, 5)} {found.unit}",
        f"{_number(found.after, 5)} {found.unit}",
        f"{_number(found.after - found.before, 4, '+')} {found.unit}",
        uncertainty,
        verdict,
    )


def _exceed(count: int) -> str:
    verb = "sample exceeds" if count == 1 else "samples exceed"
    return f"{count} {verb} the other's"


def latency(
    name: str, before: CpuLatency, after: CpuLatency
) -> Iterator[Difference]:
    """Yield the differences of a CPU's maximum and of a quantile, in µs.

    :param name: name of the CPU, for people; both have samples of it.
    """
    above, rarer = exceeding(after, before.max_us), 0
    if after.max_us < before.max_us:
        rarer = exceeding(before, after.max_us)
    whole = before.samples + after.samples
    yield Difference(
        f"{name}, maximum",
        before.max_us,
        after.max_us,
        "µs",
        _exceed(above or rarer),
        worse=chance(above, after.samples / whole) < ALPHA,
        better=chance(rarer, before.samples / whole) < ALPHA,
    )
    first, second = quantile(before), quantile(after)
    if first is None or second is None:
        return
    # A bucket is 1 µs wide.
    error = max(1.0, math.hypot(first[1], second[1]))
    change = second[0] - first[0]
    yield Difference(
        f"{name}, {100 * QUANTILE:g} %",
        first[0],
        second[0],
        "µs",
        error,
        worse=change > error,
        better=-change > error,
    )


def chance(count: int, share: float) -> float:
    """Return how likely all of the worst samples are in one by chance."""
    return math.pow(share, count) if count else 1.0


def exceeding(found: CpuLatency, limit_us: int) -> int:
    """Return a lower bound of samples above a limit.

    Of samples above the last bucket only that much is known.
    """
    count = sum(each[1] for each in found.histogram if each[0] > limit_us)
    last = found.histogram[-1][0] if found.histogram else 0
    if last >= limit_us:
        return count + max(found.overflows, 0)
    if found.maxima_us:
        return sum(each > limit_us for each in found.maxima_us)
    return int(found.max_us > limit_us)


def quantile(found: CpuLatency) -> tuple[float, float] | None:
    """Return a quantile and half the width of its interval at 95 %.

    None if it is above the last bucket or has too few samples above it.
    """
    total = found.samples
    spread = Z * math.sqrt(total * QUANTILE * (1 - QUANTILE))
    ranks = [total * QUANTILE + each for each in (-spread, 0.0, spread)]
    if ranks[-1] >= total:
        return None
    values: list[int] = []
    seen = 0
    for latency, count in found.histogram:
        seen += count
        while len(values) < len(ranks) and seen > ranks[len(values)]:
            values.append(latency)
    if len(values) < len(ranks):
        return None
    low, middle, high = values
    return float(middle), (high - low) / 2


def _figure(
    name: str,
    before: tuple[float, float],
    after: tuple[float, float],
    unit: str,
) -> Difference:
    """Compare two figures with errors; the larger one is better."""
    errors = [max(error, _LEAST_ERROR * x) for x, error in (before, after)]
    uncertainty = Z * math.hypot(*errors)
    change = after[0] - before[0]
    return Difference(
        name,
        before[0],
        after[0],
        unit,
        uncertainty,
        worse=change < -uncertainty,
        better=change > uncertainty,
    )


def _unit(test: str) -> tuple[float, str]:
    if test in (network.SEND, network.RECEIVE):
        return 1e9, "Gb/s"
    return (1e6, "Mpps") if test == network.PACKETS else (1.0, "/s")
