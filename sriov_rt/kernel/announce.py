# SPDX-License-Identifier: Apache-2.0

"""Announcement of a port: gratuitous ARP and unsolicited NA."""

import ipaddress
import socket
import struct
from collections.abc import Iterable

#: include/uapi/linux/if_ether.h.
ETH_P_IP = 0x0800
ETH_P_ARP = 0x0806
ETH_P_IPV6 = 0x86DD
BROADCAST = b"\xff" * 6

#: RFC 826: Ethernet, IPv4, the lengths of their addresses, and the operation.
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_ETHERNET = 1
_ARP_REQUEST = 1

#: RFC 4861, 4.4: type 136, Override; 7.2.6: to all nodes; hop limit 255.
_NA = struct.Struct("!BBHI16s")
_NA_TYPE = 136
_NA_OVERRIDE = 1 << 29
_TARGET_LINK_LAYER = 2
ALL_NODES = ipaddress.IPv6Address("ff02::1")
ALL_NODES_MAC = bytes.fromhex("333300000001")
_IPV6 = struct.Struct("!IHBB16s16s")
_HOP_LIMIT = 255

_ETHERNET = struct.Struct("!6s6sH")


def packets(mac: str, addresses: Iterable[str]) -> list[bytes]:
    """Return the frames that announce the present owner of addresses.

    :param mac: MAC of the owner; a MAC that is not Ethernet's gets no frames.
    :param addresses: such as ``192.0.2.1/24``; a prefix is left out.
    :raises ValueError: if one of them is no address.
    """
    own = bytes.fromhex(mac.replace(":", ""))
    if len(own) != len(BROADCAST):
        return []
    found = []
    for each in addresses:
        address = ipaddress.ip_interface(each).ip
        if isinstance(address, ipaddress.IPv4Address):
            found.append(gratuitous_arp(own, address))
        else:
            found.append(unsolicited_na(own, address))
    return found


def gratuitous_arp(mac: bytes, address: ipaddress.IPv4Address) -> bytes:
    """Return an ARP announcement: a request for one's own address.

    It is a request, as some hosts accept only replies that they requested (RFC
    5227, 3).
    """
    none = bytes(len(mac))
    return _ETHERNET.pack(BROADCAST, mac, ETH_P_ARP) + _ARP.pack(
        _ARP_ETHERNET,
        ETH_P_IP,
        len(mac),
        len(address.packed),
        _ARP_REQUEST,
        mac,
        address.packed,
        none,
        address.packed,
    )


def unsolicited_na(mac: bytes, address: ipaddress.IPv6Address) -> bytes:
    """Return an overriding neighbour advertisement to all nodes."""
    option = struct.pack("!BB6s", _TARGET_LINK_LAYER, 1, mac)
    sum_of = _checksum(
        address,
        _NA.pack(_NA_TYPE, 0, 0, _NA_OVERRIDE, address.packed) + option,
    )
    body = _NA.pack(_NA_TYPE, 0, sum_of, _NA_OVERRIDE, address.packed)
    body += option
    header = _IPV6.pack(
        6 << 28,
        len(body),
        socket.IPPROTO_ICMPV6,
        _HOP_LIMIT,
        address.packed,
        ALL_NODES.packed,
    )
    return _ETHERNET.pack(ALL_NODES_MAC, mac, ETH_P_IPV6) + header + body


def _checksum(source: ipaddress.IPv6Address, body: bytes) -> int:
    """Return ICMPv6's checksum, with its pseudo header (RFC 8200, 8.1)."""
    pseudo = source.packed + ALL_NODES.packed
    pseudo += struct.pack("!II", len(body), socket.IPPROTO_ICMPV6)
    data = pseudo + body
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def send(name: str, frames: Iterable[bytes]) -> None:
    """Send frames through an interface of the calling thread's namespace.

    :raises OSError: ENETDOWN if the interface is not up.
    """
    # Protocol 0 receives nothing.
    with socket.socket(
        socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0
    ) as opened:
        opened.bind((name, 0))
        for frame in frames:
            opened.send(frame)
