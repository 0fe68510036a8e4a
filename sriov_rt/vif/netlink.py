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

Every call opens a socket of its own, which takes 6 µs, and 12 µs in
another namespace: threads share nothing, nothing goes stale after a fork,
and no open socket keeps a namespace alive that its owner has deleted.
"""

import errno
import time
from collections.abc import Sequence

from sriov_rt.vif import addressing
from sriov_rt.vif import announce
from sriov_rt.vif import answers
from sriov_rt.vif import errors
from sriov_rt.vif import limits as rates
from sriov_rt.vif import making
from sriov_rt.vif import moving
from sriov_rt.vif import namespaces
from sriov_rt.vif import requests
from sriov_rt.vif.census import Census
from sriov_rt.vif.census import here
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.places import one
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.places import verify
from sriov_rt.vif.rtnl import Channel
from sriov_rt.vif.words import Limits

#: Seconds between two looks at a carrier.
POLL_S = 0.02


class NetlinkLinks:
    """Links of this host's kernel; see :class:`sriov_rt.vif.edge.Links`."""

    def __init__(self) -> None:
        self._census = Census()

    def close(self) -> None:
        """Watch the links no more, until they are asked for again."""
        self._census.close()

    def get(self, name: str, namespace: str | None = None) -> Link | None:
        """Return an interface, None if there is none."""
        with opened(namespace) as place:
            return place.find(name)

    def all(self, *, everywhere: bool = False) -> Sequence[Link]:
        """Return all interfaces; a namespace that goes meanwhile has none.

        :param everywhere: those of every other namespace too.
        """
        return self._census.links() if everywhere else here()

    def create(self, what: Subinterface) -> Link:
        """Make a subinterface with its alias in its namespace.

        :raises NotVerified: if it is not as asked for; it is gone then.
        """
        made = making.make(what, self._census)
        if not made.up:
            self._census.note(made)
        return made

    def delete(self, link: Link) -> bool:
        """Delete a subinterface; False when it is gone already."""
        try:
            with (
                opened(link.namespace) as place,
                telling(link.name, "delete"),
            ):
                place.channel.ask(requests.delete_link(link.index))
        except (errors.NoSuchLink, errors.NoSuchNamespace):
            return False
        return True

    def move(
        self, link: Link, namespace: str | None, name: str | None = None
    ) -> Link:
        """Move an interface into a namespace and rename it there.

        :param namespace: None for the caller's own.
        """
        expect = self._census.expect
        return moving.move(link, namespace, name or link.name, expect)

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
                (answers.IFF_UP, up),
                (answers.IFF_PROMISC, promisc),
                (answers.IFF_ALLMULTI, allmulti),
            )
            if wish is not None
        }
        told = " ".join(k for k, val in wanted.items() if val is not None)
        with (
            opened(link.namespace) as place,
            telling(link.name, f"set {told}"),
        ):
            found = place.links(
                requests.set_link(
                    index=link.index,
                    flags=flags,
                    mac=mac,
                    mtu=mtu,
                    alias=alias,
                ),
                requests.get_link(index=link.index),
            )
        now = one(found, link.name)
        verify(now, wanted)
        if alias is not None and not now.up:
            self._census.note(now)
        return now

    def address(
        self,
        link: Link,
        addresses: Sequence[str],
        routes: Sequence[tuple[str, str]],
    ) -> None:
        """Add addresses and routes; those that are there stay."""
        asked = {
            f"add address {each}": addressing.new_address(link.index, each)
            for each in addresses
        }
        for destination, gateway in routes:
            what = f"add route {destination} by {gateway}"
            asked[what] = addressing.new_route(
                link.index, destination, gateway
            )
        if not asked:
            return
        with opened(link.namespace) as place:
            for what, request in asked.items():
                with telling(link.name, what):
                    _unless_there(place.channel, request)

    def addressed(self, link: Link) -> bool:
        """Tell whether an interface has an address that somebody gave it."""
        with (
            opened(link.namespace) as place,
            telling(link.name, "look at its addresses"),
        ):
            return any(
                addressing.is_given(answer.body, link.index)
                for answer in place.channel.dump(addressing.get_addresses())
                if answer.kind == addressing.RTM_NEWADDR
            )

    def limit(self, link: Link, limits: Limits) -> None:
        """Set the rates of an interface, or remove what was set."""
        with opened(link.namespace) as place:
            rates.apply(place.channel, link, limits)

    def announce(self, link: Link, addresses: Sequence[str]) -> None:
        """Tell the neighbours by gratuitous ARP and unsolicited NA."""
        if not addresses:
            return
        packets = announce.packets(link.mac, addresses)
        # An ipvlan that routes has no neighbours: it sends IP alone.
        routes = link.kind == "ipvlan" and link.mode != "l2"
        if routes or not packets:
            return
        with telling(link.name, "announce"):
            if link.namespace is None:
                announce.send(link.name, packets)
                return
            with namespaces.opened(link.namespace) as there:
                namespaces.inside(
                    there, lambda: announce.send(link.name, packets)
                )

    def wait_carrier(self, link: Link, seconds: float) -> bool:
        """Wait until an interface that is up has a carrier."""
        deadline = time.monotonic() + seconds
        with opened(link.namespace) as place, telling(link.name, "look at"):
            while True:
                asked = requests.get_link(index=link.index)
                if one(place.links(asked), link.name).carrier:
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(POLL_S, left))


def _unless_there(channel: Channel, request: bytes) -> None:
    try:
        channel.ask(request)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
