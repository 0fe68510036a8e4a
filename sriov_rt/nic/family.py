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

"""What a family of NICs takes and does: the words of a row."""

import dataclasses
import enum
import errno
import types
from collections.abc import Mapping
from typing import Any

from sriov_rt.parse.pci import PciId


class Attribute(enum.StrEnum):
    """What can be set of a VF; each is a field of settings.VfSettings."""

    MAC = "mac"
    VLAN = "vlan"
    QOS = "qos"
    VLAN_PROTOCOL = "vlan_protocol"
    SPOOFCHK = "spoofchk"
    TRUST = "trust"
    LINK_STATE = "link_state"
    MIN_TX_RATE = "min_tx_rate"
    MAX_TX_RATE = "max_tx_rate"
    QUERY_RSS = "query_rss"
    MTU = "mtu"
    PROMISC = "promisc"
    ALLMULTI = "allmulti"
    DRIVER = "driver"


#: Those that are set through the PF (IFLA_VFINFO_LIST).
THROUGH_PF = frozenset(Attribute) - {
    Attribute.MTU,
    Attribute.PROMISC,
    Attribute.ALLMULTI,
    Attribute.DRIVER,
}


class Support(enum.Enum):
    """Whether a family has an attribute.

    PROBE is for what hangs on firmware, kernel or an unknown driver: it is
    written, and EOPNOTSUPP reported.
    """

    YES = "yes"
    NO = "no"
    PROBE = "probe"


class MacEffect(enum.Enum):
    """When the interface of a VF has the MAC that was set through the PF.

    AFTER_RESET: the PF makes the VF's driver ask anew.
    """

    NOW = "now"
    AFTER_RESET = "after the VF's reset"
    AFTER_REBIND = "after its driver is bound again"


class FilterRelease(enum.Enum):
    """What makes a PF forget the unicast filters that a VF has set.

    REBIND: the reset that a VF's driver begins and ends with.
    REMAKE: nothing but new VFs (0 into sriov_numvfs).
    """

    REBIND = "its driver is bound again"
    REMAKE = "the PF's VFs are made again"


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """What rates a family keeps; all in Mbit/s, and 0 clears.

    :param minimum: the least that is taken.
    :param raised: whether less than the minimum becomes the minimum.
    :param maximum: the greatest that is taken; None for no number.
    :param quantum: a rate is cut to a multiple of this.
    :param to_link: the link's speed is the greatest too.
    :param needs_carrier: nothing is taken without a carrier, not even 0.
    :param link_mbps: the one speed of the link at which rates are taken.
    """

    minimum: int = 1
    raised: bool = False
    maximum: int | None = None
    quantum: int = 1
    to_link: bool = False
    needs_carrier: bool = False
    link_mbps: int | None = None

    def effective(self, asked: int) -> int:
        """Return the rate that the NIC keeps if asked for another."""
        if asked and self.raised and asked < self.minimum:
            return self.minimum
        return asked - asked % self.quantum


@dataclasses.dataclass(frozen=True, slots=True)
class MacFilters:
    """Unicast filters for MACs beside the VF's own.

    :param each: what one VF may have; None for no number of its own.
    :param shared: what all VFs of a PF have among them when there is none.
    :param taken: how many of the shared each VF takes for its own MAC.
    """

    each: int | None = None
    shared: int | None = None
    taken: int = 1

    def budget(self, vfs: int) -> int | None:
        """Return how many a VF can count on.

        Of the shared ones that is an equal part: a PF does not tell who has
        taken how many, and drops what is too much silently.

        :param vfs: how many VFs the PF has.
        """
        if self.shared is None:
            return self.each
        part = max(self.shared - self.taken * vfs, 0) // max(vfs, 1)
        return part if self.each is None else min(part, self.each)


def _nothing() -> Mapping[Attribute, Any]:
    return types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """NICs that behave alike.

    :param drivers: names of the PFs' drivers.
    :param products: PCI ids of PFs, for a driver that is not known.
    :param support: what an attribute that is not named has is YES.
    :param why_not: attribute to the reason, a clause, for those with NO.
    :param link_states: those that do what they say.
    :param effects: attribute to what else happens when it changes.
    :param max_vfs: of one PF; None for what sriov_totalvfs says.
    :param queues: of one VF; None if that can be configured.
    :param shows_made_up: whether the PF shows the MAC that a VF's driver
        made up; then one that it does not show got no answer of it.
    :param filter_release: what makes the PF forget a VF's unicast filters.
    :param clears_mac: whether 00:00:00:00:00:00 takes the admin MAC away.
    :param transient: errno of a VF that is resetting; worth a retry.
    """

    name: str
    drivers: frozenset[str]
    products: frozenset[PciId] = frozenset()
    support: Mapping[Attribute, Support] = dataclasses.field(
        default_factory=_nothing
    )
    why_not: Mapping[Attribute, str] = dataclasses.field(
        default_factory=_nothing
    )
    rate: Rate = Rate()
    link_states: frozenset[str] = frozenset({"auto", "enable", "disable"})
    effects: Mapping[Attribute, str] = dataclasses.field(
        default_factory=_nothing
    )
    mac_effect: MacEffect = MacEffect.NOW
    shows_made_up: bool = False
    clears_mac: Support = Support.YES
    mac_filters: MacFilters = MacFilters()
    filter_release: FilterRelease = FilterRelease.REBIND
    max_vfs: int | None = None
    queues: int | None = None
    transient: frozenset[int] = frozenset({errno.EAGAIN})

    def supports(self, attribute: Attribute) -> Support:
        """Return whether the family has an attribute."""
        return self.support.get(attribute, Support.YES)
