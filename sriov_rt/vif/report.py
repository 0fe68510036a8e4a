# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""Ports as they are reported: to journal, records and callers."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt import rtnetlink
from sriov_rt.vif import log
from sriov_rt.vif import records
from sriov_rt.vif.journal import Action
from sriov_rt.vif.journal import Entry
from sriov_rt.vif.link import Link
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.records import Record
from sriov_rt.vif.view import View


def about(entry: Entry) -> str:
    """Return how the lines of a log about a port begin."""
    return log.about(entry.port, entry.vf)


def intent(plan: PlugPlan, space: Identity | None) -> Entry:
    """Return the journal's entry for a plug.

    :param space: the namespace that it is to be in.
    """
    want = plan.want
    whole = want.kind == Kind.VF
    return Entry(
        action=Action.PLUG,
        port=want.port,
        owner=want.owner,
        kind=want.kind,
        interface=plan.interface,
        namespace=want.namespace,
        parent=plan.parent,
        vf=plan.vf.address if plan.vf else None,
        parent_up=plan.parent_up,
        boot=records.boot_id(),
        space=space,
        index=0 if whole else rtnetlink.choose_index(),
        parent_index=plan.parent_index,
    )


def departing(record: Record) -> Entry:
    """Return the journal's entry for an unplug."""
    return Entry(
        action=Action.UNPLUG,
        port=record.port,
        owner=record.owner,
        kind=record.kind,
        interface=record.interface,
        namespace=record.namespace,
        parent=record.parent,
        vf=record.vf,
        parent_up=True,
        boot=record.boot,
        space=record.space,
        index=record.index,
        parent_index=record.parent_index,
    )


def record(plan: PlugPlan, entry: Entry, link: Link, want: Plug) -> Record:
    """Return the record of a port that was just made.

    :param want: as it was asked for.
    """
    return Record(
        boot=entry.boot,
        port=entry.port,
        owner=entry.owner,
        kind=entry.kind,
        mode=plan.want.mode,
        interface=link.name,
        namespace=entry.namespace,
        space=entry.space,
        index=link.index,
        parent=entry.parent,
        parent_index=entry.parent_index,
        vf=entry.vf,
        nic=plan.vf.pf if plan.vf else plan.parent,
        mac=link.mac,
        accelerated=plan.want.onload,
        asked=want,
    )


def is_it(entry: Entry | Record, link: Link | None) -> bool:
    """Return whether a link is the macvlan, macvtap or ipvlan of an entry."""
    return link is not None and (link.index, link.kind, link.parent) == (
        entry.index,
        entry.kind,
        entry.parent_index,
    )


def is_of(record: Record, link: Link) -> bool:
    """Return whether a link is the interface of a port, wherever it is."""
    if record.kind == Kind.VF:
        return link.device == record.vf
    return is_it(record, link)


def among(record: Record, links: Iterable[Link]) -> Link | None:
    """Return the interface of a port among links, None if it is not there."""
    return next((each for each in links if is_of(record, each)), None)


def differences(record: Record, want: Plug) -> dict[str, str]:
    """Return what is requested of a port that is plugged otherwise.

    :returns: ``what it is, not what is asked`` by the field. Where the choice
        was left to us, whatever it is is what is asked.
    """
    is_ = record.asked
    found = {}
    for field, now, asked in (
        ("owner", record.owner, want.owner),
        ("kind", record.kind, want.kind),
        ("mode", record.mode, want.mode),
        ("network", is_.physical_network, want.physical_network),
        ("parent", record.parent, want.parent or record.parent),
        ("interface", record.interface, want.name),
        ("MAC", record.mac, want.mac or record.mac),
        ("VLAN", is_.vlan, want.vlan),
        ("MTU", is_.mtu, want.mtu),
        ("kbit/s out", is_.limits.out_kbps, want.limits.out_kbps),
        ("kbit/s in", is_.limits.in_kbps, want.limits.in_kbps),
        ("addresses", is_.addresses, want.addresses),
        ("routes", is_.routes, want.routes),
        ("onload", _onload(record, want), want.onload),
        ("network of onload", _network(record, want), _net(want)),
    ):
        if now != asked:
            found[field] = f"{_text(now)}, not {_text(asked)}"
    return found


def _onload(record: Record, want: Plug) -> bool:
    # What was to be accelerated and could not be may be asked for as either.
    either = {record.asked.onload, record.accelerated}
    return want.onload if want.onload in either else record.accelerated


def _network(record: Record, want: Plug) -> str | None:
    return record.asked.network if want.onload else None


def _net(want: Plug) -> str | None:
    return want.network if want.onload else None


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def plugged(record: Record, link: Link | None, view: View) -> Plugged:
    """Return a port as its record and the kernel have it.

    :param link: its interface; None if it is not where it was plugged.
    """
    found = _recorded(record)
    if record.vf is not None and (state := view.vf_at(record.vf)):
        found = dataclasses.replace(found, vlan=state.settings.vlan or 0)
    if record.is_quarantined:
        return dataclasses.replace(
            found, state=record.state, reason=record.reason
        )
    return found if link is None else _seen(found, link)


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
        vlan=record.asked.vlan,
        mtu=record.asked.mtu or 0,
        vf=record.vf,
        network=record.network,
        accelerated=record.accelerated,
        state=State.ABSENT,
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
    return (f"{field} is {told}" for field, told in found.items())
