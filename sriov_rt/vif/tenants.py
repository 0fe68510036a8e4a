# SPDX-License-Identifier: Apache-2.0

"""Ports on the VFs of a host, wherever their interfaces are."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.exceptions import SriovRtError
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel.links import Links
from sriov_rt.nic import mapping
from sriov_rt.nic import use
from sriov_rt.nic.model import VfState
from sriov_rt.nic.use import Use
from sriov_rt.vif import host
from sriov_rt.vif.model import Record
from sriov_rt.vif.view import View
from sriov_rt.vif.view import used
from sriov_rt.vif.view import who

#: Port and owner; the owner says why the port is quarantined, if it is.
Tenant = tuple[str, str]


def of_host(
    states: Sequence[VfState], log: Callable[[str], None]
) -> Mapping[str, Sequence[Tenant]]:
    """Return the ports on the VFs of this host, by the VF's address.

    :param log: logs why the records cannot be read: then there are none.
    """
    try:
        return of(host.records().every())
    except SriovRtError as error:
        log(f"ports are not shown: {error}")
        return {}


def of(records: Iterable[Record]) -> Mapping[str, Sequence[Tenant]]:
    """Return the ports on VFs, by the VF's address."""
    found: dict[str, list[Tenant]] = {}
    for each in records:
        if each.vf is None:
            continue
        found.setdefault(each.vf, []).append((each.port, who(each)))
    return found


def uses(
    states: Sequence[VfState], *, guests: bool = False
) -> Mapping[str, Use]:
    """Return the use of VFs by address, for the judge of use.

    :param guests: whether to look for guests with a VF on vfio-pci, too.
    :raises SriovRtError: if the caller may not look.
    """
    found = uses_among(states, host.records().every(), Links())
    if not guests:
        return found
    owners = mapping.Owners(Root())
    return {
        state.id.address: dataclasses.replace(
            found[state.id.address], guest=owners.of(state.id, state.device)
        )
        if is_vfio(state.driver)
        else found[state.id.address]
        for state in states
    }


def uses_among(
    states: Sequence[VfState], records: Sequence[Record], links: Links
) -> Mapping[str, Use]:
    """Return the use of VFs, by the VF's address; see :func:`uses`."""
    view = View(links, _Fixed(states), records)
    return {state.id.address: _use(state, view) for state in states}


def _use(state: VfState, view: View) -> Use:
    link = None if state.netdev is None else view.on_host(state.netdev)
    if link is None:
        seen = used(
            each
            for each in view.records
            if each.vf == state.id.address and view.is_on(each, state)
        )
        addressed = False
    else:
        seen = view.use(link, look=True)
        addressed = view.links.addressed(link)
    return use.shown(
        state,
        whole=seen.whole,
        ports=seen.ports,
        quarantined=seen.quarantined,
        on=seen.on,
        unseen=seen.unseen,
        addressed=addressed,
    )


def recorded(records: Iterable[Record]) -> Mapping[str, Use]:
    """Return the use of VFs, by address, that records show."""
    by_vf: dict[str, list[Record]] = {}
    for each in records:
        if each.vf is not None:
            by_vf.setdefault(each.vf, []).append(each)
    return {address: used(some) for address, some in by_vf.items()}


class _Fixed:
    """VFs that were read before."""

    def __init__(self, states: Sequence[VfState]) -> None:
        self._states = states

    def list(self) -> Sequence[VfState]:
        return self._states

    def of(self, interface: str) -> VfState | None:
        found = (each for each in self._states if each.netdev == interface)
        return next(found, None)
