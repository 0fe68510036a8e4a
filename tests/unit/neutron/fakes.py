# SPDX-License-Identifier: Apache-2.0

"""A host and a neutron-server to be told what they are."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt import exceptions
from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.neutron.ports import PortState
from sriov_rt.request.words import VifKind
from sriov_rt.vif.host_offer import NOTHING
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plugged


def port_id(number: int) -> str:
    """Return the UUID of a port."""
    return f"8f6f0000-0000-4000-8000-{number:012d}"


def plugged(number: int, tap: str | None = None) -> Plugged:
    """Return a port as it is plugged."""
    return Plugged(
        port=port_id(number),
        owner="c4f5d2f0-9f6a-4a2e-8b1e-0d5f0a3c7b11",
        kind=Kind.MACVTAP,
        mode="bridge",
        interface=f"srt8f6f{number}",
        namespace=None,
        parent="enp2s0v2",
        mac="fa:16:3e:00:00:01",
        vlan=200,
        mtu=1500,
        vf="0000:02:10.4",
        tap=tap or f"/dev/tap{number}",
    )


class Broken(exceptions.SriovRtError):
    """Something is out of reach."""


class FakeHost:
    """A host with these ports.

    :ivar broken: whether nothing can be seen of it.
    :ivar runs: the driver of its nova-compute.
    """

    def __init__(self, *ports: Plugged) -> None:
        self.found = list(ports)
        self.parents = {"physnet2": 2}
        self.broken = False
        self.runs: Driver | None = Driver("1.0", "lxc")

    def ports(self) -> Sequence[Plugged]:
        """Return them."""
        if self.broken:
            raise Broken("no netlink")
        return tuple(self.found)

    def offer(self) -> Offer:
        """Return its parents."""
        if self.broken:
            raise Broken("no netlink")
        if self.runs is None:
            return NOTHING
        return Offer(self.parents, self.parents, frozenset(VifKind))

    def driver(self) -> Driver | None:
        """Return the driver of its nova-compute."""
        return self.runs

    def recheck(self) -> None:
        """None is quarantined."""


class FakeServer:
    """A neutron-server that writes down what it hears.

    :ivar stands: port to what it is to be; UP if it is not here.
    :ivar refuses: ports of which it takes nothing.
    :ivar broken: whether it is out of reach.
    :ivar revived: whether it thought the agent dead.
    """

    def __init__(self) -> None:
        self.stands: dict[str, PortState] = {}
        self.refuses: set[str] = set()
        self.broken = False
        self.revived = False
        self.heard: list[tuple[str, ...]] = []
        self.reports: list[tuple[dict[str, Any], bool]] = []

    def port_states(self, ports: Sequence[str]) -> Mapping[str, PortState]:
        """Return what they are to be."""
        self._reached()
        return {each: self.stands.get(each, PortState.UP) for each in ports}

    def set_status(
        self, up: Sequence[str], down: Sequence[str]
    ) -> frozenset[str]:
        """Hear of them."""
        self._reached()
        self.heard += [("up", each) for each in up]
        self.heard += [("down", each) for each in down]
        return frozenset(self.refuses & {*up, *down})

    def report(
        self, configurations: Mapping[str, Any], *, starting: bool
    ) -> bool:
        """Hear that the agent is alive."""
        self._reached()
        self.reports.append((dict(configurations), starting))
        return self.revived

    def take(self) -> list[tuple[str, ...]]:
        """Return what was heard since the last time."""
        heard, self.heard = self.heard, []
        return heard

    def _reached(self) -> None:
        if self.broken:
            raise Broken("no RabbitMQ")
