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

"""Requests on addresses and routes, as bytes: nothing is sent here."""

import ipaddress
import socket
import struct
from typing import Any

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from sriov_rt.vif.requests import NLM_F_ACK
from sriov_rt.vif.requests import NLM_F_CREATE
from sriov_rt.vif.requests import NLM_F_DUMP
from sriov_rt.vif.requests import NLM_F_EXCL
from sriov_rt.vif.requests import NLM_F_REQUEST

#: include/uapi/linux/rtnetlink.h.
RTM_NEWADDR = 20
RTM_GETADDR = 22
RTM_NEWROUTE = 24
RT_TABLE_MAIN = 254
RTPROT_STATIC = 4
RTN_UNICAST = 1

#: include/uapi/linux/if_addr.h. Addresses come from who hands them out, and
#: are told to the neighbours at once: none waits for its duplicate.
IFA_F_NODAD = 0x02
IFA_F_PERMANENT = 0x80

#: struct ifaddrmsg: family, prefix length, flags, scope, index.
_ADDRESS = struct.Struct("=BxBBI")

#: include/uapi/linux/rtnetlink.h: of addresses that are the link's alone.
RT_SCOPE_LINK = 253


def encoded(message: Any, kind: int, how: int, **fields: Any) -> bytes:
    """Return a message of pyroute2's as bytes.

    :param kind: RTM_*.
    :param how: NLM_F_* beside those of every request: all but dumps are
        acknowledged, so that each has an end.
    :param fields: of the message.
    """
    if how != NLM_F_DUMP:
        how |= NLM_F_ACK
    for name, value in fields.items():
        message[name] = value
    message["header"] = {
        "type": kind,
        "flags": how | NLM_F_REQUEST,
        "sequence_number": 0,
        "pid": 0,
    }
    message.encode()
    return bytes(message.data)


def new_address(index: int, address: str) -> bytes:
    """Add an address such as ``192.0.2.1/24``; EEXIST if it is there.

    :raises ValueError: if it is no address.
    """
    parsed = ipaddress.ip_interface(address)
    own = str(parsed.ip)
    attributes = [("IFA_LOCAL", own), ("IFA_ADDRESS", own)]
    if parsed.version == 4 and parsed.network.prefixlen < 31:
        broadcast = str(parsed.network.broadcast_address)
        attributes.append(("IFA_BROADCAST", broadcast))
    return encoded(
        ifaddrmsg(),
        RTM_NEWADDR,
        NLM_F_CREATE | NLM_F_EXCL,
        family=_family(parsed.version),
        prefixlen=parsed.network.prefixlen,
        flags=IFA_F_NODAD if parsed.version == 6 else 0,
        index=index,
        attrs=attributes,
    )


def get_addresses() -> bytes:
    """Ask for the addresses of all interfaces."""
    return encoded(ifaddrmsg(), RTM_GETADDR, NLM_F_DUMP)


def is_given(body: bytes, index: int) -> bool:
    """Tell whether an answer has an address that an interface was given.

    An interface that is up makes itself one of IPv6 for the link, and others
    with a lifetime from what routers tell (addrconf.c).

    :param body: of an RTM_NEWADDR.
    """
    if len(body) < _ADDRESS.size:
        return False
    family, flags, scope, whose = _ADDRESS.unpack_from(body)
    if whose != index:
        return False
    made = scope == RT_SCOPE_LINK or not flags & IFA_F_PERMANENT
    return family != socket.AF_INET6 or not made


def new_route(index: int, destination: str, gateway: str) -> bytes:
    """Add a route by a gateway; EEXIST if there is one.

    :param destination: such as ``198.51.100.0/24``, or ``default``.
    :raises ValueError: if they are no network and address of one family.
    """
    via = ipaddress.ip_address(gateway)
    attributes: list[Any] = [("RTA_GATEWAY", str(via)), ("RTA_OIF", index)]
    length = 0
    if destination != "default":
        to = ipaddress.ip_network(destination)
        if to.version != via.version:
            raise ValueError(f"{destination} by {gateway}: two families")
        length = to.prefixlen
        attributes.append(("RTA_DST", str(to.network_address)))
    return encoded(
        rtmsg(),
        RTM_NEWROUTE,
        NLM_F_CREATE | NLM_F_EXCL,
        family=_family(via.version),
        dst_len=length,
        table=RT_TABLE_MAIN,
        proto=RTPROT_STATIC,
        type=RTN_UNICAST,
        attrs=attributes,
    )


def _family(version: int) -> int:
    return socket.AF_INET if version == 4 else socket.AF_INET6
