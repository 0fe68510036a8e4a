# SPDX-License-Identifier: Apache-2.0

"""Ports as they are reported: to the records and to callers."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.vif import alias
from sriov_rt.vif import log
from sriov_rt.vif import records
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.records import Record
from sriov_rt.vif.view import View


def about(record: Record) -> str:
    """Return how the lines of a log about a port begin."""
    return log.about(record.port, record.vf)


def intent(
    plan: PlugPlan, namespace_id: Identity | None, request: Plug
) -> Record:
    """Return the record of a port that is about to be plugged.

    :param namespace_id: the namespace that it is to be in.
    :param request: the port as it was requested.
    """
    chosen = plan.request
    whole = chosen.kind == Kind.VF
    return Record(
        boot=records.boot_id(),
        port=chosen.port,
        owner=chosen.owner,
        kind=chosen.kind,
        mode=chosen.mode,
        interface=plan.interface,
        namespace=chosen.namespace,
        namespace_id=namespace_id,
        index=0 if whole else rtnetlink.choose_index(),
        parent=plan.parent,
        parent_index=plan.parent_index,
        vf=plan.vf.address if plan.vf else None,
        nic=plan.vf.pf if plan.vf else plan.parent,
        mac=chosen.mac or "",
        accelerated=chosen.onload,
        request=request,
        state=State.PLUGGING,
        parent_up=plan.parent_up,
        parent_mtu=plan.parent_mtu,
        inode=plan.inode,
    )


def done(record: Record, link: Link, nodes: tuple[int, int]) -> Record:
    """Return the record of a port that was just plugged.

    :param record: its intent.
    :param nodes: of its interface and of what it sits on.
    """
    return dataclasses.replace(
        record,
        interface=link.name,
        index=link.index,
        mac=link.mac,
        state=State.PLUGGED,
        node=nodes[0],
        parent_node=nodes[1],
    )


def is_it(record: Record, link: Link | None) -> bool:
    """Return whether a link is the macvlan, macvtap or ipvlan of a port."""
    return link is not None and (link.index, link.kind, link.parent) == (
        record.index,
        record.kind,
        record.parent_index,
    )


def is_of(record: Record, link: Link) -> bool:
    """Return whether a link is the interface of a port, wherever it is."""
    if record.kind == Kind.VF:
        return link.device == record.vf
    return is_it(record, link)


def among(record: Record, links: Iterable[Link]) -> Link | None:
    """Return the interface of a port among links, None if it is not there."""
    return next((each for each in links if is_of(record, each)), None)


def located(
    record: Record, on_host: Sequence[Link], elsewhere: Sequence[Link]
) -> Record:
    """Return a damaged record with where an alias says that its port is.

    :param on_host: the links of the host.
    :param elsewhere: those of other namespaces.
    """
    names = {each.index: each.name for each in on_host}
    for link in (*on_host, *elsewhere):
        if not alias.names(link.alias, record.port):
            continue
        if not link.kind:
            return dataclasses.replace(
                record, kind=Kind.VF, vf=link.device or None
            )
        if link.parent:
            return dataclasses.replace(
                record,
                interface=link.name,
                namespace_id=link.namespace_id,
                index=link.index,
                parent=names.get(link.parent, ""),
                parent_index=link.parent,
            )
    return record


def differences(record: Record, request: Plug) -> dict[str, str]:
    """Return what is requested of a port that is plugged otherwise.

    :returns: ``what it is, not what is asked`` by the field. Where the choice
        was left to us, whatever it is is what is asked.
    """
    is_ = record.request
    found = {}
    for field, now, requested in (
        ("owner", record.owner, request.owner),
        ("kind", record.kind, request.kind),
        ("mode", record.mode, request.mode),
        ("network", is_.physical_network, request.physical_network),
        ("parent", record.parent, request.parent or record.parent),
        ("interface", record.interface, request.name),
        ("MAC", record.mac, request.mac or record.mac),
        ("VLAN", is_.vlan, request.vlan),
        ("MTU", is_.mtu, request.mtu),
        ("kbit/s out", is_.limits.out_kbps, request.limits.out_kbps),
        ("kbit/s in", is_.limits.in_kbps, request.limits.in_kbps),
        ("addresses", is_.addresses, request.addresses),
        ("routes", is_.routes, request.routes),
        ("onload", _onload(record, request), request.onload),
        ("network of onload", _network(record, request), _net(request)),
    ):
        if now != requested:
            found[field] = f"{_text(now)}, not {_text(requested)}"
    return found


def _onload(record: Record, request: Plug) -> bool:
    # What was to be accelerated and could not be may be asked for as either.
    either = {record.request.onload, record.accelerated}
    return request.onload if request.onload in either else record.accelerated


def _network(record: Record, request: Plug) -> str | None:
    return record.request.network if request.onload else None


def _net(request: Plug) -> str | None:
    return request.network if request.onload else None


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def plugged(record: Record, link: Link | None, view: View) -> Plugged:
    """Return a port as its record and the kernel have it.

    :param link: its interface; None if it is not where it was plugged.
    """
    found = _recorded(record)
    state = None if record.vf is None else view.vf_at(record.vf)
    if state is not None and not view.is_on(record, state):
        state = None
    if state is not None:
        found = dataclasses.replace(found, vlan=state.settings.vlan or 0)
    if record.is_quarantined:
        return dataclasses.replace(
            found, state=record.state, reason=record.reason
        )
    if link is None:
        return found
    seen = _seen(found, link)
    drifted = () if state is None else view.drift(state)
    if not drifted:
        return seen
    reason = (
        f"{', '.join(drifted)}: it was changed behind its ports, and no "
        "further port is plugged there; set it back by 'ip link set "
        f"{record.nic} vf', or unplug them"
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


def lines(found: dict[str, str]) -> Iterator[str]:
    """Yield differences as clauses."""
    return (f"{field} is {reported}" for field, reported in found.items())
