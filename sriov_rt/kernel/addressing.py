# SPDX-License-Identifier: Apache-2.0

"""Addresses, routes and MACs of interfaces, over pyroute2."""

import ipaddress
import socket

from sriov_rt.kernel.rtnetlink import Route

#: include/uapi/linux/if_addr.h. Addresses come from who hands them out, and
#: are told to the neighbours at once: none waits for its duplicate.
IFA_F_NODAD = 0x02
IFA_F_PERMANENT = 0x80

#: include/uapi/linux/rtnetlink.h.
RTPROT_STATIC = 4
#: Of addresses that are the link's alone.
RT_SCOPE_LINK = 253


def add_address(route: Route, index: int, address: str) -> None:
    """Add an address such as ``192.0.2.1/24``; EEXIST if it is there.

    :raises ValueError: if it is no address.
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
    """Add a route by a gateway; EEXIST if there is one.

    :param destination: such as ``198.51.100.0/24``, or ``default``.
    :raises ValueError: if they are no network and address of one family.
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
    """Return whether an interface has an address that somebody gave it.

    One that is up makes itself one of IPv6 for the link, and others with a
    lifetime from what routers tell (addrconf.c).
    """
    return any(
        each["family"] != socket.AF_INET6
        or (each["scope"] != RT_SCOPE_LINK and each["flags"] & IFA_F_PERMANENT)
        for each in route.get_addr(index=index)
    )


def unicast(route: Route, index: int) -> set[str]:
    """Return the unicast MACs that an interface hears beside its own."""
    found = set()
    for each in route.fdb("dump"):
        mac = each.get_attr("NDA_LLADDR")
        # The lowest bit of the first octet is that of groups.
        if each["ifindex"] == index and mac and not int(mac[:2], 16) & 1:
            found.add(mac)
    return found
