# SPDX-License-Identifier: Apache-2.0

"""Published profiles of measurements: tools and their parameters."""

import dataclasses
from collections.abc import Collection
from collections.abc import Mapping

from sriov_rt.verify import tools
from sriov_rt.verify.cyclictest import Cyclictest
from sriov_rt.verify.hwlat import Hwlat
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.oslat import Oslat
from sriov_rt.verify.timerlat import Timerlat


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """Steps in their order.

    :param name: its name in the command line and the certificate.
    :param source: where its parameters were published.
    """

    name: str
    source: str
    steps: tuple[Step, ...]

    def lasting(self, duration_s: int) -> "Profile":
        """Return the profile with another duration of each step."""
        steps = tuple(
            dataclasses.replace(each, duration_s=duration_s)
            for each in self.steps
        )
        return dataclasses.replace(self, steps=steps)

    def without(self, names: Collection[str]) -> "Profile":
        """Return the profile without some of its tools."""
        steps = tuple(each for each in self.steps if each.tool not in names)
        return dataclasses.replace(self, steps=steps)


_PROFILES = (
    Profile("quick", "sriov-rt: a check of every tool", tools.every_step(5)),
    # The node tuning operator's LATENCY_TEST_RUNTIME for acceptance.
    Profile(
        "acceptance",
        "OpenShift node tuning operator, latency tests, 12 hours each",
        tuple(
            each.default_step(12 * 3600)
            for each in (Hwlat, Cyclictest, Oslat, Timerlat)
        ),
    ),
    Profile(
        "rhel",
        "RHEL for Real Time 10, tuning for virtualization",
        (
            Step(Cyclictest.name, 12 * 3600, interval_us=200, buckets=60),
            Step(
                Oslat.name,
                12 * 3600,
                priority=1,
                workload=("memmove", "4K"),
            ),
        ),
    ),
    Profile(
        "osadl",
        "OSADL latency plots: 100 million loops of 200 µs",
        (Step(Cyclictest.name, 20_000, interval_us=200, priority=90),),
    ),
    Profile(
        "ovirt",
        "a realtime host in oVirt: hwlatdetect and cyclictest",
        (
            Step(Hwlat.name, 60, threshold_us=10),
            Step(Cyclictest.name, 15 * 60, interval_us=200, buckets=60),
        ),
    ),
    Profile(
        "standard", "sriov-rt: 15 minutes a tool", tools.every_step(15 * 60)
    ),
)

#: Profiles by name.
PROFILES: Mapping[str, Profile] = {each.name: each for each in _PROFILES}

#: The default profile.
DEFAULT = "standard"
