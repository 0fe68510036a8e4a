# SPDX-License-Identifier: Apache-2.0

"""Counters of VFs by their owners: traffic of guests with a VF.

Only the PF can count the traffic of a guest's VF. A driver that does not count
leaves zeros, as idle VFs do: if a PF has counted nothing for any VF, its
counters are unknown. A VF with an interface on this host counts by itself.
"""

from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.exceptions import SriovRtError
from sriov_rt.facts import CountedVf
from sriov_rt.facts import VfCounters
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel.vf import changed
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import host
from sriov_rt.vif.model import Record

#: The most VFs that are counted, which bounds the series of each metric: four
#: PFs of 256.
MAX_VFS = 1024

#: Fields of VfCounters, and their names in IFLA_VF_STATS and in the statistics
#: directory of an interface.
_NAMES = {
    f"{way}_{what}": f"{short}_{what}"
    for way, short in (("receive", "rx"), ("transmit", "tx"))
    for what in ("packets", "bytes", "dropped")
}

_NOT_COUNTED = Unknown(
    "the PF has counted nothing of any VF; its driver may have no counters "
    "of VFs (ndo_get_vf_stats)"
)


def of_host(pf: str | None = None) -> tuple[CountedVf, ...]:
    """Return the VFs of a PF, or of this host; MAX_VFS at most.

    :raises SriovRtError: if the VFs or the records of ports cannot be read.
    """
    return observe(Vfs.of_host(), host.records().every(), Root(), pf)


def observe(
    vfs: Vfs, records: Sequence[Record], root: Root, only: str | None = None
) -> tuple[CountedVf, ...]:
    """Return VFs with their counters, sorted.

    :param records: records of the ports on them.
    :param root: host that has the statistics of interfaces.
    :param only: PF whose VFs are returned; None for all.
    :raises NotAPf: if that interface can have no VFs.
    """
    ports: dict[str, list[Record]] = {}
    for each in records:
        ports.setdefault(each.vf or "", []).append(each)
    found = []
    counted: dict[str, Mapping[int, Mapping[str, int]] | Unknown] = {}
    for state in vfs.list(only)[:MAX_VFS]:
        pf = state.id.pf
        if pf not in counted:
            counted[pf] = _by_pf(vfs, pf)
        port, instance = _owner(state, ports.get(state.id.address, ()))
        noted = state.tenancy.settings
        found.append(
            CountedVf(
                pf,
                state.id.index,
                state.id.address,
                port,
                instance,
                is_vfio(state.driver),
                _counters(state, counted[pf], root),
                None
                if noted is None
                else len(tuple(changed(state.settings, noted))),
            )
        )
    return tuple(found)


def _by_pf(vfs: Vfs, pf: str) -> Mapping[int, Mapping[str, int]] | Unknown:
    try:
        found = vfs.counters(pf)
    except SriovRtError as error:
        return Unknown(str(error))
    is_counting = any(any(each.values()) for each in found.values())
    return found if is_counting else _NOT_COUNTED


def _counters(
    state: VfState,
    counted: Mapping[int, Mapping[str, int]] | Unknown,
    root: Root,
) -> VfCounters | Unknown:
    if not isinstance(counted, Unknown):
        its = counted.get(state.id.index)
        if its is None:
            return Unknown("the PF does not count it")
        return VfCounters(**{x: its.get(y, 0) for x, y in _NAMES.items()})
    if state.netdev is None:
        return counted
    place = f"sys/class/net/{state.netdev}/statistics"
    found = {}
    for field, name in _NAMES.items():
        value = values.integer(root, f"{place}/{name}")
        if isinstance(value, Unknown):
            return value
        found[field] = value
    return VfCounters(**found)


def _owner(state: VfState, ports: Sequence[Record]) -> tuple[str, str]:
    """Return port and instance of a VF; empty if it has several ports."""
    if len(ports) == 1:
        return ports[0].port, ports[0].owner
    port = state.tenancy.of(Kind.PORT)
    others = [x for x in state.tenancy.holders if x.kind is not Kind.PORT]
    if ports or len(others) > 1:
        return "", ""
    return port.id if port else "", _name(others[0]) if others else ""


def _name(holder: Holder) -> str:
    # The id of a domain is its UUID; that of a pod is its sandbox's.
    if holder.kind is Kind.DOMAIN:
        return holder.id
    return holder.name or holder.id
