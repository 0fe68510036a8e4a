# SPDX-License-Identifier: Apache-2.0

"""Checks of a requested port, which also fill in its defaults."""

import dataclasses
import ipaddress
import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.kernel import namespaces
from sriov_rt.parse import link
from sriov_rt.parse.errors import ParseError
from sriov_rt.request.words import VIF_MODES
from sriov_rt.request.words import VifKind
from sriov_rt.vif.errors import NameInvalid
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import is_owner

#: Prefix of the name of an interface that was given none.
PREFIX = "srt"

_PORT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def port(text: str) -> str:
    """Return a port's UUID if it is valid, as Neutron writes it.

    :raises ParseError: if it is not valid.
    """
    if not is_port(text):
        raise ParseError("port", text, "a UUID in lower case expected")
    return text


def is_port(text: str) -> bool:
    """Return whether a text is a port's UUID as Neutron writes it."""
    return _PORT.fullmatch(text) is not None


def network(text: str) -> str:
    """Return a network's UUID if it is valid, as Neutron writes it.

    :raises ParseError: if it is not valid.
    """
    if not _PORT.fullmatch(text):
        raise ParseError("network", text, "a UUID in lower case expected")
    return text


def owner(text: str) -> str:
    """Return an owner's name if it is valid.

    :raises ParseError: if it is not valid.
    """
    if not is_owner(text):
        raise ParseError(
            "owner", text, "1 to 64 of A-Z a-z 0-9 . _ and - expected"
        )
    return text


def interface(text: str) -> str:
    """Return an interface's name if it is valid (dev_valid_name).

    :raises NameInvalid: if it is not.
    """
    if not link.is_interface(text):
        shown = text if len(text) <= link.MAX_INTERFACE else f"{text[:15]}..."
        raise NameInvalid(repr(shown))
    return text


def default(port: str) -> str:
    """Return the default name of a port's interface."""
    return PREFIX + port[:11]


#: The modes of each kind, the default first; macvtap is a macvlan.
MODES: Mapping[Kind, tuple[str, ...]] = {
    Kind.MACVLAN: VIF_MODES[VifKind.MACVLAN],
    Kind.MACVTAP: VIF_MODES[VifKind.MACVLAN],
    Kind.IPVLAN: VIF_MODES[VifKind.IPVLAN],
    Kind.VF: VIF_MODES[VifKind.VF],
}

#: The most addresses, and the most routes, of one port.
MAX_ITEMS = 64

#: ETH_MIN_MTU and ETH_MAX_MTU (include/uapi/linux/if_ether.h).
MIN_MTU, MAX_MTU = 68, 65535

#: The highest rate that is accepted: 400 Gbit/s, in kbit/s.
MAX_KBPS = 400_000_000

#: The most NUMA nodes of an x86 kernel: 1 << NODES_SHIFT (arch/x86/Kconfig).
MAX_NODE = 1023

#: physical_network is String(64) in Neutron's tables.
_NETWORK = re.compile(r"[A-Za-z0-9._-]{1,64}")


def checked(request: Plug) -> Plug:
    """Return a requested port with every value normalised.

    :raises ParseError: for a value that no port can have.
    :raises NameInvalid: for a name that no interface can have.
    """
    port(request.port)
    owner(request.owner)
    _numbers(request)
    _onload(request)
    if request.physical_network is not None:
        physical_network(request.physical_network)
    if request.parent is not None:
        interface(request.parent)
    elif request.physical_network is None:
        raise ParseError("port", request.port, "specify --network or --parent")
    if request.kind == Kind.IPVLAN and request.mac is not None:
        raise ParseError("MAC", request.mac, "an ipvlan has its parent's")
    place = request.namespace
    if request.kind == Kind.VF and place is None and request.addresses:
        raise ParseError(
            "port",
            request.port,
            "a VF gets addresses in a namespace only, which takes them away",
        )
    spelt: dict[str, Any] = {
        "mode": _mode(request.kind, request.mode),
        "namespace": None if place is None else namespaces.parse(place),
        "name": interface(request.name or default(request.port)),
        "mac": None if request.mac is None else mac(request.mac),
        "addresses": _addresses(request.addresses),
        "routes": _routes(request.routes),
    }
    if all(getattr(request, key) == value for key, value in spelt.items()):
        # The remote caller has checked it before.
        return request
    return dataclasses.replace(request, **spelt)


def physical_network(text: str) -> str:
    """Return a physical network's name if it is valid.

    :raises ParseError: if it is not valid.
    """
    if not _NETWORK.fullmatch(text):
        raise ParseError(
            "physical network", text, "1 to 64 of A-Z a-z 0-9 . _ - expected"
        )
    return text


def mac(text: str) -> str:
    """Return a MAC in lower case if an interface can have it.

    :raises ParseError: if it is malformed, zero or multicast
        (is_valid_ether_addr in include/linux/etherdevice.h).
    """
    lower = text.lower()
    if not link.is_mac(lower) or lower == link.NO_MAC:
        raise ParseError("MAC", text, "six octets such as 02:00:5e:10:00:01")
    if link.is_multicast(lower):
        raise ParseError("MAC", text, "it is a multicast address")
    return lower


def _onload(request: Plug) -> None:
    if request.network is not None:
        network(request.network)
    elif request.onload:
        raise ParseError(
            "port", request.port, "an accelerated one needs its network's UUID"
        )


def _mode(kind: Kind, mode: str | None) -> str | None:
    modes = MODES[kind]
    if mode is None:
        return modes[0] if modes else None
    if mode not in modes:
        expected = f"one of {', '.join(modes)}" if modes else "none"
        raise ParseError(f"mode of {kind}", mode, f"{expected} expected")
    return mode


def _numbers(request: Plug) -> None:
    limits = request.limits
    _number("VLAN", request.vlan, 0, link.MAX_VLAN)
    _number("MTU", request.mtu, MIN_MTU, MAX_MTU)
    _number("rate in kbit/s", limits.out_kbps, 1, MAX_KBPS)
    _number("rate in kbit/s", limits.in_kbps, 1, MAX_KBPS)
    _number("NUMA node", request.numa_node, 0, MAX_NODE)


def _number(what: str, value: int | None, minimum: int, maximum: int) -> None:
    if value is not None and not minimum <= value <= maximum:
        raise ParseError(what, str(value), f"{minimum} to {maximum} expected")


def _addresses(texts: Sequence[str]) -> tuple[str, ...]:
    _few("addresses", texts)
    return tuple(_address(each) for each in texts)


def _address(text: str) -> str:
    try:
        if "/" in text and "%" not in text:
            return str(ipaddress.ip_interface(text))
    except ValueError:
        pass
    raise ParseError("address", text, "such as 192.0.2.1/24 expected")


def _routes(
    pairs: Sequence[tuple[str, str]],
) -> tuple[tuple[str, str], ...]:
    _few("routes", pairs)
    return tuple(_route(*each) for each in pairs)


def _route(destination: str, gateway: str) -> tuple[str, str]:
    text = f"{destination}={gateway}"
    try:
        if "%" in text:
            raise ValueError
        through = ipaddress.ip_address(gateway)
        if destination == "default":
            return destination, str(through)
        target = ipaddress.ip_network(destination)
    except ValueError:
        raise ParseError(
            "route", text, "such as 198.51.100.0/24=192.0.2.254 expected"
        ) from None
    if target.version != through.version:
        raise ParseError("route", text, "IPv4 and IPv6 in one route")
    return str(target), str(through)


def _few(what: str, items: Sequence[object]) -> None:
    if len(items) > MAX_ITEMS:
        raise ParseError(what, str(len(items)), f"at most {MAX_ITEMS}")
