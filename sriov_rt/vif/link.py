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

"""Link of the kernel, and the operations on links that ports need.

``links.NetlinkLinks`` is the real one; the unit tests have another that
records and can fail or stop at each step.
"""

import dataclasses
from collections.abc import Collection
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sriov_rt.vif.model import Limits
from sriov_rt.vif.namespaces import Identity


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """One interface, as the kernel has it.

    :param namespace: None for the caller's; a name in /run/netns or
        ``pid:N``.
    :param kind: IFLA_INFO_KIND such as ``macvlan``; empty for a device.
    :param mode: of a macvlan, macvtap or ipvlan.
    :param parent: index of its parent, in the caller's namespace.
    :param device: PCI address of the device that it is the interface of
        (IFLA_PARENT_DEV_NAME, Linux 5.14); empty for a virtual one.
    :param master: index of the bridge or bond that it is a port of.
    :param space: which namespace that is; None for the caller's.
    :param nsid: the number of its namespace in that one, where it is in
        another still, which nothing but that number leads to.
    """

    name: str
    index: int
    namespace: str | None
    kind: str
    mode: str | None
    parent: int | None
    mac: str
    mtu: int
    up: bool
    carrier: bool
    alias: str
    promisc: bool = False
    allmulti: bool = False
    device: str = ""
    master: int | None = None
    space: Identity | None = None
    nsid: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Subinterface:
    """A macvlan, macvtap or ipvlan to be made.

    :param parent: name of an interface in the caller's namespace.
    :param namespace: where it is to be, as in Link.
    :param space: which one that has to be; None for any of the name.
    :param index: the index that it is to have, which nobody else's interface
        has by chance: by that it is known, whatever its name becomes. None
        for one that is chosen.
    :param up: whether it is made up.
    """

    name: str
    kind: str
    mode: str
    parent: str
    namespace: str | None = None
    mac: str | None = None
    mtu: int | None = None
    alias: str = ""
    up: bool = False
    space: Identity | None = None
    index: int | None = None


class Links(Protocol):
    """Verbs on links. Errors of the kernel come as vif.errors.VifError.

    Names and namespaces were checked by who calls.
    """

    def get(self, name: str, namespace: str | None = None) -> Link | None:
        """Return an interface, None if there is none."""

    def at(
        self, namespace: str | None, space: Identity | None, index: int
    ) -> Link | None:
        """Return the interface of an index, None if there is none.

        :param namespace: a hint where the namespace is found.
        :param space: which namespace; it is found by any other name too.
        """

    def all(
        self, *, everywhere: bool = False, thorough: bool = False
    ) -> Sequence[Link]:
        """Return all interfaces of the caller's namespace.

        :param everywhere: those of every other namespace too, found by
            /run/netns and /proc/*/ns/net, but for their loopbacks.
        :param thorough: and those that neither leads to, but a thread, an
            open descriptor or another namespace.
        """

    def all_in(
        self, namespace: str | None, space: Identity | None
    ) -> Sequence[Link]:
        """Return all interfaces of a namespace; none if it has ended."""

    def hold(
        self, namespace: str | None
    ) -> AbstractContextManager[Identity | None]:
        """Keep a namespace, and say which one it is; None for the caller's.

        Held, its identity cannot become another's.
        """

    def ended(self, space: Identity) -> bool:
        """Return whether nothing leads to a namespace any more."""

    def strangers(self, parent: str, known: Collection[str]) -> Sequence[str]:
        """Return the unicast MACs that an interface hears for others.

        A macvlan that is up has its MAC there, wherever it is.

        :param known: whose are known, its own aside.
        """

    def create(self, what: Subinterface) -> Link:
        """Make a subinterface with its alias in its namespace.

        One that could not be made, or is not as asked for, is not there.
        """

    def delete(self, link: Link) -> bool:
        """Delete a subinterface; False when it is gone already.

        It is told by its namespace's identity, its index and its kind.
        """

    def idle(self, name: str) -> bool | None:
        """Return whether nothing is on an interface in any namespace.

        The kernel is asked, so what no process leads to counts too.

        :returns: None if this kernel cannot tell.
        """

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

    def strip(self, link: Link) -> None:
        """Remove the alternative names of an interface."""

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
        """Set what is not None, in one message where that works."""

    def address(
        self,
        link: Link,
        addresses: Sequence[str],
        routes: Sequence[tuple[str, str]],
    ) -> None:
        """Add addresses and routes; those that are there stay."""

    def addressed(self, link: Link) -> bool:
        """Return whether an interface has an address that somebody gave it."""

    def limit(self, link: Link, limits: Limits) -> None:
        """Set the rates of an interface, or remove what was set."""

    def announce(self, link: Link, addresses: Sequence[str]) -> None:
        """Announce it by gratuitous ARP and unsolicited NA."""

    def wait_carrier(self, link: Link, seconds: float) -> bool:
        """Wait until an interface that is up has a carrier."""
