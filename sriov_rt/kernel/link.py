# SPDX-License-Identifier: Apache-2.0

"""One interface, as the kernel has it or as it is to be made."""

import dataclasses
import socket
import types
from collections.abc import Mapping
from typing import Any

from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.namespaces import Identity

#: Modes of an ipvlan (include/uapi/linux/if_link.h); pyroute2 has names for
#: those of macvlan and macvtap alone.
IPVLAN_MODES: Mapping[str, int] = types.MappingProxyType(
    {"l2": 0, "l3": 1, "l3s": 2}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """One interface, as the kernel has it.

    :param namespace: None for the caller's; a name in /run/netns or
        ``pid:N``.
    :param kind: IFLA_INFO_KIND such as ``macvlan``; empty for a device.
    :param mode: of a macvlan, macvtap or ipvlan.
    :param parent: index of its parent, in the caller's namespace.
    :param device: PCI address of the device that it is the interface of
        (IFLA_PARENT_DEV_NAME, Linux 5.14); empty for a virtual one.
    :param master: index of the bridge or bond that it is a port of.
    :param namespace_id: which namespace that is; None for the caller's.
    """

    name: str
    index: int
    namespace: str | None
    kind: str
    mode: str | None
    parent: int | None
    mac: str
    mtu: int
    up: bool
    carrier: bool
    alias: str
    promisc: bool = False
    allmulti: bool = False
    device: str = ""
    master: int | None = None
    namespace_id: Identity | None = None

    @property
    def is_probe(self) -> bool:
        """Whether it only asks if its parent is idle.

        See :func:`rtnetlink.is_idle`. On the host, names are root's.
        """
        return (
            self.namespace is None
            and self.mode == "passthru"
            and not self.up
            and self.name.startswith(rtnetlink.PROBE)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Subinterface:
    """A macvlan, macvtap or ipvlan to be made.

    :param parent: name of an interface in the caller's namespace.
    :param namespace: where it is to be, as in Link.
    :param namespace_id: which one that has to be; None for any of the name.
    :param index: the index that it is to have, which nobody else's interface
        has by chance: by that it is known, whatever its name becomes. None
        for one that is chosen.
    :param up: whether it is made up.
    """

    name: str
    kind: str
    mode: str
    parent: str
    namespace: str | None = None
    mac: str | None = None
    mtu: int | None = None
    alias: str = ""
    up: bool = False
    namespace_id: Identity | None = None
    index: int | None = None


def read_link(
    message: Any,
    namespace: str | None,
    host_number: int | None,
    namespace_id: Identity | None = None,
) -> Link | None:
    """Return the link of a message of pyroute2's.

    :param namespace: where it was requested, as in Link.
    :param host_number: the number that the caller's namespace has there;
        None if it has none, or is the one where it was requested.
    :param namespace_id: which namespace it was requested in, as in Link.
    :returns: None if it tells of one in part, or has no name. A bridge tells
        of its ports, and IPv6 of its settings, in messages of their families.
    """
    name = _text(message.get_attr("IFLA_IFNAME"))
    if message["family"] != socket.AF_UNSPEC or not name:
        return None
    kind, mode = _kind(message)
    flags = message["flags"]
    return Link(
        name=name,
        index=message["index"],
        namespace=namespace,
        kind=kind,
        mode=mode,
        parent=_parent(message, namespace, host_number),
        mac=message.get_attr("IFLA_ADDRESS") or "",
        mtu=message.get_attr("IFLA_MTU") or 0,
        up=bool(flags & rtnetlink.IFF_UP),
        carrier=bool(message.get_attr("IFLA_CARRIER")),
        alias=_text(message.get_attr("IFLA_IFALIAS")),
        promisc=bool(flags & rtnetlink.IFF_PROMISC),
        allmulti=bool(flags & rtnetlink.IFF_ALLMULTI),
        device=_device(message),
        master=message.get_attr("IFLA_MASTER"),
        namespace_id=namespace_id,
    )


def is_loopback(message: Any) -> bool:
    """Return whether a link is its namespace's loopback."""
    return bool(message["flags"] & rtnetlink.IFF_LOOPBACK)


def mode_of(kind: str, mode: str) -> dict[str, str | int]:
    """Return the mode of a new link, as IPRoute.link takes it."""
    if kind == "ipvlan":
        return {"ipvlan_mode": IPVLAN_MODES[mode]}
    return {f"{kind}_mode": mode}


def _kind(message: Any) -> tuple[str, str | None]:
    """Return the kind of a link, and its mode if it is of a kind of ours."""
    kind = _text(message.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND"))
    if kind not in ("macvlan", "macvtap", "ipvlan"):
        return kind, None
    mode = message.get_nested(
        "IFLA_LINKINFO", "IFLA_INFO_DATA", f"IFLA_{kind.upper()}_MODE"
    )
    if kind == "ipvlan":
        names = {number: name for name, number in IPVLAN_MODES.items()}
        return kind, names.get(mode)
    return kind, mode if isinstance(mode, str) else None


def _device(message: Any) -> str:
    """Return the PCI address of a link's device; empty for any other."""
    if message.get_attr("IFLA_PARENT_DEV_BUS_NAME") != "pci":
        return ""
    return _text(message.get_attr("IFLA_PARENT_DEV_NAME"))


def parent_number(message: Any) -> int | None:
    """Return the number of the namespace of a link's parent.

    :returns: None for a parent in the link's own, or none at all.
    """
    found: int | None = message.get_attr("IFLA_LINK_NETNSID")
    return found


def _parent(
    message: Any, namespace: str | None, host_number: int | None
) -> int | None:
    # It may have the link's own number, in another namespace.
    parent: int | None = message.get_attr("IFLA_LINK")
    if not parent:
        return None
    where = parent_number(message)
    if where is None:
        return parent if namespace is None else None
    return parent if where == host_number else None


def _text(found: str | bytes | None) -> str:
    """Return a text as pyroute2 gives it: bytes where it is not UTF-8."""
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found or ""
