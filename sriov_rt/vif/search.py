# SPDX-License-Identifier: Apache-2.0

"""Search for a port's interface, its parent, and the parent's children."""

from collections.abc import Iterable
from collections.abc import Sequence

from sriov_rt.kernel.link import Link
from sriov_rt.kernel.links import Links
from sriov_rt.nic.tenancy import UNKNOWN_INODE
from sriov_rt.nic.vfs import Vfs
from sriov_rt.reason import first_of
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.proof import NAMED
from sriov_rt.vif.proof import Where
from sriov_rt.vif.view import PEERS
from sriov_rt.vif.view import View

#: How many interfaces that may be on a parent are inspected, some ms each: a
#: tenant can have thousands on one with the same index.
MAX_LOOKS = 256

#: Kinds that a tenant can stack on our interface.
KINDS = ("macvlan", "macvtap", "ipvlan", "ipvtap")


def is_it(record: Record, link: Link | None) -> bool:
    """Return whether a link is the macvlan, macvtap or ipvlan of a port."""
    return link is not None and (link.index, link.kind, link.parent) == (
        record.index,
        record.kind,
        record.parent_index,
    )


def is_of(record: Record, link: Link) -> bool:
    """Return whether a link is a port's interface, wherever it is."""
    if record.kind == Kind.VF:
        return link.device == record.vf
    return is_it(record, link)


def among(record: Record, links: Iterable[Link]) -> Link | None:
    """Return a port's interface among links; None if it is not there."""
    return next((each for each in links if is_of(record, each)), None)


def has_others(parent: Link, on: Sequence[Link]) -> bool:
    """Return whether the host itself uses an interface.

    :param on: the interfaces that are seen on it.
    """
    return parent.master is not None or any(
        each.namespace is None or each.kind not in KINDS for each in on
    )


class Search:
    """Looks for recorded interfaces, wherever a tenant may have moved them."""

    def __init__(self, links: Links, vfs: Vfs) -> None:
        self._links = links
        self._vfs = vfs

    def in_place(self, record: Record) -> Link | None:
        """Return a port's interface if it is where it was plugged."""
        if not record.index:
            return None  # a damaged record does not say which it is
        there = self._links.at(
            record.namespace, record.namespace_id, record.index
        )
        if there is None or is_of(record, there):
            return there
        whole = record.kind == Kind.VF
        return there if whole and not there.device else None

    def proven(self, record: Record) -> Link | None:
        """Return the interface in place, unless its node is another's."""
        there = self.in_place(record)
        if there is None or not record.node:
            return there
        return there if self._links.node(there) == record.node else None

    def find(self, record: Record) -> Link | None:
        """Return a port's interface wherever it is; None if it is not seen."""
        if self.is_remade(record):
            return None
        there = self.in_place(record)
        if there is not None:
            return there
        return among(record, self._links.all(everywhere=True))

    def is_remade(self, record: Record) -> bool:
        """Return whether a port's address now has another VF."""
        if record.vf is None:
            return False
        now = self._vfs.tenancies.get(record.vf).inode
        return UNKNOWN_INODE not in (now, record.inode) and (
            now != record.inode
        )

    def anywhere(self, record: Record) -> Link | None:
        """Return a port's very interface wherever it is; None if unseen.

        :param record: record of a macvlan, macvtap or ipvlan.
        """
        if record.node:
            seen = self._links.inventory()
            place = seen.places.get(record.node)
            if place is not None:
                found = self._links.of_node(record.node, place)
                if found is not None:
                    return found
            elif seen.unseen == 0:
                return None
        for thorough in (False, True):
            for each in self._links.all(everywhere=True, thorough=thorough):
                if is_it(record, each) and (
                    not record.node
                    or self._links.node(each) in (0, record.node)
                ):
                    return each
        return None

    def parent(self, record: Record, view: View) -> tuple[Where, Link | None]:
        """Return where a port's parent is, with its link if it is on the host.

        It is known by its node, or by its index if no node was noted: any
        interface can have its name.
        """
        link = view.at(record.parent_index)
        node = record.parent_node
        if link is not None and (not node or self._links.node(link) == node):
            return Where.ON_HOST, link
        if node:
            found = self._links.inventory()
            place = found.places.get(node)
            if place is not None:
                own = place.namespace_id is None and view.on_host(place.name)
                return (Where.ON_HOST, own) if own else (Where.ELSEWHERE, None)
            if found.unseen == 0:
                return Where.DESTROYED, None
        if record.vf is None:
            return Where.UNKNOWN, None
        vf = view.vf_at(record.vf)
        if vf is None:
            there = self._vfs.is_present(record.vf)
            return Where.UNKNOWN if there else Where.DESTROYED, None
        if not view.is_on(record, vf):
            return Where.DESTROYED, None  # it was made again
        # A VF has one interface: if it has another now, the first is gone.
        other = None if vf.netdev is None else view.on_host(vf.netdev)
        if other is not None and other.device == record.vf:
            return Where.DESTROYED, None
        if vf.netdev is None and not vf.device.elsewhere:
            return Where.DESTROYED, None
        return Where.UNKNOWN, None

    def place_of_parent(self, record: Record) -> str:
        """Return the namespace that a parent is in now, as a clause."""
        place = self._links.inventory().places.get(record.parent_node)
        if place is None or place.namespace is None:
            return "a namespace that nothing names"
        return f"{place.namespace}, where it is {place.name}"

    def is_idle(self, record: Record, view: View) -> bool:
        """Return whether the kernel reports that a parent is idle.

        :param view: an earlier view of the host.
        """
        _, parent = self.parent(record, view)
        now = None if parent is None else self._links.get(parent.name)
        return (
            now is not None
            and parent is not None
            and now.index == parent.index
            and bool(self._links.idle(now.name))
        )

    def on(self, parent: Link) -> Sequence[Link]:
        """Return the interfaces seen on a parent, in all namespaces."""
        return [
            each
            for each in self._links.all(everywhere=True, thorough=True)
            if each.parent == parent.index and each.kind not in PEERS
        ]

    def unaccounted(
        self, parent: Link, records: Sequence[Record]
    ) -> tuple[Sequence[Link], int | None]:
        """Return unaccounted interfaces on a parent, all at one moment.

        They belong to no port and are not in the host's own namespace. Two
        looks are no proof: an interface that is moved to and fro can escape
        both. So each unaccounted node is followed, and counts as unseen if it
        has moved on by then.

        :param records: records of other ports.
        :returns: the interfaces, and how many that cannot be seen may be on
            it; None if the kernel cannot tell.
        """
        known = {each.node for each in records if not each.removed}
        seen = self._links.inventory(parent.index, known)
        found = [
            self._links.of_node(node, seen.places[node])
            for node in sorted(seen.on)[:MAX_LOOKS]
        ]
        links = [each for each in found if each is not None]
        lost = len(seen.on) - len(links)
        return [
            each
            for each in links
            if each.parent == parent.index and each.kind not in PEERS
        ], None if seen.unseen is None else seen.unseen + lost

    def strays(
        self, on: Sequence[Link], records: Sequence[Record]
    ) -> Sequence[Link]:
        """Return a parent's interfaces elsewhere that belong to no port."""
        return [
            each
            for each in on
            if each.kind in KINDS
            and each.namespace is not None
            and not self.has_port(each, records)
        ]

    def has_port(self, link: Link, records: Sequence[Record]) -> bool:
        """Return whether a link is a port's, by its node if that is known."""
        node = self._links.node(link)
        return any(
            each.node == node if each.node else is_it(each, link)
            for each in records
            if each.kind != Kind.VF and not each.removed
        )

    def clue(self, record: Record, parent: Link) -> str:
        """Return what is known of an unseen interface, as a clause."""
        if record.namespace_id is None:
            return f"{record.interface} has left the host and cannot be seen"
        if not self._links.ended(record.namespace_id):
            return (
                f"{record.interface} has left its namespace, which is there "
                "still"
            )
        heard = self._links.unknown_macs(
            parent.name, {each.mac for each in self.on(parent)}
        )
        if heard:
            return (
                "its namespace has ended, and somebody unseen has the MAC "
                f"{first_of(heard, NAMED)}"
            )
        return (
            "its namespace has ended, and something that cannot be seen may "
            f"be on {parent.name}"
        )
