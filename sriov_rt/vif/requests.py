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

"""Requests on links, addresses and routes, as bytes: nothing is sent here."""

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.nsidmsg import nsidmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from sriov_rt.vif.edge import Subinterface

#: include/uapi/linux/netlink.h.
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400

#: include/uapi/linux/rtnetlink.h.
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_GETLINK = 18
RTM_SETLINK = 19
RTM_NEWADDR = 20
RTM_NEWROUTE = 24
RTM_NEWNSID = 88
RTM_DELNSID = 89
RTM_GETNSID = 90
RTEXT_FILTER_SKIP_STATS = 0x8
RT_TABLE_MAIN = 254
RTPROT_STATIC = 4
RTN_UNICAST = 1

#: include/uapi/linux/if.h.

#: include/uapi/linux/if_addr.h. Addresses come from who hands them out, and
#: are told to the neighbours at once: none waits for its duplicate.
IFA_F_NODAD = 0x02


#: IPVLAN_MODE_* in include/uapi/linux/if_link.h.
IPVLAN_MODES: Mapping[str, int] = {"l2": 0, "l3": 1, "l3s": 2}


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


def get_link(*, name: str | None = None, index: int = 0) -> bytes:
    """Ask for one link, by its name or its index."""
    named = [("IFLA_IFNAME", name)] if name else []
    return encoded(
        ifinfmsg(),
        RTM_GETLINK,
        0,
        index=index,
        attrs=[*named, ("IFLA_EXT_MASK", RTEXT_FILTER_SKIP_STATS)],
    )


def get_links(space: int | None = None) -> bytes:
    """Ask for all links of a namespace.

    :param space: its number in the socket's; None for the socket's own.
    """
    there = [] if space is None else [("IFLA_IF_NETNSID", space)]
    return encoded(
        ifinfmsg(),
        RTM_GETLINK,
        NLM_F_DUMP,
        attrs=[*there, ("IFLA_EXT_MASK", RTEXT_FILTER_SKIP_STATS)],
    )


def new_link(what: Subinterface, parent: int, target: int | None) -> bytes:
    """Make a subinterface.

    Its alias is left out: the kernel takes none here (rtnl_create_link in
    net/core/rtnetlink.c).

    :param parent: index, in the namespace of the socket.
    :param target: descriptor of the namespace; None for the socket's.
    """
    data = [(f"IFLA_{what.kind.upper()}_MODE", _mode(what))]
    info = [
        ("IFLA_INFO_KIND", what.kind),
        ("IFLA_INFO_DATA", {"attrs": data}),
    ]
    attributes: list[Any] = [("IFLA_IFNAME", what.name)]
    if target is not None:
        attributes.append(("IFLA_NET_NS_FD", target))
    attributes.append(("IFLA_LINK", parent))
    if what.mac is not None:
        attributes.append(("IFLA_ADDRESS", what.mac))
    if what.mtu is not None:
        attributes.append(("IFLA_MTU", what.mtu))
    attributes.append(("IFLA_LINKINFO", {"attrs": info}))
    return encoded(
        ifinfmsg(),
        RTM_NEWLINK,
        NLM_F_CREATE | NLM_F_EXCL,
        attrs=attributes,
    )


def _mode(what: Subinterface) -> int | str:
    # pyroute2 takes the names of macvlan's modes and the numbers of ipvlan's.
    return IPVLAN_MODES[what.mode] if what.kind == "ipvlan" else what.mode


def set_link(
    *,
    name: str | None = None,
    index: int = 0,
    flags: Mapping[int, bool] | None = None,
    target: int | None = None,
    rename: str | None = None,
    mac: str | None = None,
    mtu: int | None = None,
    alias: str | None = None,
) -> bytes:
    """Change a link, which is told by its index or else by its name.

    :param flags: IFF_* to whether it is to be set; others stay.
    :param target: descriptor of the namespace to move it into.
    :param rename: its new name.
    """
    named = {
        "IFLA_NET_NS_FD": target,
        "IFLA_IFNAME": rename or name,
        "IFLA_ADDRESS": mac,
        "IFLA_MTU": mtu,
        "IFLA_IFALIAS": alias,
    }
    flags = flags or {}
    return encoded(
        ifinfmsg(),
        RTM_SETLINK,
        0,
        index=index,
        flags=sum(flag for flag, wanted in flags.items() if wanted),
        change=sum(flags),
        attrs=[(key, val) for key, val in named.items() if val is not None],
    )


def delete_link(index: int) -> bytes:
    """Delete a link."""
    return encoded(ifinfmsg(), RTM_DELLINK, 0, index=index)


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


def get_nsid(descriptor: int, space: int | None = None) -> bytes:
    """Ask which number a namespace has in another.

    :param descriptor: of its file.
    :param space: the other's number in the socket's; None for the socket's.
    """
    attributes = [("NETNSA_FD", descriptor)]
    if space is not None:
        attributes.append(("NETNSA_TARGET_NSID", space))
    return encoded(nsidmsg(), RTM_GETNSID, 0, attrs=attributes)


def new_nsid(descriptor: int) -> bytes:
    """Give a namespace a number in the socket's; EEXIST if it has one."""
    # -1: whichever is free (NETNSA_NSID_NOT_ASSIGNED in net_namespace.h).
    attributes = [("NETNSA_NSID", 0xFFFFFFFF), ("NETNSA_FD", descriptor)]
    return encoded(nsidmsg(), RTM_NEWNSID, 0, attrs=attributes)
