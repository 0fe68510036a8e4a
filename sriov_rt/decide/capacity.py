# SPDX-License-Identifier: Apache-2.0

"""Capacity of a host for a flavor, which Nova itself requires.

Only the capacity of the whole host is checked. What other instances use of it
is left to Nova, which claims it.
"""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide import power
from sriov_rt.facts import CpuSet
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import HugePages
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.request import Request

#: Size that stands for ``large``: any page size but the CPU's base size, KiB.
_ANY = 0


def huge_pages(request: Request, facts: DecisiveFacts) -> Iterator[Reason]:
    """Yield a Reason if the host has no page of the requested size.

    An unknown pool is left to Nova, which reads it itself.
    """
    pools = facts.memory.hugepages
    if request.huge_page_kib is None or isinstance(pools, Unknown):
        return
    if not any(each.total for each in _served(request, pools)):
        size = _size(request.huge_page_kib)
        yield reason("huge_pages_missing", size=size, wanted=_boot(request))


def reasons(
    request: Request, vcpus: int, memory_mib: int, facts: DecisiveFacts
) -> Iterator[Reason]:
    """Yield the Reasons why not even an empty host has room for a flavor.

    :param vcpus: the flavor's vCPUs.
    :param memory_mib: the flavor's memory, MiB.
    """
    dedicated, online = facts.compute.dedicated, facts.cpus.online
    if request.dedicated_cpus and isinstance(dedicated, CpuSet) and dedicated:
        usable = dedicated
        if not isinstance(online, Unknown):
            usable &= online | power.managed(facts.compute, power.CPU_STATE)
        if len(usable) < vcpus:
            yield reason("pcpus_too_few", pcpus=len(usable), vcpus=vcpus)
    size_kib = request.huge_page_kib
    if size_kib and memory_mib * 1024 % size_kib:
        yield reason(
            "memory_not_whole_pages",
            size=_size(size_kib),
            memory_mib=memory_mib,
        )
        return
    pools = facts.memory.hugepages
    if size_kib is None or isinstance(pools, Unknown):
        return
    served = _served(request, pools)
    sizes = {each.size_kib for each in served if each.total}
    most_kib = max((_most(served, size) for size in sizes), default=0)
    if sizes and most_kib < memory_mib * 1024:
        yield reason(
            "huge_pages_too_few",
            size=_size(size_kib),
            found_mib=most_kib // 1024,
            memory_mib=memory_mib,
        )


def _served(
    request: Request, pools: tuple[HugePages, ...]
) -> tuple[HugePages, ...]:
    size = request.huge_page_kib
    return tuple(each for each in pools if size in (_ANY, each.size_kib))


def _most(pools: tuple[HugePages, ...], size_kib: int) -> int:
    """Return the size of all pools of one page size, KiB."""
    return sum(
        each.total * size_kib for each in pools if each.size_kib == size_kib
    )


def _size(kib: int) -> str:
    if kib == _ANY:
        return "any size"
    for unit, size in (("GiB", 1024 * 1024), ("MiB", 1024)):
        if kib % size == 0:
            return f"{kib // size} {unit}"
    return f"{kib} KiB"


def _boot(request: Request) -> str:
    """Return the requested page size in the form of hugepagesz=."""
    kib = request.huge_page_kib or 1024 * 1024
    for unit, size in (("G", 1024 * 1024), ("M", 1024)):
        if kib % size == 0:
            return f"{kib // size}{unit}"
    return f"{kib}K"
