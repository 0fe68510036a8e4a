# SPDX-License-Identifier: Apache-2.0

"""The cgroup of guests, and the dedicated pCPUs that it gives them."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide.unknown_facts import unread
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import GuestCgroup
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Where to make a partition while there is no cgroup of guests.
DEFAULT = "/sys/fs/cgroup/machine.slice"

#: The root cgroups, below one of which the guests' cgroup is.
_ROOTS = frozenset({"/sys/fs/cgroup", "/sys/fs/cgroup/cpuset"})
#: Mount point of the cpusets of cgroup v1.
_LEGACY = "/sys/fs/cgroup/cpuset"


def of_guests(cpus: CpuFacts) -> str:
    """Return the path of the cgroup that guests have or will have."""
    found = cpus.guest_cgroup
    if isinstance(found, GuestCgroup) and found.path not in _ROOTS:
        return found.path
    return DEFAULT


def isolates(cpus: CpuFacts) -> bool:
    """Return whether the host isolates by a partition, valid or not."""
    found = cpus.guest_cgroup
    return isinstance(found, GuestCgroup) and (
        found.partition or ""
    ).startswith("isolated")


def reasons(
    cpus: CpuFacts, dedicated: CpuSet, *, placed_by_nova: bool
) -> Iterator[Reason]:
    """Yield the Reasons why libvirt's guests cannot use dedicated pCPUs.

    :param placed_by_nova: whether Nova runs the guests. If not, and libvirt
        runs none, the guests may be pods in other cgroups.
    """
    found = cpus.guest_cgroup
    if isinstance(found, Unknown):
        yield from unread("cpus.guest_cgroup", found)
        return
    if found is None or (found.path in _ROOTS and not placed_by_nova):
        return
    yield from _out_of_reach(cpus, found, dedicated)
    yield from _invalid(cpus, found, dedicated)


def advice(cpus: CpuFacts, dedicated: CpuSet) -> Iterator[Reason]:
    """Yield a Reason if the guests' cgroup has dedicated pCPUs only.

    Only guests whose emulator threads share a vCPU's pCPU (a mask in
    ``hw:cpu_realtime_mask``) can run there.
    """
    found, online = cpus.guest_cgroup, cpus.online
    if not isinstance(found, GuestCgroup) or isinstance(online, Unknown):
        return
    if online - dedicated and not found.cpus & online - dedicated:
        yield reason("cgroup_without_housekeeping", cgroup=found.path)


def _out_of_reach(
    cpus: CpuFacts, found: GuestCgroup, dedicated: CpuSet
) -> Iterator[Reason]:
    there = CpuSet()
    for each in (cpus.online, cpus.offline):
        there |= CpuSet() if isinstance(each, Unknown) else each
    left = dedicated & there - found.cpus
    # AllowedCPUs= needs cgroup v2 (systemd.resource-control(5)).
    is_legacy = found.path.startswith(_LEGACY)
    every = format_cpu_list(found.cpus | left)
    for other in found.others:
        if taken := left & other.cpus:
            left -= taken
            yield reason(
                "cpus_exclusive" if is_legacy else "cpus_in_other_partition",
                cpus=format_cpu_list(taken),
                partition=other.path,
                cgroup=found.path,
                wanted=every,
            )
    if left:
        yield reason(
            "cpus_outside_cpuset" if is_legacy else "cpus_outside_cgroup",
            cpus=format_cpu_list(left),
            cgroup=found.path,
            wanted=every,
        )


def _invalid(
    cpus: CpuFacts, found: GuestCgroup, dedicated: CpuSet
) -> Iterator[Reason]:
    isolated = cpus.isolated
    if isinstance(isolated, Unknown) or dedicated <= isolated:
        return
    if found.partition and " invalid" in found.partition:
        yield reason(
            "partition_invalid",
            cgroup=found.path,
            partition=found.partition,
        )
