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

"""The NIC families that are known: one row each.

Every number says where it is from: a function of the driver below
``drivers/net/ethernet`` of Linux, or a seed. A new NIC is a new row, here or
in another package's ``sriov_rt.nic_families``.
"""

import errno
import types

from sriov_rt.nic.family import Attribute
from sriov_rt.nic.family import Family
from sriov_rt.nic.family import FilterRelease
from sriov_rt.nic.family import MacEffect
from sriov_rt.nic.family import MacFilters
from sriov_rt.nic.family import Rate
from sriov_rt.nic.family import Support
from sriov_rt.parse.pci import PciId

#: The VF's driver starts over, as after a reset.
_RESTARTS = "the VF's driver starts over: its link drops for a moment"

_NO_MINIMUM = "its driver refuses a min_tx_rate other than 0"
_ONLY_Q = "it has 802.1Q only"
_NO_QUERY = "its driver has no ndo_set_vf_rss_query_en"

#: X520 and X540. intel/ixgbe/ixgbe_sriov.c: ixgbe_ndo_set_vf_bw (rates only
#: with a link of 10 Gb/s, above 10 Mb/s; seed 001 says 11 to 10000),
#: ixgbe_ndo_set_vf_vlan (802.1Q only), ixgbe_ndo_set_vf_link_state (takes
#: ENABLE and does nothing), ixgbe_ndo_set_vf_rss_query_en (82599 and X540
#: only); 64 pools of which the PF has one (IXGBE_MAX_VF_FUNCTIONS); a VF may
#: have 2 queues (seed 001). All VFs share what the PF leaves of 128 receive
#: addresses: 16 are its own (num_rar_entries, IXGBE_MAX_PF_MACVLANS + 1).
IXGBE = Family(
    name="ixgbe",
    drivers=frozenset({"ixgbe"}),
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
    max_vfs=63,
    queues=2,
)

#: X710. intel/i40e/i40e_virtchnl_pf.c: i40e_ndo_set_vf_bw remembers what was
#: asked and i40e_set_bw_limit (i40e_main.c) keeps 50 for less and steps of
#: I40E_BW_CREDIT_DIVISOR = 50, which reading back does not show: so only
#: rates that are kept are ever written. i40e_ndo_set_vf_trust and _mac reset
#: the VF; all answer EAGAIN meanwhile. An untrusted VF has 18 filters, two of
#: them its own and broadcast (I40E_VC_MAX_MAC_ADDR_PER_VF). 4 queues a VF
#: (seed 001).
I40E = Family(
    name="i40e",
    drivers=frozenset({"i40e"}),
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
    queues=4,
)

#: E810. intel/ice/ice_sriov.c: ice_set_vf_bw (min and max in Mb/s),
#: ice_set_vf_trust, _mac and _port_vlan reset the VF and answer EBUSY
#: meanwhile (ice_check_vf_ready_for_cfg); 802.1ad needs double VLAN mode
#: (ice_is_supported_port_vlan_proto). ICE_MAX_MACADDR_PER_VF is 18, two of
#: them the VF's own and broadcast.
ICE = Family(
    name="ice",
    drivers=frozenset({"ice"}),
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
#: made, empties the table (igb_flush_mac_table).
IGB = Family(
    name="igb",
    drivers=frozenset({"igb"}),
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
    max_vfs=7,
    queues=2,
)

#: Any other NIC: nothing is assumed, what is asked is written and read back.
GENERIC = Family(
    name="generic",
    drivers=frozenset(),
    support=types.MappingProxyType(dict.fromkeys(Attribute, Support.PROBE)),
    mac_effect=MacEffect.AFTER_REBIND,
    clears_mac=Support.PROBE,
)

BUILT_IN = (IXGBE, I40E, ICE, SFC, IGB)
