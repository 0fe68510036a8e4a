# SPDX-License-Identifier: Apache-2.0

"""Steps and measurements, in the same form for all latency tools."""

import dataclasses

from sriov_rt.facts.culprit import Culprit
from sriov_rt.parse.cpulist import MAX_CPUS
from sriov_rt.parse.cpulist import CpuSet

#: The most buckets that a histogram may have; ``cyclictest -h`` takes as many.
MAX_BUCKETS = 100_000

#: The greatest plausible latency, µs: an hour.
MAX_LATENCY_US = 3_600_000_000

#: The greatest number of samples of one CPU: a year at 1 MHz.
MAX_SAMPLES = 2**45


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One tool and its parameters.

    :param tool: its name, a key of ``tools.TOOLS``.
    :param duration_s: how long it measures.
    :param interval_us: time between two wake-ups; 0 for a tool that has none.
    :param priority: priority under SCHED_FIFO, 1 to 99.
    :param buckets: number of the histogram's buckets, 1 µs each.
    :param threshold_us: a tracer counts gaps longer than this.
    :param workload: workload of oslat (``-w``) and its memory (``-m``); empty
        for none.
    """

    tool: str
    duration_s: int
    interval_us: int = 0
    priority: int = 95
    buckets: int = 400
    threshold_us: int = 0
    workload: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of a measurement.

    :param measured: the isolated CPUs that are online.
    :param housekeeping: the CPUs on which the tools' control runs.
    """

    measured: CpuSet
    housekeeping: CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class CpuLatency:
    """Latencies of one CPU.

    :param cpu: its number.
    :param samples: number of samples, including those above the histogram.
    :param max_us: the worst sample, µs, rounded up.
    :param histogram: pairs of a latency in µs and its number of samples,
        ascending; samples above the last bucket are left out.
    :param maxima_us: the worst of each second, in order; empty if the tool
        does not say.
    """

    cpu: int
    samples: int
    max_us: int
    histogram: tuple[tuple[int, int], ...] = ()
    maxima_us: tuple[int, ...] = ()

    @property
    def overflows(self) -> int:
        """Samples above the last bucket."""
        return self.samples - sum(count for _, count in self.histogram)

    @property
    def is_possible(self) -> bool:
        """Whether its figures are plausible."""
        buckets = [latency for latency, _ in self.histogram]
        latencies = (self.max_us, *buckets, *self.maxima_us)
        counts = (self.samples, *(count for _, count in self.histogram))
        return (
            0 <= self.cpu < MAX_CPUS
            and all(0 <= each <= MAX_LATENCY_US for each in latencies)
            and all(0 <= each <= MAX_SAMPLES for each in counts)
            and buckets == sorted(buckets)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """One run of a tool.

    :param tool: its name.
    :param version: as the tool prints it.
    :param command: its command line, or the tracer's settings.
    :param started_at: Unix time in seconds.
    :param duration_s: how long it measured, by CLOCK_MONOTONIC.
    :param problems: why it is not valid, a sentence each; empty for a valid
        measurement.
    :param culprits: culprits of the worst samples above the bound, if any.
    """

    tool: str
    version: str
    command: str
    started_at: float
    duration_s: float
    cpus: tuple[CpuLatency, ...]
    problems: tuple[str, ...] = ()
    culprits: tuple[Culprit, ...] = ()

    @property
    def max_us(self) -> int:
        """The worst latency of all CPUs, µs."""
        return max((each.max_us for each in self.cpus), default=0)
