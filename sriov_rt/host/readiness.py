# SPDX-License-Identifier: Apache-2.0

"""Readiness of a host for realtime guests, as ``host check`` reports it."""

import dataclasses
import types
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.decide import compute_driver
from sriov_rt.decide import demands
from sriov_rt.decide import maintenance
from sriov_rt.decide import onload
from sriov_rt.decide import realtime
from sriov_rt.decide.demands import module
from sriov_rt.decide.unknown_facts import unknown
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import HostFacts
from sriov_rt.facts import Nic
from sriov_rt.facts import Vf
from sriov_rt.facts import decisive
from sriov_rt.host.vfs import is_vfio
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

Check = Callable[[HostFacts], Iterator[Reason]]


@dataclasses.dataclass(frozen=True, slots=True)
class Readiness:
    """Findings about a host's readiness for realtime guests.

    :param must: Reasons that keep it from serving realtime guests.
    :param should: Reasons that would make it better.
    """

    must: tuple[Reason, ...]
    should: tuple[Reason, ...]

    @property
    def is_ready(self) -> bool:
        """Whether the host can serve realtime guests."""
        return not self.must


def judge(
    facts: DecisiveFacts,
    *,
    placed_by_nova: bool,
    any_kernel: bool = False,
    further: Iterable[Reason] = (),
) -> Readiness:
    """Return whether a host is ready, and what to do about it.

    :param placed_by_nova: see :func:`sriov_rt.decide.realtime.reasons`.
    :param any_kernel: whether to serve only flavors without
        ``sriov_rt:kernel=preempt_rt``.
    :param further: other Reasons that it is not ready, such as those of
        :func:`reasons` for a mode.
    """
    must = list(realtime.reasons(facts, placed_by_nova=placed_by_nova))
    if placed_by_nova:
        must += compute_driver.reasons(facts)
    must += maintenance.reasons(facts)
    should = list(realtime.advice(facts, placed_by_nova=placed_by_nova))
    should += demands.missing_parents(facts)
    (should if any_kernel else must).extend(demands.preempt_rt(facts))
    must += further
    return Readiness(
        _once(must), _once(each for each in should if each not in must)
    )


def _once(found: Iterable[Reason]) -> tuple[Reason, ...]:
    return tuple({each.message: each for each in found}.values())


def _nic(facts: HostFacts) -> Iterator[Reason]:
    nics = facts.nics.nics
    if isinstance(nics, Unknown):
        yield unknown("nics", nics)
    elif not nics:
        yield reason("host_without_nic", nic="PCI")
    elif not any(nic.is_ethernet for nic in nics):
        yield demands.not_ethernet("PCI", nics)


def _vfs(facts: HostFacts) -> Iterator[Reason]:
    nics = facts.nics.nics
    if isinstance(nics, Unknown):
        yield unknown("nics", nics)
        return
    capable = [nic for nic in nics if nic.sriov_totalvfs]
    nics = tuple(nic for nic in nics if nic.is_ethernet)
    if capable and not any(nic.is_ethernet for nic in capable):
        yield demands.not_ethernet("SR-IOV", capable)
    elif not any(_known_vfs(nic) for nic in nics):
        unread = [
            value
            for nic in nics
            for value in (nic.sriov_totalvfs, nic.sriov_numvfs, nic.vfs)
            if isinstance(value, Unknown)
        ]
        if unread:
            yield unknown("nics.vfs", unread[0])
        elif any(nic.sriov_totalvfs for nic in nics):
            yield reason("no_vfs", nic="SR-IOV")
        else:
            yield reason("host_without_nic", nic="SR-IOV")


def _vfs_as_interfaces(facts: HostFacts) -> Iterator[Reason]:
    nics = facts.nics.nics
    if isinstance(nics, Unknown):
        return  # _vfs reports it
    for nic in nics:
        vfs = _known_vfs(nic)
        if vfs and all(_is_bare(vf) for vf in vfs):
            more = ", …" if len(vfs) > 8 else ""
            yield reason(
                "vfs_without_driver",
                pf=nic.name,
                vfs=", ".join(vf.address for vf in vfs[:8]) + more,
            )


def _known_vfs(nic: Nic) -> tuple[Vf, ...]:
    return () if isinstance(nic.vfs, Unknown) else nic.vfs


def _is_bare(vf: Vf) -> bool:
    return vf.driver is None or is_vfio(vf.driver)


def _iommu(facts: HostFacts) -> Iterator[Reason]:
    groups = facts.virt.iommu_groups
    if isinstance(groups, Unknown):
        yield unknown("virt.iommu_groups", groups)
    elif not groups:
        yield reason("iommu_off")


def _kvm(facts: HostFacts) -> Iterator[Reason]:
    kvm = facts.virt.kvm
    if isinstance(kvm, Unknown):
        yield unknown("virt.kvm", kvm)
    elif not kvm:
        yield reason("kvm_missing")


def _vfio(facts: HostFacts) -> Iterator[Reason]:
    yield from module(decisive(facts), "vfio_pci")


def _macvlan(facts: HostFacts) -> Iterator[Reason]:
    judged = decisive(facts)
    yield from module(judged, "macvlan")
    yield from demands.no_parents(judged)


def _onload(facts: HostFacts) -> Iterator[Reason]:
    judged = decisive(facts)
    yield from onload.usable(judged)
    yield from onload.nics(judged)


#: Checks of each mode. Containers on VFs need no IOMMU: some operators switch
#: it off for them, as DMA without translation is faster. They also work with
#: it (and iommu=pt).
MODES: Mapping[str, tuple[Check, ...]] = types.MappingProxyType(
    {
        "container-vf": (_vfs, _vfs_as_interfaces),
        "passthrough": (_iommu, _kvm, _vfio, _vfs),
        "macvlan": (_macvlan, _nic),
        "onload": (_nic, _onload),
    }
)


def reasons(mode: str, facts: HostFacts) -> Iterator[Reason]:
    """Yield the Reasons that keep a host from a mode.

    :param mode: a key of :data:`MODES`.
    """
    for check in MODES[mode]:
        yield from check(facts)
