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

"""What can be set of a VF, and how a clean one is set."""

import dataclasses
import enum

#: The address of a VF that has no administrative MAC: the PF reports zeros.
NO_MAC = "00:00:00:00:00:00"


class LinkState(enum.StrEnum):
    """IFLA_VF_LINK_STATE (include/uapi/linux/if_link.h)."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


class VlanProtocol(enum.StrEnum):
    """The tag of a VF's VLAN: IFLA_VF_VLAN_INFO's vlan_proto."""

    Q = "802.1q"
    AD = "802.1ad"


@dataclasses.dataclass(frozen=True, slots=True)
class VfSettings:
    """Attributes of a VF; None leaves one alone, or could not be read.

    The first are set through the PF (``ip link set PF vf N …``), those from
    ``mtu`` on belong to the VF's own interface or PCI device.

    :param mac: the administrative MAC, lower case; NO_MAC is none.
    :param vlan: 0 is none, to 4094.
    :param qos: the VLAN's priority, 0 to 7.
    :param min_tx_rate: Mbit/s, 0 is none.
    :param max_tx_rate: Mbit/s, 0 is none.
    :param query_rss: whether the VF may read its RSS configuration.
    :param mtu: bytes.
    :param promisc: whether the VF's interface was set promiscuous.
    :param driver: name of the PCI driver to be bound to.
    """

    mac: str | None = None
    vlan: int | None = None
    qos: int | None = None
    vlan_protocol: VlanProtocol | None = None
    spoofchk: bool | None = None
    trust: bool | None = None
    link_state: LinkState | None = None
    min_tx_rate: int | None = None
    max_tx_rate: int | None = None
    query_rss: bool | None = None
    mtu: int | None = None
    promisc: bool | None = None
    allmulti: bool | None = None
    driver: str | None = None


#: How a VF is before each use and after it. What a family does not take is
#: left out of the plan; the right driver comes from the configuration.
BASELINE = VfSettings(
    mac=NO_MAC,
    vlan=0,
    qos=0,
    vlan_protocol=VlanProtocol.Q,
    spoofchk=True,
    trust=False,
    link_state=LinkState.AUTO,
    min_tx_rate=0,
    max_tx_rate=0,
    query_rss=False,
    promisc=False,
    allmulti=False,
)
