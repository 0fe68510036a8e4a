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


"""What was observed of a host: its links and its VFs, and who has whom."""

import contextlib
import functools
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sriov_rt.nic.plan import Plan
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.words import VfId
from sriov_rt.nic.words import VfState
from sriov_rt.vif import alias
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Links
from sriov_rt.vif.words import Kind

#: The kinds of interface that a port of ours can be; a VF has none.
KINDS: Mapping[str, Kind] = {
    "": Kind.VF,
    "macvlan": Kind.MACVLAN,
    "macvtap": Kind.MACVTAP,
    "ipvlan": Kind.IPVLAN,
}


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

    def plan_reset(self, vf: VfId) -> Plan:
        """Return what brings it to the baseline, as far as its NIC can."""

    def apply(self, plan: Plan) -> VfState:
        """Do it, and read it back."""

    def reset(self, vf: VfId) -> VfState:
        """Bring it to the baseline, and read it back."""


class Source(Protocol):
    """Where a view has its VFs from."""

    def list(self) -> Sequence[VfState]:
        """Return all VFs."""

    def of(self, interface: str) -> VfState | None:
        """Return the VF of an interface, None if it is none's."""


class Fixed:
    """VFs that were read before."""

    def __init__(self, states: Sequence[VfState]) -> None:
        self._states = states

    def list(self) -> Sequence[VfState]:
        """Return all VFs."""
        return self._states

    def of(self, interface: str) -> VfState | None:
        """Return the VF of an interface, None if it is none's."""
        found = (each for each in self._states if each.netdev == interface)
        return next(found, None)


class View:
    """A host at one moment.

    :param links: those of every namespace.
    :param source: where VFs are read when they are first asked for: a plug
        on one of 64 needs to know of that.
    """

    def __init__(self, links: list[Link], source: Source) -> None:
        self.links = links
        self.source = source
        self._here: dict[str, Link] = {}
        self._by_index: dict[int, Link] = {}
        self._named: dict[tuple[str | None, str], Link] = {}
        self._children: dict[int, list[Link]] = {}
        # Those that were read alone, by their interfaces here.
        self._read: dict[str, VfState | None] = {}
        self._take(links)

    def _take(self, links: Iterable[Link]) -> None:
        for each in links:
            namespace = each.namespace
            self._named[namespace, each.name] = each
            if namespace is None:
                self._here[each.name] = self._by_index[each.index] = each
            parent = each.parent
            if parent is not None and each.kind not in _PEERS:
                self._children.setdefault(parent, []).append(each)

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

    @functools.cached_property
    def ours(self) -> Sequence[tuple[Link, Alias]]:
        """Each link that carries an alias of ours, and that.

        Root in a container can set any alias: what is neither a VF nor on
        an interface of this host was not made by us.
        """
        return self._ours(self.links)

    def _ours(self, links: Iterable[Link]) -> Sequence[tuple[Link, Alias]]:
        return [
            (each, found)
            for each in links
            if each.alias
            and (found := alias.parse(each.alias)) is not None
            and self._may_be_ours(each)
        ]

    def _may_be_ours(self, link: Link) -> bool:
        if link.kind:
            return link.kind in KINDS and self.parent(link) is not None
        # A kernel before 5.14 does not tell the device from afar.
        afar = link.namespace is not None and not link.device
        return afar or self.vf_of(link) is not None

    def add(self, link: Link) -> None:
        """Take in a subinterface that was made since, in a namespace.

        What is known stays: of a hundred ports it is the same each time.
        """
        self.links.append(link)
        self._take((link,))

    def named(self, name: str, namespace: str | None) -> Link | None:
        """Return an interface of any namespace."""
        return self._named.get((namespace, name))

    def port(self, port: str) -> Sequence[tuple[Link, Alias]]:
        """Return the links of a port; more than one only if forged."""
        # Of hundreds of aliases one is read.
        some = self._ours([each for each in self.links if port in each.alias])
        return [each for each in some if each[1].port == port]

    def here(self, name: str) -> Link | None:
        """Return an interface of the caller's namespace."""
        return self._here.get(name)

    def parent(self, link: Link) -> Link | None:
        """Return what a subinterface sits on, if that is here."""
        return None if link.parent is None else self._by_index.get(link.parent)

    def children(self, link: Link) -> Sequence[Link]:
        """Return what sits on an interface, in every namespace."""
        return self._children.get(link.index, ())

    def vf(self, netdev: str) -> VfState | None:
        """Return the VF whose interface is here by that name."""
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
        """Yield a PF's VFs that have an interface here."""
        return (each for each in self.vfs if each.id.pf == pf and each.netdev)


def observe(links: Links, vfs: Vfs) -> View:
    """Return the host as it is: its links now, its VFs as they are needed."""
    return View(list(links.all(everywhere=True)), vfs)
