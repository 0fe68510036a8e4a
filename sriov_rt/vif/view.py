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
import dataclasses
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


@dataclasses.dataclass(frozen=True)
class View:
    """A host at one moment.

    :param links: those of every namespace.
    :param vfs: empty where there are none, or none to be looked at.
    """

    links: Sequence[Link]
    vfs: Sequence[VfState]

    @functools.cached_property
    def _here(self) -> Mapping[str, Link]:
        return {each.name: each for each in self.links if not each.namespace}

    @functools.cached_property
    def _by_index(self) -> Mapping[int, Link]:
        return {each.index: each for each in self._here.values()}

    @functools.cached_property
    def _children(self) -> Mapping[int, Sequence[Link]]:
        found: dict[int, list[Link]] = {}
        for each in self.links:
            if each.parent is not None and each.kind not in _PEERS:
                found.setdefault(each.parent, []).append(each)
        return found

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

    def port(self, port: str) -> Sequence[tuple[Link, Alias]]:
        """Return the links of a port; more than one only if forged."""
        # Of hundreds of aliases one is read.
        some = self._ours(each for each in self.links if port in each.alias)
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
        return self._by_netdev.get(netdev)

    def vf_at(self, address: str) -> VfState | None:
        """Return the VF of a PCI address."""
        return self._by_address.get(address)

    def vf_of(self, link: Link) -> VfState | None:
        """Return the VF that a link is the interface of, wherever it is."""
        if link.kind:
            return None
        if link.device:
            return self.vf_at(link.device)
        return None if link.namespace else self.vf(link.name)

    def vfs_of(self, pf: str) -> Iterator[VfState]:
        """Yield a PF's VFs that have an interface here."""
        return (each for each in self.vfs if each.id.pf == pf and each.netdev)


def observe(links: Links, vfs: Vfs) -> View:
    """Return the host as it is: one dump of its links, one of its VFs."""
    return View(tuple(links.all(everywhere=True)), vfs.list())
