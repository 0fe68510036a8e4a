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

"""Measurements as others publish them: which tools, with what parameters."""

import dataclasses
from collections.abc import Mapping

from sriov_rt.verify.measurement import Tool


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One tool and its parameters.

    :param duration_s: how long it measures.
    :param interval_us: between two wake-ups; cyclictest and timerlat alone.
    :param priority: of SCHED_FIFO, 1 to 99.
    :param buckets: of the histogram, 1 µs each.
    :param threshold_us: hwlat counts what is longer.
    :param workload: what oslat does meanwhile (``-w``), and with how much
        memory (``-m``); empty for none.
    """

    tool: Tool
    duration_s: int
    interval_us: int = 0
    priority: int = 95
    buckets: int = 400
    threshold_us: int = 0
    workload: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """Steps in their order.

    :param name: for the command line and the certificate.
    :param source: where its parameters were published.
    :param steps: first of all what the hardware does by itself.
    """

    name: str
    source: str
    steps: tuple[Step, ...]

    def lasting(self, duration_s: int) -> "Profile":
        """Return it with another duration, which each step has."""
        steps = tuple(
            dataclasses.replace(each, duration_s=duration_s)
            for each in self.steps
        )
        return dataclasses.replace(self, steps=steps)

    def without(self, tools: tuple[Tool, ...]) -> "Profile":
        """Return it without some of its tools."""
        steps = tuple(each for each in self.steps if each.tool not in tools)
        return dataclasses.replace(self, steps=steps)


def _four(duration_s: int) -> tuple[Step, ...]:
    return (
        Step(Tool.HWLAT, duration_s, threshold_us=10),
        Step(Tool.CYCLICTEST, duration_s, interval_us=200),
        Step(Tool.OSLAT, duration_s, priority=1),
        Step(Tool.TIMERLAT, duration_s, interval_us=1000),
    )


_PROFILES = (
    Profile("quick", "sriov-rt: does it all work?", _four(5)),
    # The node tuning operator's LATENCY_TEST_RUNTIME for acceptance.
    Profile(
        "acceptance",
        "OpenShift node tuning operator, latency tests, 12 hours each",
        _four(12 * 3600),
    ),
    Profile(
        "rhel",
        "RHEL for Real Time 10, tuning for virtualization",
        (
            Step(Tool.CYCLICTEST, 12 * 3600, interval_us=200, buckets=60),
            Step(
                Tool.OSLAT,
                12 * 3600,
                priority=1,
                workload=("memmove", "4K"),
            ),
        ),
    ),
    Profile(
        "osadl",
        "OSADL latency plots: 100 million loops of 200 µs",
        (Step(Tool.CYCLICTEST, 20_000, interval_us=200, priority=90),),
    ),
    Profile(
        "seed-003",
        "a realtime host in oVirt: hwlatdetect and cyclictest",
        (
            Step(Tool.HWLAT, 60, threshold_us=10),
            Step(Tool.CYCLICTEST, 15 * 60, interval_us=200, buckets=60),
        ),
    ),
    Profile("standard", "sriov-rt: 15 minutes a tool", _four(15 * 60)),
)

#: Profiles by name.
PROFILES: Mapping[str, Profile] = {each.name: each for each in _PROFILES}

#: The one that is taken unless another is named.
DEFAULT = "standard"
