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

"""VFs over rtnetlink: IFLA_VFINFO_LIST, read and written."""

import errno
import itertools
import os
import socket
import types
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import NLM_F_ACK
from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_GETLINK
from pyroute2.netlink.rtnl import RTM_SETLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from sriov_rt.nic import channel
from sriov_rt.nic import errors
from sriov_rt.nic.settings import LinkState
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.settings import VlanProtocol

#: RTEXT_FILTER_VF and RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h). Without
#: the counters a VF takes 200 bytes and not 320.
VFS_ONLY = 1 | 8

#: What a driver that does not report spoofchk, trust or rss_query leaves
#: there: -1 (rtnl_fill_vfinfo in net/core/rtnetlink.c).
UNREPORTED = 0xFFFFFFFF

#: IFF_PROMISC and IFF_ALLMULTI of include/uapi/linux/if.h.
PROMISC, ALLMULTI = 0x100, 0x200

#: ETH_P_8021Q and ETH_P_8021AD (linux/if_ether.h).
_PROTOCOLS = types.MappingProxyType(
    {VlanProtocol.Q: 0x8100, VlanProtocol.AD: 0x88A8}
)
_LINK_STATES = (LinkState.AUTO, LinkState.ENABLE, LinkState.DISABLE)

Pair = tuple[str, Any]


class Rtnetlink:
    """Requests on links of the caller's network namespace."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return what the PF says of all its VFs, by one request.

        :raises NicError: as the kernel's errno says.
        """
        mask = ("IFLA_EXT_MASK", VFS_ONLY)
        return decode(self._get(pf, [mask]))

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set what is not None through the PF, by one request.

        :param changes: index of a VF to what to set.
        :raises NicError: as the kernel's errno says.
        """
        infos = [
            ("IFLA_VF_INFO", {"attrs": list(encode(index, each))})
            for index, each in changes.items()
        ]
        listed = ("IFLA_VFINFO_LIST", {"attrs": infos})
        device = f"{pf}/{min(changes)}" if len(changes) == 1 else pf
        self._set(pf, [listed], device=device)

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""
        attributes = []
        if settings.mtu is not None:
            attributes.append(("IFLA_MTU", settings.mtu))
        mask = flags = 0
        for bit, on in (
            (PROMISC, settings.promisc),
            (ALLMULTI, settings.allmulti),
        ):
            if on is not None:
                mask |= bit
                flags |= bit if on else 0
        self._set(netdev, attributes, flags=flags, change=mask)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._set(netdev, [("IFLA_IFNAME", name)])

    def flags(self, netdev: str) -> tuple[bool, bool]:
        """Return whether promisc and allmulti were set by somebody.

        sysfs shows them also while something on top needs them.
        """
        bits = self._get(netdev, [])["flags"]
        return bool(bits & PROMISC), bool(bits & ALLMULTI)

    def _get(self, interface: str, attributes: list[Pair]) -> Any:
        answers = self._ask(RTM_GETLINK, interface, interface, attributes)
        if not answers:
            raise errors.BadState(interface, None, "the kernel says nothing")
        link = ifinfmsg(answers[0])
        link.decode()
        return link

    def _set(
        self,
        interface: str,
        attributes: list[Pair],
        *,
        device: str | None = None,
        **fields: int,
    ) -> None:
        about = device or interface
        self._ask(RTM_SETLINK, interface, about, attributes, **fields)

    def _ask(
        self,
        kind: int,
        interface: str,
        device: str,
        attributes: list[Pair],
        **fields: int,
    ) -> list[bytes]:
        message = ifinfmsg()
        message["header"]["type"] = kind
        message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK
        message["header"]["sequence_number"] = next(self._numbers)
        message["attrs"] = attributes
        try:
            message["index"] = _index(interface)
            for name, value in fields.items():
                message[name] = value
            message.encode()
            return channel.ask(bytes(message.data))
        except OSError as error:
            code = error.errno or errno.EIO
            raise errors.from_errno(
                code, device, words=error.strerror
            ) from error


def encode(index: int, settings: VfSettings) -> Iterator[Pair]:
    """Yield the attributes that set a VF.

    :param index: its number on its PF.
    """
    if settings.mac is not None:
        yield "IFLA_VF_MAC", {"vf": index, "mac": settings.mac}
    if settings.vlan is not None:
        yield _vlan(index, settings)
    if settings.max_tx_rate is not None or settings.min_tx_rate is not None:
        rates = {
            "min_tx_rate": settings.min_tx_rate or 0,
            "max_tx_rate": settings.max_tx_rate or 0,
        }
        yield "IFLA_VF_RATE", {"vf": index, **rates}
    if settings.spoofchk is not None:
        on = int(settings.spoofchk)
        yield "IFLA_VF_SPOOFCHK", {"vf": index, "spoofchk": on}
    if settings.link_state is not None:
        state = _LINK_STATES.index(settings.link_state)
        yield "IFLA_VF_LINK_STATE", {"vf": index, "link_state": state}
    if settings.query_rss is not None:
        on = int(settings.query_rss)
        yield "IFLA_VF_RSS_QUERY_EN", {"vf": index, "rss_query_en": on}
    if settings.trust is not None:
        on = int(settings.trust)
        yield "IFLA_VF_TRUST", {"vf": index, "trust": on}


def _vlan(index: int, settings: VfSettings) -> Pair:
    """Return IFLA_VF_VLAN, or the newer list where the tag is 802.1ad.

    Older drivers take the first alone.
    """
    plain = {"vf": index, "vlan": settings.vlan, "qos": settings.qos or 0}
    if settings.vlan_protocol is not VlanProtocol.AD:
        return "IFLA_VF_VLAN", plain
    info = {**plain, "proto": _PROTOCOLS[VlanProtocol.AD]}
    return "IFLA_VF_VLAN_LIST", {"attrs": [("IFLA_VF_VLAN_INFO", info)]}


def decode(link: Any) -> Mapping[int, VfSettings]:
    """Return the VFs of an RTM_NEWLINK message.

    What is not as the kernel's header says is left out.
    """
    listed = link.get_attr("IFLA_VFINFO_LIST")
    if listed is None:
        return {}
    found = {}
    for info in listed.get_attrs("IFLA_VF_INFO"):
        named = dict(info["attrs"])
        mac = named.get("IFLA_VF_MAC")
        if mac is not None:
            found[int(mac["vf"])] = _settings(named)
    return found


def _settings(named: Mapping[str, Any]) -> VfSettings:
    vlan = named.get("IFLA_VF_VLAN", {})
    rate = named.get("IFLA_VF_RATE", {})
    state = named.get("IFLA_VF_LINK_STATE", {}).get("link_state")
    return VfSettings(
        mac=named["IFLA_VF_MAC"]["mac"].lower(),
        vlan=vlan.get("vlan"),
        qos=vlan.get("qos"),
        vlan_protocol=_protocol(named),
        spoofchk=_switch(named, "IFLA_VF_SPOOFCHK", "spoofchk"),
        trust=_switch(named, "IFLA_VF_TRUST", "trust"),
        link_state=(
            _LINK_STATES[state]
            if state is not None and state < len(_LINK_STATES)
            else None
        ),
        min_tx_rate=rate.get("min_tx_rate"),
        max_tx_rate=rate.get("max_tx_rate"),
        query_rss=_switch(named, "IFLA_VF_RSS_QUERY_EN", "rss_query_en"),
    )


def _protocol(named: Mapping[str, Any]) -> VlanProtocol | None:
    listed = named.get("IFLA_VF_VLAN_LIST")
    if listed is None:
        return None
    for _, info in listed["attrs"]:
        for protocol, number in _PROTOCOLS.items():
            if info["proto"] == number:
                return protocol
    return None


def _switch(named: Mapping[str, Any], name: str, field: str) -> bool | None:
    value = named.get(name, {}).get(field, UNREPORTED)
    return None if value == UNREPORTED else bool(value)


def _index(interface: str) -> int:
    """Return the index of an interface.

    :raises OSError: ENODEV if there is none; the C library gives no errno.
    """
    try:
        return socket.if_nametoindex(interface)
    except OSError as error:
        code = error.errno or errno.ENODEV
        raise OSError(code, os.strerror(code)) from error
