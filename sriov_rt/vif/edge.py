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

"""The edge to the kernel's links: what the plugger needs of it.

``netlink.NetlinkLinks`` is the real one; the unit tests have another that
records and can fail or stop at each step.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from sriov_rt.vif.words import Limits


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


@dataclasses.dataclass(frozen=True, slots=True)
class Subinterface:
    """A macvlan, macvtap or ipvlan to be made.

    :param parent: name of an interface in the caller's namespace.
    :param parent_index: its index, None to look it up.
    :param namespace: where it is to be, as in Link.
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
    parent_index: int | None = None


class Links(Protocol):
    """Verbs on links. Errors of the kernel come as vif.errors.VifError.

    Names and namespaces were checked by who calls.
    """

    def get(self, name: str, namespace: str | None = None) -> Link | None:
        """Return an interface, None if there is none."""

    def all(self, *, everywhere: bool = False) -> Sequence[Link]:
        """Return all interfaces of the caller's namespace.

        :param everywhere: those of every other namespace too, found by
            /run/netns and /proc/*/ns/net, but for their loopbacks.
        """

    def create(self, what: Subinterface) -> Link:
        """Make a subinterface with its alias in its namespace."""

    def delete(self, link: Link) -> bool:
        """Delete a subinterface; False when it is gone already."""

    def move(
        self, link: Link, namespace: str | None, name: str | None = None
    ) -> Link:
        """Move an interface into a namespace and rename it there.

        :param namespace: None for the caller's own.
        """

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
        """Tell whether an interface has an address that somebody gave it."""

    def limit(self, link: Link, limits: Limits) -> None:
        """Set the rates of an interface, or remove what was set."""

    def announce(self, link: Link, addresses: Sequence[str]) -> None:
        """Tell the neighbours by gratuitous ARP and unsolicited NA."""

    def wait_carrier(self, link: Link, seconds: float) -> bool:
        """Wait until an interface that is up has a carrier."""
