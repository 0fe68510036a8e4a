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

"""Measurement of a latency tool, in one form for all of them."""

import dataclasses
import enum

#: The most buckets that a histogram may have; ``cyclictest -h`` takes as many.
MAX_BUCKETS = 100_000

#: The greatest latency that is one, µs: an hour.
MAX_LATENCY_US = 3_600_000_000

#: The greatest number of samples of one CPU: a year at 1 MHz.
MAX_SAMPLES = 2**45


class Tool(enum.StrEnum):
    """A program or kernel tracer that measures latency."""

    HWLAT = "hwlat"
    CYCLICTEST = "cyclictest"
    OSLAT = "oslat"
    TIMERLAT = "timerlat"


@dataclasses.dataclass(frozen=True, slots=True)
class CpuLatency:
    """The latencies that one CPU had.

    :param cpu: its number.
    :param samples: how many were taken, those above the histogram included.
    :param max_us: the worst, µs, rounded up.
    :param histogram: pairs of a latency in µs and the samples that had it,
        ascending; those above the last bucket are in none.
    :param maxima_us: the worst of each second, in order; empty where the
        tool does not say.
    """

    cpu: int
    samples: int
    max_us: int
    histogram: tuple[tuple[int, ...], ...] = ()
    maxima_us: tuple[int, ...] = ()

    @property
    def overflows(self) -> int:
        """Samples above the last bucket."""
        return self.samples - sum(count for _, count in self.histogram)


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """One run of a tool.

    :param tool: which one.
    :param version: what it says of itself.
    :param command: its command line, or the tracer's settings.
    :param started_at: Unix time in seconds.
    :param duration_s: how long it measured, by CLOCK_MONOTONIC.
    :param problems: why it does not count, a sentence each; empty for a
        measurement that does.
    """

    tool: Tool
    version: str
    command: str
    started_at: float
    duration_s: float
    cpus: tuple[CpuLatency, ...]
    problems: tuple[str, ...] = ()

    @property
    def max_us(self) -> int:
        """The worst latency of all CPUs, µs."""
        return max((each.max_us for each in self.cpus), default=0)
