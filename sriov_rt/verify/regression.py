# SPDX-License-Identifier: Apache-2.0

"""Regression of a host: is it worse than its last certificate?

Each CPU's latencies by each tool are compared as distributions of any shape.
If there are maxima of each second, Smirnov's one-sided two-sample test says
whether the new ones are larger; otherwise a high quantile is compared. In both
cases the samples beyond the old maximum are counted. Holm's correction keeps
the chance of one false alarm among all CPUs and tools below 5 %.
"""

import dataclasses
import enum
import math
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.verify import bound
from sriov_rt.verify import compare
from sriov_rt.verify import errors
from sriov_rt.verify.collection import Collection
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.results import Result

#: The least relevant difference, µs: the width of a bucket.
LEAST_US = 1.0

#: The least share of the certificate's number of samples: a tail that half as
#: many show is at most twice as likely.
_LEAST_SHARE = 0.5

#: The compared quantiles of the maxima of each second.
_QUANTILES = (0.5, 0.9, 0.99)


class Verdict(enum.StrEnum):
    """Verdict on a measurement."""

    NO_WORSE = "no worse"
    WORSE = "worse"
    TOO_FEW = "not enough samples"


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a CPU in both measurements.

    :param what: tool, CPU and figure.
    :param before_us: figure of the certificate, µs.
    :param after_us: figure of the measurement, µs.
    :param chance: probability that the latter is as large by chance.
    :param is_worse: whether it is worse, considering all figures together.
    """

    what: str
    before_us: float
    after_us: float
    chance: float
    is_worse: bool = False

    @property
    def change_us(self) -> float:
        """How much larger it is after than before, µs."""
        return self.after_us - self.before_us


@dataclasses.dataclass(frozen=True, slots=True)
class Regression:
    """Verdict on a measurement.

    :param lacking: why there are too few samples, a clause each.
    """

    figures: tuple[Figure, ...]
    lacking: tuple[str, ...]

    @property
    def worst(self) -> Figure | None:
        """The figure that got worse by the most."""
        worse = [each for each in self.figures if each.is_worse]
        return max(worse, key=lambda each: each.change_us, default=None)

    @property
    def verdict(self) -> Verdict:
        """The verdict; few samples are enough for "worse"."""
        if self.worst is not None:
            return Verdict.WORSE
        return Verdict.TOO_FEW if self.lacking else Verdict.NO_WORSE


def judge(before: Collection, after: Collection) -> Regression:
    """Judge a measurement by the figures of a certificate.

    :raises NotComparable: if it was measured in another way or elsewhere.
    """
    figures: list[Figure] = []
    lacking: list[str] = []
    for tool, first in before.latency.items():
        second = after.latency.get(tool)
        if second is None:
            lacking.append(f"{tool} was not run")
            continue
        _check(tool, first, second)
        lacking += (f"{tool}: {e}" for e in second.measurement.problems)
        others = {each.cpu: each for each in second.measurement.cpus}
        for cpu in first.measurement.cpus:
            name = f"{tool}, CPU {cpu.cpu}"
            other = others.get(cpu.cpu)
            if not cpu.samples:
                continue
            if other is None or not other.samples:
                lacking.append(f"{name} was not measured")
                continue
            found = list(_figures(name, cpu, other))
            figures += found
            if len(found) == 1:
                lacking.append(
                    f"{name} has too few samples, or too few in its "
                    f"histogram, for the latency of {100 * compare.QUANTILE:g}"
                    " %"
                )
            if other.samples < _LEAST_SHARE * cpu.samples:
                lacking.append(
                    f"{name} has {other.samples} samples, the certificate "
                    f"{cpu.samples}"
                )
    return Regression(_corrected(figures), tuple(lacking))


def _check(tool: str, before: Result, after: Result) -> None:
    """Check that two results can be compared.

    :raises NotComparable: if they can't.
    """
    for what, first, second in (
        ("machine", *(_machine(each) for each in (before, after))),
        ("load", before.load, after.load),
        ("interval", before.step.interval_us, after.step.interval_us),
        ("priority", before.step.priority, after.step.priority),
        ("threshold", before.step.threshold_us, after.step.threshold_us),
        ("workload", before.step.workload, after.step.workload),
    ):
        if first != second:
            raise errors.NotComparable(tool, what, str(first), str(second))


def _machine(result: Result) -> str:
    return result.conditions.get("machine", "")


def _figures(
    name: str, before: CpuLatency, after: CpuLatency
) -> Iterator[Figure]:
    """Yield the figures of a CPU; both have samples of it."""
    beyond = compare.exceeding(after, before.max_us)
    share = after.samples / (before.samples + after.samples)
    yield Figure(
        f"{name}, maximum",
        before.max_us,
        after.max_us,
        compare.chance(beyond, share),
    )
    maxima = before.maxima_us, after.maxima_us
    if min(map(len, maxima)) >= bound.MIN_BLOCKS:
        yield _maxima(name, sorted(maxima[0]), sorted(maxima[1]))
        return
    first, second = compare.quantile(before), compare.quantile(after)
    if first is not None and second is not None:
        error = max(LEAST_US, math.hypot(first[1], second[1])) / compare.Z
        yield Figure(
            f"{name}, {100 * compare.QUANTILE:g} %",
            first[0],
            second[0],
            0.5 * math.erfc((second[0] - first[0]) / error / math.sqrt(2)),
        )


def _maxima(name: str, before: Sequence[int], after: Sequence[int]) -> Figure:
    """Compare the maxima of each second, sorted, by Smirnov's test.

    The probability is that for large samples, exp(-2 D² nm / (n + m)); ties
    make it too large, never too small.
    """
    n, m = len(before), len(after)
    distance, i, j = 0.0, 0, 0
    for value in sorted({*before, *after}):
        while i < n and before[i] <= value:
            i += 1
        while j < m and after[j] <= value:
            j += 1
        distance = max(distance, i / n - j / m)
    level = max(
        _QUANTILES, key=lambda p: after[int(p * m)] - before[int(p * n)]
    )
    return Figure(
        f"{name}, {100 * level:g} % of seconds",
        before[int(level * n)],
        after[int(level * m)],
        math.exp(-2 * distance**2 * n * m / (n + m)),
    )


def _corrected(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return the figures, with is_worse set by Holm's procedure."""
    order = sorted(range(len(figures)), key=lambda k: figures[k].chance)
    worse = set()
    for rank, place in enumerate(order):
        if figures[place].chance >= compare.ALPHA / (len(figures) - rank):
            break
        if figures[place].change_us >= LEAST_US:
            worse.add(place)
    return tuple(
        dataclasses.replace(each, is_worse=place in worse)
        for place, each in enumerate(figures)
    )
