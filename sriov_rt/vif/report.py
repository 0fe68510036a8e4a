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


"""What is told of ports: to the journal, to the logs, to who asks."""

from sriov_rt.vif import errors
from sriov_rt.vif import names
from sriov_rt.vif import tell
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.edge import Link
from sriov_rt.vif.entries import Action
from sriov_rt.vif.entries import Entry
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.view import KINDS
from sriov_rt.vif.view import View
from sriov_rt.vif.words import Kind
from sriov_rt.vif.words import Plug
from sriov_rt.vif.words import Plugged


def about(entry: Entry) -> str:
    """Return how the lines of a log about a port begin."""
    return tell.about(entry.port, entry.vf)


def intent(plan: PlugPlan) -> Entry:
    """Return the journal's entry for a plug."""
    want = plan.want
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
    )


def departing(view: View, port: str) -> tuple[Entry, ...]:
    """Return the journal's entries for an unplug.

    It is one, but for an alias that somebody has set on something else too.
    """
    found: dict[tuple[Kind, str], Entry] = {}
    for link, whose in view.port(port):
        parent, vf = _under(view, link)
        if not link.kind:
            parent = whose.home or _plain(link.name, port)
        entry = Entry(
            action=Action.UNPLUG,
            port=port,
            owner=whose.owner,
            kind=KINDS[link.kind],
            interface=_plain(link.name, port),
            namespace=link.namespace,
            parent=parent,
            vf=vf,
            parent_up=True,
        )
        found.setdefault((entry.kind, parent), entry)
    return tuple(found.values())


def standing(view: View, want: Plug) -> Plugged | None:
    """Return the port if it is there already.

    Wherever it is: a container's manager may have moved it on.

    :raises AlreadyPlugged: if it is another kind's, mode's or owner's.
    """
    for link, whose in view.port(want.port):
        mode = link.mode if link.kind else None
        if (KINDS[link.kind], mode, whose.owner) == (
            want.kind,
            want.mode,
            want.owner,
        ):
            return _plugged(view, link, whose)
        raise errors.AlreadyPlugged(
            link.name,
            port=want.port,
            detail=f"{KINDS[link.kind]} {mode or ''} of {whose.owner}",
        )
    return None


def plugged(view: View) -> tuple[Plugged, ...]:
    """Return all ports, sorted."""
    found = [_plugged(view, *each) for each in view.ours]
    return tuple(sorted(found, key=lambda each: (each.port, each.interface)))


def made(plan: PlugPlan, link: Link) -> Plugged:
    """Return a port that was just made."""
    want = plan.want
    whole = want.kind == Kind.VF
    parent = plan.vf.pf if whole and plan.vf else plan.parent
    return Plugged(
        port=want.port,
        owner=want.owner,
        kind=want.kind,
        mode=want.mode,
        interface=link.name,
        namespace=link.namespace,
        parent=parent,
        mac=link.mac,
        vlan=want.vlan,
        mtu=link.mtu,
        vf=plan.vf.address if plan.vf else None,
        tap=_tap(link),
        network=plan.alias.network or None,
        accelerated=bool(plan.alias.network),
    )


def _plugged(view: View, link: Link, whose: Alias) -> Plugged:
    parent, vf = _under(view, link)
    state = None if vf is None else view.vf_at(vf)
    return Plugged(
        port=whose.port,
        owner=whose.owner,
        kind=KINDS[link.kind],
        mode=link.mode if link.kind else None,
        interface=link.name,
        namespace=link.namespace,
        parent=parent,
        mac=link.mac,
        vlan=(state.settings.vlan or 0) if state else 0,
        mtu=link.mtu,
        vf=vf,
        tap=_tap(link),
        network=whose.network or None,
        accelerated=bool(whose.network),
    )


def _plain(name: str, port: str) -> str:
    """Return a name as the journal takes it: root there can choose any."""
    try:
        return names.interface(name)
    except errors.NameInvalid:
        return names.default(port)


def _under(view: View, link: Link) -> tuple[str, str | None]:
    """Return the name of a port's parent, and its VF's address."""
    if not link.kind:
        state = view.vf_of(link)
        if state is None:
            return "", link.device or None
        return state.id.pf, state.id.address
    parent = view.parent(link)
    if parent is None:
        return "", None
    state = view.vf_of(parent)
    return parent.name, state.id.address if state else None


def _tap(link: Link) -> str | None:
    # drivers/net/macvtap.c: "tap%d" with the interface's index.
    return f"/dev/tap{link.index}" if link.kind == "macvtap" else None
