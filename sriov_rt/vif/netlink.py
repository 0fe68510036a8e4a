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

"""The real edge: links, addresses and routes by rtnetlink.

Every call opens a socket of its own: threads share nothing, nothing goes
stale after a fork, and no open socket keeps a namespace alive that its owner
has deleted.
"""

import contextlib
import dataclasses
import errno
import time
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Sequence

import pyroute2

from sriov_rt import rtnetlink
from sriov_rt.vif import addressing
from sriov_rt.vif import announce
from sriov_rt.vif import errors
from sriov_rt.vif import inventory
from sriov_rt.vif import making
from sriov_rt.vif import moving
from sriov_rt.vif import namespaces
from sriov_rt.vif import tc as rates
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.model import Limits
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.places import IFF_ALLMULTI
from sriov_rt.vif.places import IFF_PROMISC
from sriov_rt.vif.places import IFF_UP
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify

#: Seconds between two looks at a carrier.
POLL_S = 0.02

#: In a link's IFLA_PROP_LIST.
ALT_IFNAME = "IFLA_ALT_IFNAME"


class NetlinkLinks:
    """Links of this host's kernel; see :class:`sriov_rt.vif.edge.Links`."""

    def get(self, name: str, namespace: str | None = None) -> Link | None:
        """Return an interface, None if there is none."""
        with opened(namespace) as place:
            return place.find(name)

    def at(
        self, namespace: str | None, space: Identity | None, index: int
    ) -> Link | None:
        """Return the interface of an index, None if there is none."""
        try:
            with opened(namespace, space) as place:
                return place.at(index)
        except errors.NoSuchNamespace:
            return None

    def all(
        self, *, everywhere: bool = False, thorough: bool = False
    ) -> Sequence[Link]:
        """Return all interfaces; a namespace that goes meanwhile has none.

        :param everywhere: those of every other namespace too.
        :param thorough: of those too that have no name and no process.
        """
        if not everywhere:
            return inventory.here()
        return inventory.everywhere(thorough=thorough)

    def all_in(
        self, namespace: str | None, space: Identity | None
    ) -> Sequence[Link]:
        """Return all interfaces of a namespace; none if it has ended."""
        try:
            with (
                opened(namespace, space) as place,
                telling(namespace or "links", "list"),
            ):
                return place.all()
        except errors.NoSuchNamespace:
            return ()

    @contextlib.contextmanager
    def hold(self, namespace: str | None) -> Iterator[Identity | None]:
        """Keep a namespace, and yield which one it is."""
        own = namespaces.identity_of(None)
        with namespaces.opened(namespace) as descriptor:
            found = namespaces.identity(descriptor)
            if found == own:
                yield None
                return
            cookie = namespaces.inside(descriptor, namespaces.own_cookie)
            yield dataclasses.replace(found, cookie=cookie)

    def ended(self, space: Identity) -> bool:
        """Tell whether nothing leads to a namespace any more."""
        return namespaces.find(space) is None

    def strangers(self, parent: str, known: Collection[str]) -> Sequence[str]:
        """Return the unicast MACs that an interface hears for others."""
        with opened(None) as place, telling(parent, "list its MACs"):
            link = place.find(parent)
            if link is None:
                return ()
            found = addressing.unicast(place.route, link.index)
        return sorted(found - {link.mac, *known})

    def create(self, what: Subinterface) -> Link:
        """Make a subinterface with its alias in its namespace.

        :raises NotVerified: if it is not as asked for; it is gone then.
        """
        return making.make(what)

    def idle(self, name: str) -> bool | None:
        """Tell whether nothing is on an interface in any namespace."""
        with telling(name, "look whether anything is on it"):
            return rtnetlink.is_idle(name)

    def delete(self, link: Link) -> bool:
        """Delete a subinterface; False when it is gone already."""
        where = link.namespace
        if link.nsid is not None and link.space is None:
            where = None  # its number is one in the caller's own
        try:
            with (
                opened(where, link.space) as place,
                telling(link.name, "delete"),
            ):
                if link.nsid is not None:
                    place.link(
                        "del", index=link.index, IFLA_IF_NETNSID=link.nsid
                    )
                    return True
                now = place.at(link.index)
                if now is None or now.kind != link.kind:
                    return False
                place.link("del", index=link.index)
        except (errors.NoSuchLink, errors.NoSuchNamespace):
            return False
        return True

    def move(
        self,
        link: Link,
        namespace: str | None,
        name: str | None = None,
        space: Identity | None = None,
    ) -> Link:
        """Move an interface into a namespace and rename it there.

        :param namespace: None for the caller's own.
        :param space: which one that has to be; None for any of the name.
        """
        return moving.move(link, namespace, name or link.name, space)

    def strip(self, link: Link) -> None:
        """Remove the alternative names of an interface."""
        with (
            opened(link.namespace, link.space) as place,
            telling(link.name, "remove its alternative names"),
        ):
            (found,) = place.link("get", index=link.index)
            listed = found.get_attr("IFLA_PROP_LIST") or {"attrs": ()}
            names = [
                each for key, each in listed["attrs"] if key == ALT_IFNAME
            ]
            if names:
                place.link("property_del", index=link.index, altname=names)

    def configure(
        self,
        link: Link,
        *,
        mac: str | None = None,
        mtu: int | None = None,
        alias: str | None = None,
        up: bool | None = None,
        promisc: bool | None = None,
        allmulti: bool | None = None,
    ) -> Link:
        """Set what is not None, in one message.

        :raises NotVerified: if something reads back as something else.
        """
        wanted = {
            "mac": mac,
            "mtu": mtu,
            "alias": alias,
            "up": up,
            "promisc": promisc,
            "allmulti": allmulti,
        }
        flags = {
            flag: wish
            for flag, wish in (
                (IFF_UP, up),
                (IFF_PROMISC, promisc),
                (IFF_ALLMULTI, allmulti),
            )
            if wish is not None
        }
        attributes = {"address": mac, "mtu": mtu, "ifalias": alias}
        told = " ".join(k for k, val in wanted.items() if val is not None)
        with (
            opened(link.namespace, link.space) as place,
            telling(link.name, f"set {told}"),
        ):
            place.link(
                "set",
                index=link.index,
                flags=sum(flag for flag, wish in flags.items() if wish),
                change=sum(flags),
                **{k: val for k, val in attributes.items() if val is not None},
            )
            now = place.at(link.index)
        if now is None:
            raise errors.NoSuchLink(link.name, detail="gone after it was set")
        verify(now, wanted)
        return now

    def address(
        self,
        link: Link,
        addresses: Sequence[str],
        routes: Sequence[tuple[str, str]],
    ) -> None:
        """Add addresses and routes; those that are there stay."""
        if not addresses and not routes:
            return
        with opened(link.namespace, link.space) as place:
            route = place.route
            for each in addresses:
                with (
                    telling(link.name, f"add address {each}"),
                    _unless_there(),
                ):
                    addressing.add_address(route, link.index, each)
            for to, gateway in routes:
                what = f"add route {to} by {gateway}"
                with telling(link.name, what), _unless_there():
                    addressing.add_route(route, link.index, to, gateway)

    def addressed(self, link: Link) -> bool:
        """Tell whether an interface has an address that somebody gave it."""
        with (
            opened(link.namespace, link.space) as place,
            telling(link.name, "look at its addresses"),
        ):
            return addressing.is_addressed(place.route, link.index)

    def limit(self, link: Link, limits: Limits) -> None:
        """Set the rates of an interface, or remove what was set."""
        with opened(link.namespace, link.space) as place:
            rates.apply(place.route, link, limits)

    def announce(self, link: Link, addresses: Sequence[str]) -> None:
        """Tell the neighbours by gratuitous ARP and unsolicited NA."""
        if not addresses:
            return
        packets = announce.packets(link.mac, addresses)
        # An ipvlan that routes has no neighbours: it sends IP alone.
        routes = link.kind == "ipvlan" and link.mode != "l2"
        if routes or not packets:
            return
        with telling(link.name, "announce"), _raw(link.name):
            if link.namespace is None:
                announce.send(link.name, packets)
                return
            with opened(link.namespace, link.space) as place:
                assert place.descriptor is not None
                namespaces.inside(
                    place.descriptor,
                    lambda: announce.send(link.name, packets),
                )

    def wait_carrier(self, link: Link, seconds: float) -> bool:
        """Wait until an interface that is up has a carrier."""
        deadline = time.monotonic() + seconds
        with (
            opened(link.namespace, link.space) as place,
            telling(link.name, "look at"),
        ):
            while True:
                now = place.at(link.index)
                if now is None:
                    raise errors.NoSuchLink(link.name, detail="it has gone")
                if now.carrier:
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(POLL_S, left))


@contextlib.contextmanager
def _raw(name: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise errors.AnnouncingNotPermitted(name) from error


@contextlib.contextmanager
def _unless_there() -> Iterator[None]:
    try:
        yield
    except pyroute2.NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
