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

"""Requests on links, as bytes: nothing is sent here."""

import struct
from collections.abc import Mapping

from sriov_rt.vif.answers import IFF_UP
from sriov_rt.vif.answers import INFO_DATA
from sriov_rt.vif.answers import INFO_KIND
from sriov_rt.vif.answers import INFO_MODE
from sriov_rt.vif.answers import MODES
from sriov_rt.vif.answers import Ifla
from sriov_rt.vif.attributes import attribute
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
RTM_NEWNSID = 88
RTM_GETNSID = 90
RTM_DELLINKPROP = 109
RTEXT_FILTER_SKIP_STATS = 0x8

#: include/uapi/linux/net_namespace.h.
NETNSA_FD = 3

#: NLA_F_NESTED (include/uapi/linux/netlink.h).
NESTED = 0x8000

#: What one message answers, or a dump; an error is told in any case.
_ANSWERED = frozenset({RTM_GETLINK, RTM_GETNSID})

#: struct nlmsghdr, without sequence number and port: see Channel.ask.
_HEADER = struct.Struct("=IHH8x")

#: struct ifinfomsg: index, flags, change.
_LINK = struct.Struct("=4xiII")

#: struct rtgenmsg, padded.
_GENERAL = bytes(4)

_NUMBERS: Mapping[str, Mapping[str, int]] = {
    kind: {name: number for number, name in modes.items()}
    for kind, modes in MODES.items()
}

#: ipvlan's mode has 16 bits (ipvlan_nl_policy), macvlan's 32.
_SHORT = struct.Struct("=H")


def message(kind: int, how: int, body: bytes) -> bytes:
    """Return a request.

    :param kind: RTM_*.
    :param how: NLM_F_* beside those of every request: what has no answer
        is acknowledged, so that each has an end.
    """
    how |= NLM_F_REQUEST if kind in _ANSWERED else NLM_F_REQUEST | NLM_F_ACK
    return _HEADER.pack(_HEADER.size + len(body), kind, how) + body


def get_link(*, name: str | None = None, index: int = 0) -> bytes:
    """Ask for one link, by its name or its index."""
    body = _LINK.pack(index, 0, 0)
    if name is not None:
        body += attribute(Ifla.IFNAME, name)
    body += attribute(Ifla.EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    return message(RTM_GETLINK, 0, body)


def get_links(space: int | None = None) -> bytes:
    """Ask for all links of a namespace.

    :param space: its number in the socket's; None for the socket's own.
    """
    body = _LINK.pack(0, 0, 0)
    if space is not None:
        body += attribute(Ifla.TARGET_NETNSID, space)
    body += attribute(Ifla.EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    return message(RTM_GETLINK, NLM_F_DUMP, body)


def new_link(what: Subinterface, parent: int, target: int | None) -> bytes:
    """Make a subinterface.

    Its alias is left out: the kernel takes none here (rtnl_create_link in
    net/core/rtnetlink.c).

    :param parent: index, in the namespace of the socket.
    :param target: descriptor of the namespace; None for the socket's. To
        name the parent's to a socket in there would do as well, but Linux
        6.1 makes it in the parent's then and moves it: it is down, and its
        name may be taken there (rtnl_newlink_create in net/core/rtnetlink.c).
    """
    up = IFF_UP if what.up else 0
    body = _LINK.pack(what.index or 0, up, up)
    body += attribute(Ifla.IFNAME, what.name)
    if target is not None:
        body += attribute(Ifla.NET_NS_FD, target)
    body += attribute(Ifla.LINK, parent)
    if what.mac is not None:
        body += attribute(Ifla.ADDRESS, _octets(what.mac))
    if what.mtu is not None:
        body += attribute(Ifla.MTU, what.mtu)
    body += _info(what.kind, what.mode)
    return message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body)


def _info(kind: str, mode: str) -> bytes:
    number: int | bytes = _NUMBERS[kind][mode]
    if kind == "ipvlan":
        number = _SHORT.pack(number)
    data = attribute(INFO_DATA, attribute(INFO_MODE, number))
    return attribute(Ifla.LINKINFO, attribute(INFO_KIND, kind) + data)


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
    flags = flags or {}
    wanted = sum(flag for flag, wish in flags.items() if wish)
    body = _LINK.pack(index, wanted, sum(flags))
    for kind, value in (
        (Ifla.NET_NS_FD, target),
        (Ifla.IFNAME, rename or name),
        (Ifla.ADDRESS, None if mac is None else _octets(mac)),
        (Ifla.MTU, mtu),
        (Ifla.IFALIAS, alias),
    ):
        if value is not None:
            body += attribute(kind, value)
    return message(RTM_SETLINK, 0, body)


def _octets(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def delete_link(index: int, space: int | None = None) -> bytes:
    """Delete a link.

    :param space: the number of its namespace in the socket's; None for the
        socket's own.
    """
    body = _LINK.pack(index, 0, 0)
    if space is not None:
        body += attribute(Ifla.TARGET_NETNSID, space)
    return message(RTM_DELLINK, 0, body)


def delete_altname(index: int, name: str) -> bytes:
    """Remove an alternative name of a link."""
    value = name.encode("utf-8", "surrogateescape") + b"\0"
    inner = attribute(Ifla.ALT_IFNAME, value)
    body = _LINK.pack(index, 0, 0) + attribute(Ifla.PROP_LIST | NESTED, inner)
    return message(RTM_DELLINKPROP, 0, body)


def get_nsid(descriptor: int) -> bytes:
    """Ask which number a namespace has in the socket's.

    :param descriptor: of its file.
    """
    body = _GENERAL + attribute(NETNSA_FD, descriptor)
    return message(RTM_GETNSID, 0, body)


def get_nsids() -> bytes:
    """Ask for the numbers of all namespaces that have one in the socket's."""
    return message(RTM_GETNSID, NLM_F_DUMP, _GENERAL)
