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

"""Offer of a host, as its agent reports it to the mechanism driver."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from sriov_rt.request.words import VifKind

#: As ``openstack network agent list`` shows our agent.
AGENT_TYPE = "SR-IOV RT VIF agent"
AGENT_BINARY = "sriov-rt-neutron-agent"

#: The longest name of a physical network (PHYSICAL_NETWORK_MAX_LEN in
#: neutron_lib/api/definitions/provider_net.py), in characters.
MAX_NAME = 64

#: What the agent reports of itself is a message of another host: no more
#: physical networks of it are read.
MAX_NETWORKS = 256

#: No host has more parents on one network: VFs are numbered by 16 bits.
MAX_PARENTS = 65535

_NAME = re.compile(rf"[^\s,:]{{1,{MAX_NAME}}}")


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """Parents and kinds of port that a host offers.

    :param parents: physical network to how many interfaces of its pool are
        there to carry ports.
    :param kinds: the kinds of port that it makes.
    """

    parents: Mapping[str, int]
    kinds: frozenset[VifKind]

    def to_configurations(self) -> dict[str, Any]:
        """Return it as the agent reports it."""
        return {
            "parents": dict(sorted(self.parents.items())),
            "kinds": sorted(self.kinds),
        }

    @classmethod
    def from_configurations(cls, reported: Any) -> "Offer":
        """Return the offer that an agent reported.

        What is out of the form is passed over: a host that cannot be
        understood offers nothing.

        :param reported: ``configurations`` as Neutron's database has them.
        """
        if not isinstance(reported, Mapping):
            return cls({}, frozenset())
        return cls(
            _parents(reported.get("parents")), _kinds(reported.get("kinds"))
        )


def is_network(name: object) -> bool:
    """Return whether this can be the name of a physical network."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _parents(reported: Any) -> dict[str, int]:
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
