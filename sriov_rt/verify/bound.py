# SPDX-License-Identifier: Apache-2.0

"""Bounds on latencies that were not measured, from those that were.

After N independent samples a further one exceeds their maximum with a
probability below ``1 - (1 - c) ** (1 / N)`` at confidence c; at 95 % that is
about 3 / N (the "rule of three"). Beyond that only extreme-value statistics
say anything, and only where their conditions hold: samples that are
independent and identically distributed (Griffin and Burns, "Realism in
statistical analysis of worst case execution times", WCET 2010) with a tail
that is not heavy (Silva et al., RTSS 2017, DOI 10.1109/RTSS.2017.00028).
Where a test of them fails, no estimate is made.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence

#: Confidence of every statement in this module.
CONFIDENCE = 0.95

#: The fewest maxima that a fit is made from.
MIN_BLOCKS = 100

#: The most blocks of a fit; if there are more, neighbours are joined.
MAX_BLOCKS = 1000

#: Two-sided quantile of the standard normal distribution at 95 %.
_Z = 1.96

#: The greatest distance of a fit's quantiles from the measured ones, as a
#: part of the measured range.
_MAX_QQ = 0.15


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """An extreme-value estimate, or why there is none.

    :param bound_us: latency that a run of the same length exceeds with a
        probability of at most 5 %; never below the measured maximum. None
        where the conditions of the estimate do not hold.
    :param refused: the test that failed, one clause; empty if there is a
        bound.
    """

    bound_us: int | None
    refused: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """Measured maximum of one CPU, and its bounds.

    :param max_us: the worst sample, µs.
    :param probability: upper bound, at 95 %, of the probability that a
        further sample is worse.
    :param once_in_s: seconds in which less than one worse sample is
        expected, at 95 %.
    :param estimate: extreme-value estimate for a longer run.
    """

    max_us: int
    samples: int
    probability: float
    once_in_s: float
    estimate: Estimate


def of(
    max_us: int,
    samples: int,
    duration_s: float,
    maxima_us: Sequence[int] = (),
) -> Bound:
    """Return the bound of one CPU.

    :param max_us: the worst sample, µs.
    :param samples: number of samples, at least one.
    :param duration_s: how long they took.
    :param maxima_us: the worst of each second, in order.
    """
    probability = 1 - (1 - CONFIDENCE) ** (1 / samples)
    return Bound(
        max_us=max_us,
        samples=samples,
        probability=probability,
        once_in_s=duration_s / -math.log(1 - CONFIDENCE),
        estimate=estimate(maxima_us, max_us),
    )


def estimate(maxima_us: Sequence[int], measured_us: int) -> Estimate:
    """Fit a generalised extreme value distribution to maxima of blocks.

    The parameters are Hosking's estimators by L-moments ("L-moments", Journal
    of the Royal Statistical Society B 52, 1990).

    :param maxima_us: the worst of each block of equal length, in order.
    :param measured_us: the worst of all.
    """
    if not maxima_us:
        return Estimate(None, "the tool reports no maximum of each second")
    if len(maxima_us) < MIN_BLOCKS:
        return Estimate(
            None,
            f"it takes {MIN_BLOCKS} maxima of a second, and there are "
            f"{len(maxima_us)}",
        )
    maxima_us = _joined(maxima_us)
    refused = _trend(maxima_us) or _runs(maxima_us) or _drift(maxima_us)
    if refused:
        return Estimate(None, refused)
    ordered = sorted(maxima_us)
    if ordered[0] == ordered[-1]:
        return Estimate(None, "all maxima are the same")
    location, scale, shape = fit(ordered)
    if shape < 0:
        return Estimate(None, "the tail is heavy")
    span = ordered[-1] - ordered[0]
    worst = max(
        abs(quantile((i + 0.5) / len(ordered), location, scale, shape) - each)
        for i, each in enumerate(ordered)
    )
    if worst > max(_MAX_QQ * span, 1.0):
        return Estimate(None, "the maxima do not follow the fit")
    # In 95 % of runs with as many blocks the worst stays below this.
    of_all = CONFIDENCE ** (1 / len(ordered))
    found = quantile(of_all, location, scale, shape)
    return Estimate(max(math.ceil(found), measured_us))


def fit(ordered: Sequence[float]) -> tuple[float, float, float]:
    """Return location, scale and shape of a GEV by L-moments.

    :param ordered: ascending, not all the same.
    :returns: the shape in Hosking's sign: below 0 the tail is heavy.
    """
    n = len(ordered)
    b0 = sum(ordered) / n
    b1 = sum(i * x for i, x in enumerate(ordered)) / (n * (n - 1))
    b2 = sum(i * (i - 1) * x for i, x in enumerate(ordered)) / (
        n * (n - 1) * (n - 2)
    )
    l2 = 2 * b1 - b0
    t3 = (6 * b2 - 6 * b1 + b0) / l2
    c = 2 / (3 + t3) - math.log(2) / math.log(3)
    shape = 7.8590 * c + 2.9554 * c * c
    if abs(shape) < 1e-6:
        scale = l2 / math.log(2)
        return b0 - 0.5772156649 * scale, scale, 0.0
    gamma = math.gamma(1 + shape)
    scale = l2 * shape / ((1 - 2**-shape) * gamma)
    return b0 - scale * (1 - gamma) / shape, scale, shape


def quantile(
    probability: float, location: float, scale: float, shape: float
) -> float:
    """Return the value that a GEV stays below with a probability.

    :param probability: above 0 and below 1.
    :param shape: in Hosking's sign.
    """
    reduced = -math.log(probability)
    if shape == 0:
        return location - scale * math.log(reduced)
    return location + scale * (1 - math.pow(reduced, shape)) / shape


def _joined(values: Sequence[int]) -> Sequence[int]:
    """Return the maxima of fewer, longer blocks."""
    size = -(-len(values) // MAX_BLOCKS)
    # The remainder at the end is not a whole block.
    whole = len(values) // size * size
    return [max(values[i : i + size]) for i in range(0, whole, size)]


def _trend(values: Sequence[int]) -> str:
    """Mann and Kendall's test: do the values rise or fall with time?"""
    n = len(values)
    score = 0
    for i, each in enumerate(values):
        score += sum((x > each) - (x < each) for x in values[i + 1 :])
    ties = sum(
        t * (t - 1) * (2 * t + 5)
        for t in (values.count(each) for each in set(values))
    )
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    if variance <= 0 or abs(score) <= _Z * math.sqrt(variance):
        return ""
    return (
        "the maxima rise with time"
        if score > 0
        else ("the maxima fall with time")
    )


def _runs(values: Sequence[int]) -> str:
    """Wald and Wolfowitz's test: are the values in random order?"""
    middle = sorted(values)[len(values) // 2]
    signs = [each > middle for each in values if each != middle]
    above = sum(signs)
    below = len(signs) - above
    n = above + below
    if not above or not below or n < 20:
        return ""
    runs = 1 + sum(left != right for left, right in itertools.pairwise(signs))
    expected = 2 * above * below / n + 1
    variance = (expected - 1) * (expected - 2) / (n - 1)
    if variance <= 0 or abs(runs - expected) <= _Z * math.sqrt(variance):
        return ""
    return "the maxima depend on one another"


def _drift(values: Sequence[int]) -> str:
    """Kolmogorov and Smirnov's test of the first half against the second."""
    half = len(values) // 2
    first, second = sorted(values[:half]), sorted(values[half:])
    points = sorted(set(values))
    distance = max(
        abs(_share(first, each) - _share(second, each)) for each in points
    )
    n, m = len(first), len(second)
    # 1.358: the 5 % point of the two-sample statistic for large samples.
    if distance <= 1.358 * math.sqrt((n + m) / (n * m)):
        return ""
    return "the first half differs from the second"


def _share(ordered: Sequence[int], limit: int) -> float:
    return sum(each <= limit for each in ordered) / len(ordered)
