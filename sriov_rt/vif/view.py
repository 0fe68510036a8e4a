# SPDX-License-Identifier: Apache-2.0

"""View of a host: its links and VFs, and the ports on them."""

import dataclasses
import functools
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Protocol

from sriov_rt.kernel.link import Link
from sriov_rt.kernel.links import Links
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.nic import tenancy
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import UNKNOWN_INODE
from sriov_rt.nic.use import Use
from sriov_rt.vif import alias
from sriov_rt.vif.model import Child
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record

#: Kinds whose link is a peer, not a parent; a device has no link.
PEERS = frozenset({"", "veth", "netkit", "vxcan"})


class Source(Protocol):
    """Source of a view's VFs."""

    def list(self) -> Sequence[VfState]:
        """Return all VFs."""

    def of(self, interface: str) -> VfState | None:
        """Return the VF of an interface; None if it is no VF's."""


class View:
    """A host at one moment: its interfaces, and the records of its ports.

    :param source: reads VFs when they are first needed: a plug on one of 64
        needs only that one.
    :param records: records of all ports.
    :param avoid: parents of pools that have turned out to be taken.
    """

    def __init__(
        self,
        links: Links,
        source: Source,
        records: Sequence[Record] = (),
        avoid: Collection[str] = (),
    ) -> None:
        self.links = links
        self.avoid = avoid
        self.source = source
        self.records = records
        self._on_host: dict[str, Link] = {}
        self._by_index: dict[int, Link] = {}
        self._seen: dict[int, dict[Key, Link]] = {}
        #: Interfaces of processes that test, or tested, whether a parent is
        #: idle.
        self.probes: list[Link] = []
        # VFs that were read one by one, by their interfaces on the host.
        self._read: dict[str, VfState | None] = {}
        self._looked = False
        self._take(links.all())

    def look_everywhere(self) -> None:
        """Add the interfaces of all namespaces, once.

        It is for the rare acts that could affect unrecorded users.
        """
        if not self._looked:
            self._looked = True
            self._take(self.links.all(everywhere=True, thorough=True))

    def _take(self, links: Iterable[Link]) -> None:
        for each in links:
            if each.is_probe:
                self.probes.append(each)
                continue
            if each.namespace is None:
                self._on_host[each.name] = self._by_index[each.index] = each
            if each.parent is not None and each.kind not in PEERS:
                on = self._seen.setdefault(each.parent, {})
                on[each.namespace_id, each.index] = each

    @functools.cached_property
    def _by_parent(self) -> Mapping[int, Sequence[Record]]:
        """Ports on each parent, by its index."""
        found: dict[int, list[Record]] = {}
        for each in self.records:
            found.setdefault(each.parent_index, []).append(each)
        return found

    @functools.cached_property
    def _by_vf(self) -> Mapping[str, Sequence[Record]]:
        """Ports that are or sit on each VF, by its address."""
        found: dict[str, list[Record]] = {}
        for each in self.records:
            if each.vf is not None:
                found.setdefault(each.vf, []).append(each)
        return found

    @functools.cached_property
    def _damaged(self) -> Sequence[Record]:
        return [each for each in self.records if each.damaged]

    @functools.cached_property
    def vfs(self) -> Sequence[VfState]:
        """All VFs."""
        return self.source.list()

    @functools.cached_property
    def _by_netdev(self) -> Mapping[str, VfState]:
        return {each.netdev: each for each in self.vfs if each.netdev}

    @functools.cached_property
    def _by_address(self) -> Mapping[str, VfState]:
        return {each.id.address: each for each in self.vfs}

    def named(self, name: str, namespace: str | None) -> Link | None:
        """Return an interface of any namespace by its name."""
        if namespace is None:
            return self.on_host(name)
        return self.links.get(name, namespace)

    def record_of(self, link: Link) -> Record | None:
        """Return the record of the port whose interface a link is."""
        for each in self._of_vf(link):
            if each.kind == Kind.VF:
                return each
        for each in self.records:
            place = (each.namespace_id, each.index)
            if each.kind != Kind.VF and place == (
                link.namespace_id,
                link.index,
            ):
                return each
        for each in self._damaged:
            if alias.names(link.alias, each.port):
                return each
        return None

    def on_host(self, name: str) -> Link | None:
        """Return an interface of the caller's namespace by its name."""
        return self._on_host.get(name)

    def parent(self, link: Link) -> Link | None:
        """Return the parent of a subinterface, if it is on the host."""
        return None if link.parent is None else self._by_index.get(link.parent)

    def children(self, link: Link) -> Sequence[Child]:
        """Return what sits on an interface, as seen and as recorded.

        That is here and, after a look everywhere, in every namespace.
        """
        seen = self._seen.get(link.index, {})
        recorded = [
            each
            for each in self._by_parent.get(link.index, ())
            if each.kind != Kind.VF
            and not each.removed
            and (each.namespace_id, each.index) not in seen
        ]
        return [*seen.values(), *recorded]

    def holder(self, link: Link) -> Record | None:
        """Return the port that has the VF of an interface to itself.

        A quarantined port does not: see :meth:`quarantined`.
        """
        vf = self.vf_of(link)
        if vf is None:
            return None
        for each in self._by_vf.get(vf.id.address, ()):
            if not self.is_on(each, vf):
                continue
            if each.kind == Kind.VF and not each.is_quarantined:
                return each
        return None

    def quarantined(self, link: Link) -> Record | None:
        """Return a quarantined port that may be on an interface."""
        found = [each for each in self.on(link) if each.is_quarantined]
        # A port that may still be there itself comes first.
        return min(found, key=lambda each: each.removed, default=None)

    def on(self, link: Link) -> Sequence[Record]:
        """Return the ports on an interface, and those of its VF.

        Another interface may have got its index, so it is also known by
        device.
        """
        found = {
            each.port: each
            for each in (
                *self._by_parent.get(link.index, ()),
                *self._of_vf(link),
                # A damaged record may have only a part of the facts.
                *(each for each in self._damaged if each.parent == link.name),
            )
        }
        return [found[port] for port in sorted(found)]

    def _of_vf(self, link: Link) -> Sequence[Record]:
        """Return the ports that are or sit on the VF of an interface."""
        found = self._by_vf.get(link.device, ())
        vf = self.vf_of(link) if found else None
        return [each for each in found if vf is None or self.is_on(each, vf)]

    def is_on(self, record: Record, vf: VfState) -> bool:
        """Return whether a port's VF is the one now at its address."""
        inodes = (record.inode, vf.tenancy.inode)
        return UNKNOWN_INODE in inodes or len(set(inodes)) == 1

    def drift(self, vf: VfState) -> tuple[str, ...]:
        """Return settings of a VF that others have changed, as clauses."""
        ports = self._by_vf.get(vf.id.address, ())
        if not any(self.is_on(each, vf) for each in ports):
            return ()
        return tenancy.drift(vf.tenancy, vf.settings)

    def use(self, link: Link, *, look: bool = False) -> Use:
        """Return who uses an interface, as recorded and as seen.

        :param look: whether to ask the kernel, too, if something unseen is on
            it, and then to look in all namespaces.
        """
        found = used(self.on(link))
        unseen = False
        if look and not found.is_seen:
            unseen = self.links.idle(link.name) is False
            self.look_everywhere()
        children = () if found.is_seen else self.children(link)
        return dataclasses.replace(
            found,
            on=tuple(map(_child, children)),
            unseen=unseen and not children,
        )

    def at(self, index: int) -> Link | None:
        """Return an interface of the caller's namespace by its index."""
        return self._by_index.get(index)

    def vf(self, netdev: str) -> VfState | None:
        """Return the VF whose interface has a name on the host."""
        if "vfs" in self.__dict__:
            return self._by_netdev.get(netdev)
        if netdev not in self._read:
            self._read[netdev] = self.source.of(netdev)
        return self._read[netdev]

    def vf_at(self, address: str) -> VfState | None:
        """Return the VF at a PCI address."""
        return self._by_address.get(address)

    def vf_of(self, link: Link) -> VfState | None:
        """Return the VF whose interface a link is, wherever it is."""
        if link.kind:
            return None
        if not link.namespace:
            return self.vf(link.name)
        return self.vf_at(link.device) if link.device else None

    def vfs_of(self, pf: str) -> Iterator[VfState]:
        """Yield a PF's VFs that have an interface on the host."""
        return (each for each in self.vfs if each.id.pf == pf and each.netdev)


#: Place of an interface: its namespace and its index.
Key = tuple[Identity | None, int]


def used(records: Iterable[Record]) -> Use:
    """Return the use of one VF or parent, by its ports' records.

    :param records: records of those ports alone.
    """
    whole = None
    ports = []
    quarantined = []
    for each in records:
        clause = f"port {each.port} of {who(each)}"
        if each.is_quarantined:
            quarantined.append(clause)
        elif each.kind == Kind.VF:
            whole = clause
        else:
            ports.append(clause)
    return Use(whole=whole, ports=tuple(ports), quarantined=tuple(quarantined))


def who(record: Record) -> str:
    """Return the owner of a port, and why it is quarantined if it is."""
    if record.is_quarantined:
        return f"{record.owner} (quarantined: {record.reason})"
    return record.owner


def _child(child: Child) -> str:
    where = "" if child.namespace is None else f" in {child.namespace}"
    return f"{child.kind} {child.name}{where}"
