# SPDX-License-Identifier: Apache-2.0

"""The load under which latency is measured.

A measurement of an idle host proves nothing. The load is like that on the
housekeeping CPUs of a compute host: stress-ng's computation, memory, system
calls, timers and disk, network traffic over loopback, and vCPU hotplug of
another guest if one is named.
"""

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import hotplug


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """One kind of load.

    :param name: its name in the command line and the certificate.
    :param certifies: whether a measurement under it may earn a certificate.
    :param stressors: stressors of stress-ng, each with its workers per
        housekeeping CPU.
    :param domain: a libvirt guest whose vCPUs are plugged and unplugged.
    """

    name: str
    certifies: bool
    stressors: Mapping[str, int]
    domain: str = ""

    def with_hotplug(self, domain: str) -> "Load":
        """Return the same load with hotplug of a guest's vCPUs."""
        return dataclasses.replace(
            self, name=f"{self.name}+hotplug", domain=domain
        )


NONE = Load("none", certifies=False, stressors={})

#: Loads by name.
LOADS: Mapping[str, Load] = {
    "none": NONE,
    "compute": Load(
        "compute",
        certifies=True,
        stressors={
            "cpu": 1,
            "vm": 1,
            "hdd": 1,
            "sock": 1,
            "timer": 1,
            "switch": 1,
        },
    ),
}

DEFAULT = "compute"

TOOL = "stress-ng"
PACKAGE = "stress-ng"

#: Memory of each worker of ``vm``, and disk space of each of ``hdd``.
_BYTES = "64m"


def command(
    load: Load, housekeeping: CpuSet, directory: str, limit_s: int
) -> tuple[str, ...]:
    """Return the command line of a load, which runs until it is stopped.

    :param housekeeping: the CPUs that its workers stay on.
    :param directory: directory to write to, on the disk to be loaded.
    :param limit_s: seconds after which it ends by itself.
    """
    workers: list[str] = []
    for name, count in load.stressors.items():
        workers += (f"--{name}", str(count * len(housekeeping)))
    return (
        # The tools' control threads have to run on the same CPUs.
        "nice",
        "--adjustment=10",
        TOOL,
        "--taskset",
        cpulist.format_cpu_list(housekeeping),
        "--temp-path",
        directory,
        "--vm-bytes",
        _BYTES,
        "--hdd-bytes",
        _BYTES,
        # A thousand timers a second on each CPU, like a guest's.
        "--timer-freq",
        "1000",
        *workers,
        "--timeout",
        f"{limit_s}s",
        "--quiet",
    )


def programs(load: Load) -> Iterator[tuple[str, str]]:
    """Yield each program that a load needs, and its package."""
    if load.stressors:
        yield TOOL, PACKAGE
    if load.domain:
        yield hotplug.TOOL, hotplug.PACKAGE
