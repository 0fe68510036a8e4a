# SPDX-License-Identifier: Apache-2.0

"""Offer of a host to Neutron, and the rule by which Neutron binds to it.

The agent reports the offer, and the mechanism driver binds by it. By the same
rule nova-compute judges what a port will be on its host.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from sriov_rt.request.words import VifKind

#: The longest name of a physical network (PHYSICAL_NETWORK_MAX_LEN in
#: neutron_lib/api/definitions/provider_net.py), in characters.
MAX_NAME = 64

#: An agent's report is a message of another host: no more than this many of
#: its physical networks are read.
MAX_NETWORKS = 256

#: No host has more parents on one network: VFs are numbered by 16 bits.
MAX_PARENTS = 65535

#: How the device_owner of a server's port begins (DEVICE_OWNER_COMPUTE_PREFIX
#: in neutron_lib/constants.py); its availability zone follows.
SERVERS = "compute:"

#: VNIC type of a port that is no PCI device to Nova.
NORMAL = "normal"

_NAME = re.compile(rf"[^\s,:]{{1,{MAX_NAME}}}")


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """Parents and kinds of port that a host offers.

    :param parents: number of interfaces that can carry ports, by physical
        network.
    :param vfs: how many of those are VFs.
    :param kinds: kinds of port that the host makes.
    """

    parents: Mapping[str, int]
    vfs: Mapping[str, int]
    kinds: frozenset[VifKind]

    def carries(self, network: str, kind: VifKind, vlan: int) -> bool:
        """Return whether a port can be made here.

        Only a VF tags a port's VLAN, or can be handed out itself.

        :param network: name of the physical network.
        :param vlan: VLAN id; 0 is untagged.
        """
        able = self.vfs if vlan or kind is VifKind.VF else self.parents
        return kind in self.kinds and able.get(network, 0) > 0

    def carried(
        self,
        port: Mapping[str, Any],
        network: Mapping[str, Any],
        kind: VifKind,
    ) -> tuple[str, int] | None:
        """Return physical network and VLAN of a port that will be bound here.

        :param port: as Neutron's API shows it to an administrator.
        :param network: its network in the same form; several segments are in
            ``segments``.
        :param kind: how ports of the network are made.
        :returns: None if the next driver binds it.
        """
        if refusal(port) is not None:
            return None
        for segment in network.get("segments") or [network]:
            name = segment.get("provider:physical_network")
            vlan = segment.get("provider:segmentation_id") or 0
            if name and self.carries(name, kind, vlan):
                return name, vlan
        return None

    def to_configurations(self) -> dict[str, Any]:
        """Return the offer as the agent reports it."""
        return {
            "parents": dict(sorted(self.parents.items())),
            "vfs": dict(sorted(self.vfs.items())),
            "kinds": sorted(self.kinds),
        }

    @classmethod
    def from_configurations(cls, reported: Any) -> "Offer":
        """Return the offer that an agent reported.

        Malformed parts are ignored: a host that cannot be understood offers
        nothing.

        :param reported: ``configurations`` as Neutron's database has them.
        """
        if not isinstance(reported, Mapping):
            return NOTHING
        return cls(
            _counts(reported.get("parents")),
            _counts(reported.get("vfs")),
            _kinds(reported.get("kinds")),
        )


#: The offer of a host that can carry no port of ours.
NOTHING = Offer({}, {}, frozenset())


def refusal(port: Mapping[str, Any]) -> str | None:
    """Return why a port is not ours on any host, as a clause.

    :param port: as Neutron's API shows it to an administrator.
    :returns: None if the port is ours on a host that can carry it.
    """
    owner = port.get("device_owner") or ""
    if not owner.startswith(SERVERS):
        return f"its device_owner is {owner or 'unset'}, and no server's"
    if (port.get("binding:vnic_type") or NORMAL) != NORMAL:
        return "it is a PCI device to Nova"
    if port.get("qos_policy_id") or port.get("qos_network_policy_id"):
        return "it has a QoS policy, which nothing enforces on such a port"
    if port.get("trunk_details"):
        return "it is the parent of a trunk, whose subports nothing wires"
    return None


def is_network(name: object) -> bool:
    """Return whether this can be the name of a physical network."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _counts(reported: Any) -> dict[str, int]:
    if not isinstance(reported, Mapping) or len(reported) > MAX_NETWORKS:
        return {}
    return {
        name: count
        for name, count in reported.items()
        if is_network(name) and type(count) is int and 0 < count <= MAX_PARENTS
    }


def _kinds(reported: Any) -> frozenset[VifKind]:
    if not isinstance(reported, list | tuple):
        return frozenset()
    return frozenset(each for each in VifKind if each.value in reported)
