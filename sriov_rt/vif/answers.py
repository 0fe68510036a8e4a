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

"""What the kernel answers on links, read from its bytes."""

import socket
import struct
from collections.abc import Mapping

from sriov_rt.vif.attributes import Attributes
from sriov_rt.vif.attributes import pairs
from sriov_rt.vif.edge import Link
from sriov_rt.vif.namespaces import Identity

#: include/uapi/linux/if.h: IFNAMSIZ - 1 and IFALIASZ - 1 bytes.
MAX_NAME = 15
MAX_ALIAS = 255

#: The longest PCI address has a domain of 32 bits.
MAX_DEVICE = 16

#: struct ifinfomsg: family, type, index, flags, change.
_LINK = struct.Struct("=BxHiII")

_INDEX = struct.Struct("=4xi")

#: As a number: an enumeration's takes 1 µs to be compared.
AF_UNSPEC = int(socket.AF_UNSPEC)

#: struct rtgenmsg, padded to 4 bytes, and NETNSA_NSID behind it.
_NSID_START = 4
_NETNSA_NSID = 1

#: include/uapi/linux/if.h. The kernel tells of the last two whether they
#: were asked for, not whether they are in force (dev_get_flags).
IFF_UP = 0x1
IFF_LOOPBACK = 0x8
IFF_PROMISC = 0x100
IFF_ALLMULTI = 0x200


class Ifla:
    """Attributes of a link (include/uapi/linux/if_link.h).

    Numbers alone: those of an enumeration take five times as long.
    """

    ADDRESS = 1
    IFNAME = 3
    MTU = 4
    LINK = 5
    MASTER = 10
    LINKINFO = 18
    IFALIAS = 20
    NET_NS_FD = 28
    EXT_MASK = 29
    CARRIER = 33
    LINK_NETNSID = 37
    TARGET_NETNSID = 46
    PROP_LIST = 52
    ALT_IFNAME = 53
    PARENT_DEV_NAME = 56
    PARENT_DEV_BUS_NAME = 57


#: Inside of LINKINFO; in INFO_DATA the mode of all kinds here is number 1.
INFO_KIND = 1
INFO_DATA = 2
INFO_MODE = 1
_MACVLAN = {1: "private", 2: "vepa", 4: "bridge", 8: "passthru", 16: "source"}
MODES: Mapping[str, Mapping[int, str]] = {
    "macvlan": _MACVLAN,
    "macvtap": _MACVLAN,
    "ipvlan": {0: "l2", 1: "l3", 2: "l3s"},
}


#: Those that are read.
_READ = frozenset(
    {
        Ifla.ADDRESS,
        Ifla.IFNAME,
        Ifla.MTU,
        Ifla.LINK,
        Ifla.MASTER,
        Ifla.LINKINFO,
        Ifla.IFALIAS,
        Ifla.CARRIER,
        Ifla.LINK_NETNSID,
        Ifla.PARENT_DEV_NAME,
        Ifla.PARENT_DEV_BUS_NAME,
    }
)


def _attributes(body: bytes) -> Attributes:
    return Attributes(body[_LINK.size :], _READ)


def link(
    body: bytes,
    namespace: str | None,
    home: int | None,
    space: Identity | None = None,
) -> Link | None:
    """Return the link that an RTM_NEWLINK tells of.

    :param namespace: where it was asked, as in Link.
    :param home: the number that the caller's namespace has there; None if
        it has none, or is the one where it was asked.
    :param space: which namespace it was asked in, as in Link.
    :returns: None if it is too short or has no name.
    """
    if index(body) is None:
        return None
    _, _, number, flags, _ = _LINK.unpack_from(body)
    found = _attributes(body)
    name = found.text(Ifla.IFNAME, MAX_NAME)
    if not name:
        return None
    kind, mode = _info(found.get(Ifla.LINKINFO, b""))
    return Link(
        name=name,
        index=number,
        namespace=namespace,
        kind=kind,
        mode=mode,
        parent=_parent(found, namespace, home),
        mac=found.get(Ifla.ADDRESS, b"")[:32].hex(":"),
        mtu=found.number(Ifla.MTU) or 0,
        up=bool(flags & IFF_UP),
        carrier=bool(found.number(Ifla.CARRIER)),
        alias=found.text(Ifla.IFALIAS, MAX_ALIAS),
        promisc=bool(flags & IFF_PROMISC),
        allmulti=bool(flags & IFF_ALLMULTI),
        device=_device(found),
        master=found.number(Ifla.MASTER),
        space=space,
    )


def _info(data: bytes) -> tuple[str, str | None]:
    """Return the kind of a link, and its mode if it is of a kind of ours."""
    info = Attributes(data)
    kind = info.text(INFO_KIND, MAX_NAME)
    modes = MODES.get(kind)
    if modes is None:
        return kind, None
    mode = info.nested(INFO_DATA).number(INFO_MODE)
    return kind, modes.get(-1 if mode is None else mode)


def index(body: bytes) -> int | None:
    """Return the index of a link; None where it is told of in part.

    A bridge tells of its ports, and IPv6 of its settings, in messages of
    their own families.
    """
    if len(body) < _LINK.size or body[0] != AF_UNSPEC:
        return None
    found: int = _INDEX.unpack_from(body)[0]
    return found


def is_loopback(body: bytes) -> bool:
    """Tell whether a link is its namespace's way to itself."""
    return index(body) is not None and bool(
        _LINK.unpack_from(body)[3] & IFF_LOOPBACK
    )


def _device(found: Attributes) -> str:
    if found.text(Ifla.PARENT_DEV_BUS_NAME, MAX_DEVICE) != "pci":
        return ""
    return found.text(Ifla.PARENT_DEV_NAME, MAX_DEVICE)


def abroad(body: bytes) -> int | None:
    """Return the number of the namespace of a link's parent.

    :returns: None for a parent in the link's own, or none at all.
    """
    return _attributes(body).number(Ifla.LINK_NETNSID, signed=True)


def nsid(body: bytes) -> int | None:
    """Return the number that an RTM_NEWNSID tells; None if there is none."""
    found = Attributes(body[_NSID_START:]).number(_NETNSA_NSID, signed=True)
    return None if found is None or found < 0 else found


def altnames(body: bytes) -> list[str]:
    """Return the alternative names of a link."""
    inner = Attributes(body[_LINK.size :]).get(Ifla.PROP_LIST, b"")
    found = []
    for kind, value in pairs(inner):
        if kind == Ifla.ALT_IFNAME:
            name = value.partition(b"\0")[0]
            found.append(name.decode("utf-8", "surrogateescape"))
    return found


def _parent(
    found: Attributes, namespace: str | None, home: int | None
) -> int | None:
    # It may have the link's own number, in another namespace.
    parent = found.number(Ifla.LINK)
    if not parent:
        return None
    where = found.number(Ifla.LINK_NETNSID, signed=True)
    if where is None:
        return parent if namespace is None else None
    return parent if where == home else None
