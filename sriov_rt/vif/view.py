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


"""View of a host: its links and VFs, and which port has which."""

import contextlib
import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.model import VfState
from sriov_rt.nic.plan import Plan
from sriov_rt.vif.link import Link
from sriov_rt.vif.link import Links
from sriov_rt.vif.model import Kind
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.records import Record
from sriov_rt.vif.records import Records

#: Kinds whose link is a peer, not what they sit on; a device has none.
_PEERS = frozenset({"", "veth", "netkit", "vxcan"})

#: Keeps the thread off the CPU that serves a VF's PF while it sets links of
#: the VF (see nic.affinity); None for no VF.
Away = Callable[[VfId | None], AbstractContextManager[object]]


def anywhere(vf: VfId | None) -> AbstractContextManager[object]:
    """Keep the thread off no CPU."""
    return contextlib.nullcontext()


class Vfs(Protocol):
    """What is needed of :class:`sriov_rt.nic.vfs.Vfs`."""

    def locate(self, name: str) -> VfId:
        """Return the VF of an interface."""

    def list(self, pf: str | None = None) -> tuple[VfState, ...]:
        """Return all VFs, or those of a PF."""

    def of(self, interface: str) -> VfState | None:
        """Return the VF of an interface, None if it is none's."""

    def observe(self, vf: VfId) -> VfState:
        """Return one VF."""

    def plan(self, vf: VfId, wanted: VfSettings) -> Plan:
        """Return what has to be done to it."""

    def plan_reset(self, vf: VfId, *, shared: bool = False) -> Plan:
        """Return what brings it to the baseline, as far as its NIC can."""

    def mark_filters(self, vf: VfId) -> None:
        """Note that macvlans set filters through it."""

    def apply(self, plan: Plan) -> VfState:
        """Do it, and read it back."""

    def reset(
        self, vf: VfId, *, fresh: bool = False, shared: bool = False
    ) -> VfState:
        """Bring it to the baseline, and read it back."""


class Source(Protocol):
    """Where a view has its VFs from."""

    def list(self) -> Sequence[VfState]:
        """Return all VFs."""

    def of(self, interface: str) -> VfState | None:
        """Return the VF of an interface, None if it is none's."""


class View:
    """A host at one moment: its interfaces, and what the records say.

    :param links: the kernel's links.
    :param source: where VFs are read when they are first asked for: a plug
        on one of 64 needs to know of that.
    :param records: of all ports.
    """

    def __init__(
        self,
        links: Links,
        source: Source,
        records: Sequence[Record] = (),
    ) -> None:
        self.links = links
        self.source = source
        self.records = records
        self._on_host: dict[str, Link] = {}
        self._by_index: dict[int, Link] = {}
        self._children: dict[int, dict[Key, Link]] = {}
        # Those that were read alone, by their interfaces here.
        self._read: dict[str, VfState | None] = {}
        for each in records:
            if each.kind != Kind.VF:
                self._add(recorded(each))
        self._looked = False
        self._take(links.all())

    def look_everywhere(self) -> None:
        """Take in what others have made in any namespace, once.

        For the rare acts that could hurt a stranger.
        """
        if not self._looked:
            self._looked = True
            self._take(self.links.all(everywhere=True, thorough=True))

    def _take(self, links: Iterable[Link]) -> None:
        for each in links:
            if each.namespace is None:
                self._on_host[each.name] = self._by_index[each.index] = each
            if each.parent is not None and each.kind not in _PEERS:
                self._add(each)

    def _add(self, link: Link) -> None:
        if link.parent is not None:
            key = (link.space, link.nsid, link.index)
            self._children.setdefault(link.parent, {})[key] = link

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
        """Return an interface of any namespace."""
        if namespace is None:
            return self.on_host(name)
        return self.links.get(name, namespace)

    def record_of(self, link: Link) -> Record | None:
        """Return the record of the port whose interface a link is."""
        for each in self.records:
            if each.kind == Kind.VF:
                if link.device and each.vf == link.device:
                    return each
            elif (each.space, each.index) == (link.space, link.index):
                return each
        return None

    def on_host(self, name: str) -> Link | None:
        """Return an interface of the caller's namespace."""
        return self._on_host.get(name)

    def parent(self, link: Link) -> Link | None:
        """Return what a subinterface sits on, if that is on the host."""
        return None if link.parent is None else self._by_index.get(link.parent)

    def children(self, link: Link) -> Sequence[Link]:
        """Return what sits on an interface: by the records, and by a look.

        Here and, once that was looked at, in every namespace.
        """
        return [*self._children.get(link.index, {}).values()]

    def holder(self, link: Link) -> Record | None:
        """Return the port that has the VF of an interface to itself."""
        vf = self.vf_of(link)
        if vf is None:
            return None
        found = (
            each
            for each in self.records
            if each.kind == Kind.VF and each.vf == vf.id.address
        )
        return next(found, None)

    def quarantined(self, link: Link) -> Record | None:
        """Return a quarantined port that may be on an interface."""
        found = (
            each
            for each in self.records
            if each.is_quarantined and each.parent_index == link.index
        )
        return next(found, None)

    def vf(self, netdev: str) -> VfState | None:
        """Return the VF whose interface has that name on the host."""
        if "vfs" in self.__dict__:
            return self._by_netdev.get(netdev)
        if netdev not in self._read:
            self._read[netdev] = self.source.of(netdev)
        return self._read[netdev]

    def vf_at(self, address: str) -> VfState | None:
        """Return the VF of a PCI address."""
        return self._by_address.get(address)

    def vf_of(self, link: Link) -> VfState | None:
        """Return the VF that a link is the interface of, wherever it is."""
        if link.kind:
            return None
        if not link.namespace:
            return self.vf(link.name)
        return self.vf_at(link.device) if link.device else None

    def vfs_of(self, pf: str) -> Iterator[VfState]:
        """Yield a PF's VFs that have an interface on the host."""
        return (each for each in self.vfs if each.id.pf == pf and each.netdev)


#: Where an interface is: the namespace, a number in it, and the index.
Key = tuple[Identity | None, int | None, int]


def recorded(record: Record) -> Link:
    """Return the interface of a record, as it was plugged."""
    return Link(
        name=record.interface,
        index=record.index,
        namespace=record.namespace,
        kind=str(record.kind),
        mode=record.mode,
        parent=record.parent_index,
        mac=record.mac,
        mtu=record.asked.mtu or 0,
        up=True,
        carrier=True,
        alias="",
        space=record.space,
    )


def observe(links: Links, vfs: Source, records: Records) -> View:
    """Return the host as it is: its links now, its VFs as they are needed."""
    return View(links, vfs, records.all())
