# SPDX-License-Identifier: Apache-2.0

"""NIC families, one row each: attributes, limits, baseline, eswitch mode.

Every number has its source: a function of the driver below
``drivers/net/ethernet`` of Linux, or an article. A new NIC is a new row, here
or in another package's ``sriov_rt.nic_families``.
"""

import dataclasses
import enum
import errno
import logging
import types
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import Self

from sriov_rt import entry_points
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import EswitchMode
from sriov_rt.nic.model import Pf
from sriov_rt.parse.pci import PciId

LOG = logging.getLogger(__name__)

NAMESPACE = "sriov_rt.nic_families"


class Attribute(enum.StrEnum):
    """Attributes of a VF that can be set; each is a field of VfSettings."""

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


#: The attributes that are set through the PF (IFLA_VFINFO_LIST).
THROUGH_PF = frozenset(Attribute) - {
    Attribute.MTU,
    Attribute.PROMISC,
    Attribute.ALLMULTI,
    Attribute.DRIVER,
}


class Support(enum.Enum):
    """Whether a family has an attribute.

    PROBE means that it depends on firmware, kernel or an unknown driver: it is
    written, and EOPNOTSUPP is reported.
    """

    YES = "yes"
    NO = "no"
    PROBE = "probe"


class MacEffect(enum.Enum):
    """When a VF's interface gets the MAC that was set through the PF.

    AFTER_RESET: the PF makes the VF's driver request it again.
    """

    NOW = "now"
    AFTER_RESET = "after the VF's reset"
    AFTER_REBIND = "after its driver is bound again"


class FilterRelease(enum.Enum):
    """The step after which a PF has forgotten a VF's unicast filters.

    REBIND: rebinding, as a VF's driver begins and ends with a reset. REMAKE:
    only new VFs (0 into sriov_numvfs).
    """

    REBIND = "its driver is bound again"
    REMAKE = "the PF's VFs are made again"


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """Rate limits of a family, Mbit/s; 0 clears the limit.

    :param minimum: the lowest rate that is accepted.
    :param raised: whether a lower rate is raised to the minimum.
    :param maximum: the highest rate that is accepted; None for no fixed one.
    :param quantum: a rate is rounded down to a multiple of this.
    :param to_link: whether the link's speed is a maximum, too.
    :param needs_carrier: whether no rate, not even 0, is accepted without a
        carrier.
    :param link_mbps: the only speed of the link at which rates are accepted.
    """

    minimum: int = 1
    raised: bool = False
    maximum: int | None = None
    quantum: int = 1
    to_link: bool = False
    needs_carrier: bool = False
    link_mbps: int | None = None

    def effective(self, requested: int) -> int:
        """Return the rate that the NIC keeps for a requested one."""
        if requested and self.raised and requested < self.minimum:
            return self.minimum
        return requested - requested % self.quantum


@dataclasses.dataclass(frozen=True, slots=True)
class MacFilters:
    """Unicast filters for MACs beside the VF's own.

    :param each: filters of one VF; None for no limit of its own.
    :param shared: filters that all VFs of a PF share; None if they do not.
    :param taken: how many of the shared filters each VF takes for its own MAC.
    """

    each: int | None = None
    shared: int | None = None
    taken: int = 1

    def budget(self, vfs: int) -> int | None:
        """Return how many filters a VF can count on.

        Of shared ones it is an equal part: a PF does not show how many each VF
        has taken, and drops the excess silently.

        :param vfs: number of VFs of the PF.
        """
        if self.shared is None:
            return self.each
        part = max(self.shared - self.taken * vfs, 0) // max(vfs, 1)
        return part if self.each is None else min(part, self.each)


class Evidence(enum.Enum):
    """How the behaviour of a family is known."""

    RUN = "run, on an emulated one"
    READ = "read in the driver's source"


def _nothing() -> Mapping[Attribute, Any]:
    return types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """NICs that behave in the same way.

    A NIC whose VFs behave differently by eswitch mode has a row for each mode,
    with the same drivers and products.

    :param drivers: names of the PFs' drivers.
    :param models: NICs of the family, for the documentation.
    :param eswitch: the mode that the row is for.
    :param baseline: settings of its VFs before and after each use.
    :param products: PCI ids of PFs, for a driver that is not known.
    :param support: support by attribute; YES for one that is not named.
    :param why_not: reasons, as clauses, by attribute with NO.
    :param link_states: link states that work as named.
    :param effects: side effects of a change, by attribute.
    :param max_vfs: limit for one PF; None for that of sriov_totalvfs.
    :param shows_made_up: whether the PF shows the MAC that a VF's driver made
        up; then a VF whose MAC it does not show got no answer.
    :param filter_release: step after which the PF forgets a VF's unicast
        filters.
    :param resets_function: whether on a reset of the function (FLR) the PF
        also resets the queues, mailbox and filters of a VF, whatever a killed
        driver has left there.
    :param clears_mac: whether 00:00:00:00:00:00 removes the admin MAC.
    :param transient: errno of a VF that is resetting; worth a retry.
    :param evidence: how all of this is known.
    """

    name: str
    drivers: frozenset[str]
    models: str = ""
    eswitch: EswitchMode = EswitchMode.LEGACY
    baseline: VfSettings = BASELINE
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
    resets_function: bool = False
    clears_mac: Support = Support.YES
    mac_filters: MacFilters = MacFilters()
    filter_release: FilterRelease = FilterRelease.REBIND
    max_vfs: int | None = None
    transient: frozenset[int] = frozenset({errno.EAGAIN})
    evidence: Evidence = Evidence.READ

    def supports(self, attribute: Attribute) -> Support:
        """Return whether the family has an attribute."""
        return self.support.get(attribute, Support.YES)


#: Effect of a change after which the VF's driver starts over.
_RESTARTS = "the VF's driver starts over: its link drops for a moment"

_NO_MINIMUM = "its driver refuses a min_tx_rate other than 0"
_ONLY_Q = "it has 802.1Q only"
_NO_QUERY = "its driver has no ndo_set_vf_rss_query_en"

#: X520 and X540. intel/ixgbe/ixgbe_sriov.c: ixgbe_ndo_set_vf_bw (rates only
#: with a link of 10 Gb/s, above 10 Mb/s and up to the link's),
#: ixgbe_ndo_set_vf_vlan (802.1Q only), ixgbe_ndo_set_vf_link_state (takes
#: ENABLE and does nothing), ixgbe_ndo_set_vf_rss_query_en (82599 and X540
#: only); 64 pools of which the PF has one (IXGBE_MAX_VF_FUNCTIONS). All VFs
#: share what the PF leaves of 128 receive addresses: 16 are its own
#: (num_rar_entries, IXGBE_MAX_PF_MACVLANS + 1). ixgbe_msg_task answers an FLR
#: by ixgbe_vf_reset_event.
IXGBE = Family(
    name="ixgbe",
    drivers=frozenset({"ixgbe"}),
    models="X520",
    products=frozenset({PciId(0x8086, 0x10FB)}),
    support=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: Support.NO,
            Attribute.LINK_STATE: Support.PROBE,
            Attribute.QUERY_RSS: Support.PROBE,
            Attribute.VLAN_PROTOCOL: Support.NO,
        }
    ),
    why_not=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: _NO_MINIMUM,
            Attribute.VLAN_PROTOCOL: _ONLY_Q,
        }
    ),
    rate=Rate(minimum=11, maximum=10000, needs_carrier=True, link_mbps=10000),
    link_states=frozenset({"auto", "disable"}),
    effects=types.MappingProxyType(
        {Attribute.TRUST: _RESTARTS, Attribute.LINK_STATE: _RESTARTS}
    ),
    mac_effect=MacEffect.AFTER_REBIND,
    mac_filters=MacFilters(shared=112),
    resets_function=True,
    max_vfs=63,
)

#: X710. intel/i40e/i40e_virtchnl_pf.c: i40e_ndo_set_vf_bw remembers the
#: requested rate and i40e_set_bw_limit (i40e_main.c) keeps 50 for less and
#: steps of I40E_BW_CREDIT_DIVISOR = 50, which reading back does not show: so
#: only rates that are kept are ever written. i40e_ndo_set_vf_trust and _mac
#: reset the VF; all answer EAGAIN meanwhile. An untrusted VF has 18 filters,
#: two of them its own and broadcast (I40E_VC_MAX_MAC_ADDR_PER_VF).
#: i40e_vc_process_vflr_event answers an FLR by i40e_reset_vf.
I40E = Family(
    name="i40e",
    drivers=frozenset({"i40e"}),
    models="X710",
    products=frozenset({PciId(0x8086, 0x1572)}),
    support=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: Support.NO,
            Attribute.QUERY_RSS: Support.NO,
            Attribute.VLAN_PROTOCOL: Support.PROBE,
        }
    ),
    why_not=types.MappingProxyType(
        {Attribute.MIN_TX_RATE: _NO_MINIMUM, Attribute.QUERY_RSS: _NO_QUERY}
    ),
    rate=Rate(minimum=50, raised=True, quantum=50, to_link=True),
    effects=types.MappingProxyType(
        {
            Attribute.TRUST: "resets the VF: it has no link for seconds",
            Attribute.MAC: "resets the VF",
            Attribute.VLAN: "resets the VF",
        }
    ),
    mac_effect=MacEffect.AFTER_RESET,
    mac_filters=MacFilters(each=16),
    resets_function=True,
)

#: E810. intel/ice/ice_sriov.c: ice_set_vf_bw (min and max in Mb/s),
#: ice_set_vf_trust, _mac and _port_vlan reset the VF and answer EBUSY
#: meanwhile (ice_check_vf_ready_for_cfg); no VF is trusted in switchdev mode,
#: no minimum is set while the PF has DCB, and 802.1ad needs double VLAN mode
#: (ice_is_supported_port_vlan_proto). ICE_MAX_MACADDR_PER_VF is 18, two of
#: them the VF's own and broadcast. ice_process_vflr_event answers an FLR by
#: ice_reset_vf.
ICE = Family(
    name="ice",
    drivers=frozenset({"ice"}),
    models="E810",
    products=frozenset({PciId(0x8086, 0x1592), PciId(0x8086, 0x1593)}),
    support=types.MappingProxyType(
        {
            Attribute.QUERY_RSS: Support.NO,
            Attribute.MIN_TX_RATE: Support.PROBE,
            Attribute.VLAN_PROTOCOL: Support.PROBE,
        }
    ),
    why_not=types.MappingProxyType({Attribute.QUERY_RSS: _NO_QUERY}),
    effects=types.MappingProxyType(
        {
            Attribute.TRUST: "resets the VF",
            Attribute.MAC: "resets the VF",
            Attribute.VLAN: "resets the VF",
        }
    ),
    mac_effect=MacEffect.AFTER_RESET,
    mac_filters=MacFilters(each=16),
    resets_function=True,
    transient=frozenset({errno.EAGAIN, errno.EBUSY}),
)

#: SFN8522, X2522, X2541 (EF10). sfc/ef10_sriov.c: no rates and no trust at
#: all, 802.1Q only (efx_sriov_set_vf_vlan in sfc/sriov.c), spoofchk by
#: firmware (efx_ef10_sriov_set_vf_spoofchk) and not reported; MAC and VLAN
#: take the VF's datapath down and up, and a VLAN has no priority
#: (efx_ef10_sriov_set_vf_vlan). The PF gives each VF a random MAC
#: (efx_ef10_sriov_alloc_vf_vswitching), and the VF's driver cannot do without
#: one (efx_ef10_get_mac_address_vf). 32 unicast filters with the VF's own
#: (EFX_EF10_FILTER_DEV_UC_MAX); 240 VFs by sfboot.
SFC = Family(
    name="sfc",
    drivers=frozenset({"sfc"}),
    models="SFN8xxx, X2",
    products=frozenset({PciId(0x1924)}),
    support=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: Support.NO,
            Attribute.MAX_TX_RATE: Support.NO,
            Attribute.TRUST: Support.NO,
            Attribute.QUERY_RSS: Support.NO,
            Attribute.SPOOFCHK: Support.PROBE,
            Attribute.VLAN_PROTOCOL: Support.NO,
            Attribute.QOS: Support.NO,
        }
    ),
    why_not=types.MappingProxyType(
        {
            Attribute.QOS: "its driver takes VLANs with priority 0 only",
            Attribute.MIN_TX_RATE: "Solarflare NICs do not limit VFs",
            Attribute.MAX_TX_RATE: "Solarflare NICs do not limit VFs",
            Attribute.TRUST: "its driver has no ndo_set_vf_trust",
            Attribute.QUERY_RSS: _NO_QUERY,
            Attribute.VLAN_PROTOCOL: _ONLY_Q,
        }
    ),
    effects=types.MappingProxyType(
        {
            Attribute.MAC: "takes the VF's datapath down and up",
            Attribute.VLAN: "takes the VF's datapath down and up",
        }
    ),
    mac_effect=MacEffect.NOW,
    clears_mac=Support.NO,
    mac_filters=MacFilters(each=31),
    max_vfs=240,
)

#: 82576. intel/igb/igb_main.c: igb_ndo_set_vf_bw (EINVAL without a carrier,
#: above the link's speed, or with a minimum), igb_ndo_set_vf_vlan (802.1Q
#: only), no ndo_set_vf_link_state. All VFs share what the PF leaves of 24
#: receive addresses (4 are its own: igb_probe_vfs, IGB_PF_MAC_FILTERS_
#: RESERVED + 1), and igbvf takes 3 (IGBVF_MAX_MAC_FILTERS). 8 pools of which
#: the PF has one. igbvf_probe sends the MAC that it made up to the PF, which
#: keeps it as the VF's (igb_set_vf_mac). igb_set_vf_mac_filter refuses igbvf's
#: request to clear filters, for its address is zeros: with 6.1 a VF got 8 of 8
#: frames for another's MAC after the macvlan that had asked for them was gone,
#: after the VF was down and up, and after an FLR. igb_reset, by which VFs are
#: made, empties the table (igb_flush_mac_table). igb_msg_task answers an FLR
#: by igb_vf_reset_event, so that igbvf finds a mailbox that works.
IGB = Family(
    name="igb",
    drivers=frozenset({"igb"}),
    models="82576",
    products=frozenset({PciId(0x8086, 0x10C9)}),
    support=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: Support.NO,
            Attribute.LINK_STATE: Support.NO,
            Attribute.QUERY_RSS: Support.NO,
            Attribute.VLAN_PROTOCOL: Support.NO,
        }
    ),
    why_not=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: _NO_MINIMUM,
            Attribute.LINK_STATE: "its driver has no ndo_set_vf_link_state",
            Attribute.QUERY_RSS: _NO_QUERY,
            Attribute.VLAN_PROTOCOL: _ONLY_Q,
        }
    ),
    rate=Rate(to_link=True, needs_carrier=True),
    mac_effect=MacEffect.AFTER_REBIND,
    shows_made_up=True,
    mac_filters=MacFilters(each=3, shared=20),
    filter_release=FilterRelease.REMAKE,
    resets_function=True,
    max_vfs=7,
    evidence=Evidence.RUN,
)

#: mlx5_core_pci_table in mellanox/mlx5/core/main.c: ConnectX-4 to ConnectX-8,
#: BlueField-2 and -3.
_MLX5_PRODUCTS = frozenset(
    PciId(0x15B3, product)
    for product in (
        *(0x1013, 0x1015, 0x1017, 0x1019, 0x101B, 0x101D, 0x101F),
        *(0x1021, 0x1023, 0xA2D6, 0xA2DC),
    )
)
_ON_REPRESENTOR = "in switchdev mode it is set on the VF's representor"

#: mellanox/mlx5/core/eswitch.c and esw/legacy.c. Zeros are taken for a MAC
#: (mlx5_eswitch_set_vport_mac; a kernel as old as RHEL 7's answers EPERM while
#: spoof checking is on), 802.1ad is EPROTONOSUPPORT (mlx5e_set_vf_vlan), and
#: rates hang on the firmware (mlx5_esw_qos_set_vport_rate). A VF reads the MAC
#: of its vport when its driver is bound (mlx5e_set_netdev_dev_addr).
MLX5 = Family(
    name="mlx5",
    drivers=frozenset({"mlx5_core"}),
    models="ConnectX-4 and later",
    products=_MLX5_PRODUCTS,
    support=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: Support.PROBE,
            Attribute.MAX_TX_RATE: Support.PROBE,
            Attribute.QUERY_RSS: Support.NO,
            Attribute.VLAN_PROTOCOL: Support.PROBE,
        }
    ),
    why_not=types.MappingProxyType({Attribute.QUERY_RSS: _NO_QUERY}),
    mac_effect=MacEffect.AFTER_REBIND,
    clears_mac=Support.PROBE,
)

#: The same in switchdev mode, where mlx5_eswitch_set_vport_vlan only takes 0,
#: and spoofchk and trust are EOPNOTSUPP (esw/legacy.c).
MLX5_SWITCHDEV = dataclasses.replace(
    MLX5,
    name="mlx5 (switchdev)",
    eswitch=EswitchMode.SWITCHDEV,
    baseline=dataclasses.replace(BASELINE, spoofchk=None),
    support=types.MappingProxyType(
        {
            **MLX5.support,
            Attribute.VLAN: Support.NO,
            Attribute.QOS: Support.NO,
            Attribute.VLAN_PROTOCOL: Support.NO,
            Attribute.SPOOFCHK: Support.NO,
            Attribute.TRUST: Support.NO,
        }
    ),
    why_not=types.MappingProxyType(
        {
            **MLX5.why_not,
            Attribute.VLAN: _ON_REPRESENTOR,
            Attribute.QOS: _ON_REPRESENTOR,
            Attribute.VLAN_PROTOCOL: _ON_REPRESENTOR,
            Attribute.SPOOFCHK: "its driver has it in legacy mode only",
            Attribute.TRUST: "its driver has it in legacy mode only",
        }
    ),
)

#: broadcom/bnxt/bnxt_sriov.c. Zeros are accepted as a MAC (bnxt_set_vf_mac),
#: and without one the PF shows the VF's own (bnxt_get_vf_config). Rates are
#: EINVAL above the link's speed (bnxt_set_vf_bw). Older firmware has no spoof
#: checking (ENOTSUPP) and no 802.1ad (EPROTONOSUPPORT).
BNXT = Family(
    name="bnxt",
    drivers=frozenset({"bnxt_en"}),
    models="BCM574xx, BCM575xx",
    products=frozenset(
        PciId(0x14E4, product)
        for product in (0x16D6, 0x16D7, 0x16D8, 0x1750, 0x1751, 0x1752)
    ),
    support=types.MappingProxyType(
        {
            Attribute.MIN_TX_RATE: Support.PROBE,
            Attribute.SPOOFCHK: Support.PROBE,
            Attribute.TRUST: Support.PROBE,
            Attribute.QUERY_RSS: Support.NO,
            Attribute.VLAN_PROTOCOL: Support.PROBE,
        }
    ),
    why_not=types.MappingProxyType({Attribute.QUERY_RSS: _NO_QUERY}),
    rate=Rate(to_link=True),
    mac_effect=MacEffect.AFTER_REBIND,
    clears_mac=Support.PROBE,
    # bnxt_alloc_vf_resources: vf_event_bmap has a bit for each of 128.
    max_vfs=128,
)

#: Any other NIC, or one in an eswitch mode without a row of its driver:
#: nothing is assumed; requested values are written and read back.
GENERIC = Family(
    name="generic",
    drivers=frozenset(),
    support=types.MappingProxyType(dict.fromkeys(Attribute, Support.PROBE)),
    mac_effect=MacEffect.AFTER_REBIND,
    clears_mac=Support.PROBE,
)

#: The rows of this package. Rows of other packages are entry points.
BUILT_IN = (IXGBE, I40E, ICE, SFC, IGB, MLX5, MLX5_SWITCHDEV, BNXT)


class Families:
    """Rows of all known families.

    :param rows: a later row replaces an earlier one of the same name.
    """

    def __init__(self, rows: Iterable[Family] = BUILT_IN) -> None:
        named = {each.name: each for each in rows}
        self.rows: Mapping[str, Family] = types.MappingProxyType(named)

    @classmethod
    def installed(cls) -> Self:
        """Return the rows of this package and those of installed packages.

        A row that cannot be loaded is skipped with a warning: its NICs are
        then probed as NICs without a row.
        """
        loaded, failed = entry_points.load(NAMESPACE)
        rows = [each for each in loaded.values() if isinstance(each, Family)]
        others = {
            name: "not a Family"
            for name, each in loaded.items()
            if not isinstance(each, Family)
        }
        for name, problem in {**failed, **others}.items():
            LOG.warning(
                "the NIC family '%s' cannot be loaded (%s); its NICs are "
                "probed; reinstall the package that it comes with",
                name,
                problem,
            )
        return cls((*BUILT_IN, *rows))

    def of(self, pf: Pf) -> Family:
        """Return the family of a PF; the generic one if none fits.

        The driver decides; the PCI id only if no row has the driver. A row is
        for one eswitch mode.
        """
        of_driver = [
            row for row in self.rows.values() if pf.driver in row.drivers
        ]
        if of_driver:
            return _in_mode(of_driver, pf.eswitch)
        ids = (
            PciId.parse(f"{pf.vendor}:{pf.product}"),
            PciId.parse(pf.vendor),
        )
        for each in ids:
            of_product = [
                row for row in self.rows.values() if each in row.products
            ]
            if of_product:
                return _in_mode(of_product, pf.eswitch)
        return GENERIC


def _in_mode(rows: Iterable[Family], mode: EswitchMode) -> Family:
    return next((row for row in rows if row.eswitch is mode), GENERIC)
