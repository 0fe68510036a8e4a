# SPDX-License-Identifier: Apache-2.0

"""Ports for display, as their records and the kernel show them."""

import dataclasses

from sriov_rt.kernel.link import Link
from sriov_rt.nic import tenancy
from sriov_rt.vif import errors
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.search import Search
from sriov_rt.vif.search import among
from sriov_rt.vif.view import View


def ports(host: Host) -> tuple[Plugged, ...]:
    """Return all ports.

    Libvirt may have moved a port that was made on the host into a container.
    """
    view = host.observe()
    search = Search(host.links, host.vfs)
    # A port has nothing of a VF that was made again.
    there = [each for each in view.records if not search.is_remade(each)]
    found = {each.port: search.in_place(each) for each in there}
    moved = [
        each
        for each in there
        if found[each.port] is None and each.namespace is None
    ]
    everywhere = host.links.all(everywhere=True) if moved else ()
    for each in moved:
        found[each.port] = among(each, everywhere)
    return tuple(
        plugged(each, found.get(each.port), view) for each in view.records
    )


def plugged(record: Record, link: Link | None, view: View) -> Plugged:
    """Return a port as its record and the kernel show it.

    :param link: its interface; None if it is not where it was plugged.
    """
    found = _recorded(record)
    state = None if record.vf is None else view.vf_at(record.vf)
    if state is not None and not view.is_on(record, state):
        state = None
    if state is not None:
        found = dataclasses.replace(found, vlan=state.settings.vlan or 0)
    if record.is_quarantined:
        reason = record.reason
        if record.damaged:
            reason += f"; {errors.RecordDamaged.advise(record.port)}"
        return dataclasses.replace(found, state=record.state, reason=reason)
    if link is None:
        return found
    seen = _seen(found, link)
    if state is None or not (drifted := view.drift(state)):
        return seen
    command = tenancy.command(
        state.tenancy, state.settings, state.id.pf, state.id.index
    )
    reason = (
        f"{', '.join(drifted)}: it was changed behind its ports, and no "
        f"further port is plugged there; set it back by '{command}', or "
        "unplug them"
    )
    return dataclasses.replace(seen, state=State.DRIFTED, reason=reason)


def made(record: Record, link: Link) -> Plugged:
    """Return a port that was just made."""
    return _seen(_recorded(record), link)


def _recorded(record: Record) -> Plugged:
    return Plugged(
        port=record.port,
        owner=record.owner,
        kind=record.kind,
        mode=record.mode,
        interface=record.interface,
        namespace=record.namespace,
        parent=record.nic if record.kind == Kind.VF else record.parent,
        mac=record.mac,
        vlan=record.request.vlan,
        mtu=record.request.mtu or 0,
        vf=record.vf,
        network=record.network,
        accelerated=record.accelerated,
        state=State.ABSENT,
        physical_network=record.request.physical_network,
    )


def _seen(found: Plugged, link: Link) -> Plugged:
    return dataclasses.replace(
        found,
        interface=link.name,
        namespace=link.namespace,
        mac=link.mac,
        mtu=link.mtu,
        # drivers/net/macvtap.c: "tap%d" with the interface's index.
        tap=f"/dev/tap{link.index}" if link.kind == "macvtap" else None,
        state=State.PLUGGED,
    )
