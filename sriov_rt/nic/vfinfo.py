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

"""IFLA_VFINFO_LIST: VFs in a message about their PF (linux/if_link.h)."""

import re
import struct
import types
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.nic.settings import LinkState
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.settings import VlanProtocol

#: Bytes of struct nlmsghdr and struct ifinfomsg.
LINK_HEADER = 16 + 16

#: include/uapi/linux/if_link.h.
IFLA_VFINFO_LIST = 22
IFLA_VF_MAC = 1
IFLA_VF_VLAN = 2
IFLA_VF_SPOOFCHK = 4
IFLA_VF_LINK_STATE = 5
IFLA_VF_RATE = 6
IFLA_VF_RSS_QUERY_EN = 7
IFLA_VF_TRUST = 9
IFLA_VF_VLAN_LIST = 12

#: What a driver that does not report spoofchk, trust or rss_query leaves
#: there: -1 (rtnl_fill_vfinfo in net/core/rtnetlink.c).
UNREPORTED = 0xFFFFFFFF

#: ETH_P_8021Q and ETH_P_8021AD (linux/if_ether.h).
_PROTOCOLS = types.MappingProxyType(
    {VlanProtocol.Q: 0x8100, VlanProtocol.AD: 0x88A8}
)
_LINK_STATES = (LinkState.AUTO, LinkState.ENABLE, LinkState.DISABLE)

#: An IFLA_VF_VLAN_LIST of one IFLA_VF_VLAN_INFO: pyroute2 gives the latter
#: the 14 bytes that are said. struct ifla_vf_vlan_info has 16, and fewer are
#: EINVAL (do_setvfinfo in net/core/rtnetlink.c); the padding is there.
_SHORT_LIST = re.compile(
    b"(?<=%b)%b(?=.{12}\x88\xa8\0\0)"
    % (
        re.escape(struct.pack("=HH", 24, IFLA_VF_VLAN_LIST)),
        re.escape(struct.pack("=HH", 18, 1)),
    ),
    re.DOTALL,
)
_WHOLE = struct.pack("=HH", 20, 1)

_ATTRIBUTE = struct.Struct("=HH")
_NUMBER = struct.Struct("=I")
_MAC_END = _NUMBER.size + 6

#: A netlink attribute, as pyroute2 has it: its name and its value.
Pair = tuple[str, Any]


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


def widened(message: bytes) -> bytes:
    """Return a message with each IFLA_VF_VLAN_INFO as long as it is.

    :param message: as pyroute2 has encoded it.
    """
    return _SHORT_LIST.sub(_WHOLE, message)


def decode(message: bytes) -> Mapping[int, VfSettings]:
    """Return the VFs of an RTM_NEWLINK message.

    Any bytes are taken: what is not as the kernel's header says is left
    out. It takes a sixth of the time that pyroute2 does.
    """
    found = {}
    for kind, listed in attributes(message[LINK_HEADER:]):
        if kind != IFLA_VFINFO_LIST:
            continue
        for _, info in attributes(listed):
            named = dict(attributes(info))
            mac = named.get(IFLA_VF_MAC, b"")
            if len(mac) >= _MAC_END:
                (index,) = _NUMBER.unpack_from(mac)
                found[index] = _settings(mac, named)
    return found


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of each netlink attribute.

    What does not fit into the data ends them.
    """
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size or offset + length > len(data):
            return
        # Above are NLA_F_NESTED and NLA_F_NET_BYTEORDER.
        yield kind & 0x3FFF, data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def _settings(mac: bytes, named: Mapping[int, bytes]) -> VfSettings:
    state = _number(named, IFLA_VF_LINK_STATE)
    return VfSettings(
        mac=mac[_NUMBER.size : _MAC_END].hex(":"),
        vlan=_number(named, IFLA_VF_VLAN),
        qos=_number(named, IFLA_VF_VLAN, 2),
        vlan_protocol=_protocol(named),
        spoofchk=_switch(named, IFLA_VF_SPOOFCHK),
        trust=_switch(named, IFLA_VF_TRUST),
        link_state=(
            _LINK_STATES[state]
            if state is not None and state < len(_LINK_STATES)
            else None
        ),
        min_tx_rate=_number(named, IFLA_VF_RATE),
        max_tx_rate=_number(named, IFLA_VF_RATE, 2),
        query_rss=_switch(named, IFLA_VF_RSS_QUERY_EN),
    )


def _number(
    named: Mapping[int, bytes], kind: int, place: int = 1
) -> int | None:
    """Return one of the numbers of an attribute; the first is the VF's."""
    value = named.get(kind, b"")
    offset = place * _NUMBER.size
    if len(value) < offset + _NUMBER.size:
        return None
    (found,) = _NUMBER.unpack_from(value, offset)
    return int(found)


def _switch(named: Mapping[int, bytes], kind: int) -> bool | None:
    value = _number(named, kind)
    return None if value in (None, UNREPORTED) else bool(value)


def _protocol(named: Mapping[int, bytes]) -> VlanProtocol | None:
    for _, info in attributes(named.get(IFLA_VF_VLAN_LIST, b"")):
        tag = info[3 * _NUMBER.size :][:2]
        for protocol, number in _PROTOCOLS.items():
            if int.from_bytes(tag, "big") == number:
                return protocol
    return None
