# SPDX-License-Identifier: Apache-2.0

"""An interface, as the kernel shows it or as it will be made."""

import dataclasses
import socket
import types
from collections.abc import Mapping
from typing import Any

from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.namespaces import Identity

#: Modes of an ipvlan (include/uapi/linux/if_link.h); pyroute2 has names only
#: for those of macvlan and macvtap.
IPVLAN_MODES: Mapping[str, int] = types.MappingProxyType(
    {"l2": 0, "l3": 1, "l3s": 2}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """An interface as the kernel shows it.

    :param namespace: a name in /run/netns or ``pid:N``; None for the caller's.
    :param kind: IFLA_INFO_KIND such as ``macvlan``; empty for a device.
    :param mode: mode of a macvlan, macvtap or ipvlan.
    :param parent: index of its parent, in the caller's namespace.
    :param device: PCI address of its device (IFLA_PARENT_DEV_NAME, Linux
        5.14); empty for a virtual interface.
    :param master: index of the bridge or bond that it is a port of.
    :param namespace_id: identity of its namespace; None for the caller's.
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
        """Whether it is a probe, which tests if its parent is idle.

        See :func:`rtnetlink.is_idle`. On the host, only root sets names.
        """
        return (
            self.namespace is None
            and self.mode == "passthru"
            and not self.up
            and self.name.startswith(rtnetlink.PROBE)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Subinterface:
    """A macvlan, macvtap or ipvlan that will be made.

    :param parent: name of an interface in the caller's namespace.
    :param namespace: its namespace, as in Link.
    :param namespace_id: identity that the namespace has to have; None for any.
    :param index: index by which it is known, whatever its name becomes: no
        other interface has it by chance. None to choose one.
    :param up: whether it is up from the start.
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
    """Return the link in a message of pyroute2.

    :param namespace: namespace of the request, as in Link.
    :param host_number: number of the caller's namespace in that one; None if
        it has none, or is the same.
    :param namespace_id: identity of the request's namespace, as in Link.
    :returns: None if the message describes only a part, or has no name.
        Bridges report their ports, and IPv6 its settings, in such messages.
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
    """Return the kind of a link, and its mode if the kind is one of ours."""
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

    :returns: None if there is no parent, or it is in the link's namespace.
    """
    found: int | None = message.get_attr("IFLA_LINK_NETNSID")
    return found


def _parent(
    message: Any, namespace: str | None, host_number: int | None
) -> int | None:
    # The parent may have the link's own number, in another namespace.
    parent: int | None = message.get_attr("IFLA_LINK")
    if not parent:
        return None
    where = parent_number(message)
    if where is None:
        return parent if namespace is None else None
    return parent if where == host_number else None


def _text(found: str | bytes | None) -> str:
    """Return a text of pyroute2, which gives bytes if it is not UTF-8."""
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found or ""
