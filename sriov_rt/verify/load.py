# SPDX-License-Identifier: Apache-2.0

"""The load under which latency is measured.

An idle host measures well and proves nothing. The load is that of the
housekeeping CPUs of a compute host: computation, memory, system calls,
timers and disk of stress-ng, and network traffic over loopback; and vCPU
hotplug of another guest, where one is named.
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

    :param name: for the command line and the certificate.
    :param certifies: whether a measurement under it may earn a certificate.
    :param stressors: of stress-ng, with how many workers a housekeeping CPU.
    :param domain: a libvirt guest whose vCPUs are plugged and unplugged.
    """

    name: str
    certifies: bool
    stressors: Mapping[str, int]
    domain: str = ""

    def with_hotplug(self, domain: str) -> "Load":
        """Return the same with hotplug of a guest's vCPUs."""
        return dataclasses.replace(
            self, name=f"{self.name}+hotplug", domain=domain
        )


NONE = Load("none", certifies=False, stressors={})

#: By name.
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

#: Memory of a worker of ``vm`` and disk space of one of ``hdd``.
_BYTES = "64m"


def command(
    load: Load, housekeeping: CpuSet, directory: str, limit_s: int
) -> tuple[str, ...]:
    """Return the command line of a load; it runs until it is ended.

    :param housekeeping: the CPUs that its workers stay on.
    :param directory: where it may write, on the disk that it loads.
    :param limit_s: seconds after which it ends by itself.
    """
    workers: list[str] = []
    for name, count in load.stressors.items():
        workers += (f"--{name}", str(count * len(housekeeping)))
    return (
        # The tools' own control runs on the same CPUs, and has to.
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
        # A thousand timers a second on each: as a guest's.
        "--timer-freq",
        "1000",
        *workers,
        "--timeout",
        f"{limit_s}s",
        "--quiet",
    )


def programs(load: Load) -> Iterator[tuple[str, str]]:
    """Yield each program that it takes, and its package."""
    if load.stressors:
        yield TOOL, PACKAGE
    if load.domain:
        yield hotplug.TOOL, hotplug.PACKAGE
