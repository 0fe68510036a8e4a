# SPDX-License-Identifier: Apache-2.0

"""Nova's power management: the state of a pCPU when a guest gets it.

With ``[libvirt] cpu_power_management`` nova-compute takes unused dedicated
pCPUs offline, or gives them a governor that saves power
(nova/virt/libvirt/cpu/api.py). Neither is a fault.
"""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide.unknown_facts import unknown
from sriov_rt.decide.unknown_facts import unread
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import PowerManagement
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

CPU_STATE = "cpu_state"
GOVERNOR = "governor"

#: The governor that keeps a CPU at its highest frequency.
STEADY = "performance"

#: Values of /sys/devices/system/cpu/smt/control if no two online CPUs share a
#: core (Documentation/ABI/testing/sysfs-devices-system-cpu).
_ONE_THREAD = frozenset({"off", "forceoff", "notsupported", "notimplemented"})

#: The CPU that Nova never manages (get_cpu_dedicated_set_nozero in
#: nova/virt/hardware.py).
_FIRST = CpuSet((0,))


def managed(compute: ComputeFacts, strategy: str) -> CpuSet:
    """Return the dedicated pCPUs that Nova manages by a strategy."""
    power, dedicated = compute.power_management, compute.dedicated
    if not isinstance(power, PowerManagement) or power.strategy != strategy:
        return CpuSet()
    return dedicated - _FIRST if isinstance(dedicated, CpuSet) else CpuSet()


def offline(
    cpus: CpuFacts, compute: ComputeFacts, dedicated: CpuSet, online: CpuSet
) -> Iterator[Reason]:
    """Yield the Reasons why offline dedicated pCPUs cannot be used.

    :param dedicated: the pCPUs of guests.
    """
    left = dedicated - online
    if not left:
        return
    power = compute.power_management
    if isinstance(power, Unknown) and power != NOT_REPORTED:
        yield unknown("compute.power_management", power)
        return
    by_nova = left & managed(compute, CPU_STATE)
    if others := left - by_nova:
        yield reason("cpus_offline", cpus=format_cpu_list(others))
    if not by_nova:
        return
    if isinstance(cpus.offline, Unknown):
        yield unknown("cpus.offline", cpus.offline)
    elif lost := by_nova - cpus.offline:
        yield reason("cpus_stay_offline", cpus=format_cpu_list(lost))
    yield from _cores(cpus, dedicated, by_nova)


def _cores(
    cpus: CpuFacts, dedicated: CpuSet, by_nova: CpuSet
) -> Iterator[Reason]:
    """Yield a Reason if an offline pCPU may share a core with the host's.

    The kernel reports only the online threads of a core. A core with as many
    of them as the largest core has no offline thread. If this holds for the
    cores of all housekeeping CPUs, no offline dedicated pCPU is on them.
    """
    siblings = cpus.siblings
    if cpus.smt in _ONE_THREAD or isinstance(siblings, Unknown):
        return
    threads = max(map(len, siblings), default=1)
    whole = threads > 1 and all(
        len(group) == threads for group in siblings if group - dedicated
    )
    if not whole:
        yield reason("cores_unknown", cpus=format_cpu_list(by_nova))


def governors(
    cpus: CpuFacts, compute: ComputeFacts, dedicated: CpuSet
) -> Iterator[Reason]:
    """Yield a Reason for each governor that varies frequencies under guests.

    :param dedicated: the pCPUs of guests.
    """
    found, power = cpus.governors, compute.power_management
    if isinstance(found, Unknown):
        yield from unread("cpus.governors", found)
        return
    by_nova = dedicated & managed(compute, GOVERNOR)
    if by_nova and isinstance(power, PowerManagement):
        if not found:
            yield reason("governor_missing", cpus=format_cpu_list(by_nova))
        elif power.governor_high != STEADY:
            yield reason(
                "governor_high_varies",
                cpus=format_cpu_list(by_nova),
                governor=power.governor_high,
            )
    for governor in found:
        slow = governor.cpus & dedicated - by_nova
        if slow and governor.name != STEADY:
            yield reason(
                "frequency_varies",
                cpus=format_cpu_list(slow),
                governor=governor.name,
            )
