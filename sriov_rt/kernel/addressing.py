# SPDX-License-Identifier: Apache-2.0

"""Addresses, routes and MACs of interfaces, through pyroute2."""

import ipaddress
import socket

from sriov_rt.kernel.rtnetlink import Route

#: include/uapi/linux/if_addr.h. Addresses are allocated and announced to the
#: neighbours at once: none waits for duplicate address detection.
IFA_F_NODAD = 0x02
IFA_F_PERMANENT = 0x80

#: include/uapi/linux/rtnetlink.h.
RTPROT_STATIC = 4
#: Scope of addresses that are valid on the link alone.
RT_SCOPE_LINK = 253


def add_address(route: Route, index: int, address: str) -> None:
    """Add an address such as ``192.0.2.1/24``; EEXIST if it exists.

    :raises ValueError: if the text is no address.
    """
    parsed = ipaddress.ip_interface(address)
    length = parsed.network.prefixlen
    more: dict[str, object] = {}
    if parsed.version == 6:
        more["flags"] = IFA_F_NODAD
    elif length < 31:
        more["broadcast"] = str(parsed.network.broadcast_address)
    own = str(parsed.ip)
    route.addr("add", index=index, address=own, prefixlen=length, **more)


def add_route(
    route: Route, index: int, destination: str, gateway: str
) -> None:
    """Add a route through a gateway; EEXIST if there is one.

    :param destination: such as ``198.51.100.0/24``, or ``default``.
    :raises ValueError: if they are not a network and an address of one family.
    """
    via = ipaddress.ip_address(gateway)
    family = socket.AF_INET if via.version == 4 else socket.AF_INET6
    if destination != "default":
        to = ipaddress.ip_network(destination)
        if to.version != via.version:
            raise ValueError(f"{destination} by {gateway}: two families")
        destination = str(to)
    route.route(
        "add",
        family=family,
        dst=destination,
        gateway=str(via),
        oif=index,
        proto=RTPROT_STATIC,
    )


def is_addressed(route: Route, index: int) -> bool:
    """Return whether an interface has an address that somebody set.

    An interface that is up makes itself an IPv6 address for the link, and
    others with a lifetime from router advertisements (addrconf.c).
    """
    return any(
        each["family"] != socket.AF_INET6
        or (each["scope"] != RT_SCOPE_LINK and each["flags"] & IFA_F_PERMANENT)
        for each in route.get_addr(index=index)
    )


def unicast(route: Route, index: int) -> set[str]:
    """Return the unicast MACs that an interface receives beside its own."""
    found = set()
    for each in route.fdb("dump"):
        mac = each.get_attr("NDA_LLADDR")
        # The lowest bit of the first octet marks groups.
        if each["ifindex"] == index and mac and not int(mac[:2], 16) & 1:
            found.add(mac)
    return found
