# SPDX-License-Identifier: Apache-2.0

"""The kernel's rtnetlink, over pyroute2 0.8 and 0.9.

A conversation has its own socket, which the same thread closes: pyroute2 0.9
has an event loop and a socket for each thread. It joins no multicast group,
whose messages would pile up in it.

pyroute2 is imported at the first conversation: importing it takes longer than
most of our programs run.
"""

import contextlib
import errno
import os
import secrets
import socket
import struct
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeVar

#: Indices of our interfaces: higher than a kernel counts by itself, and of
#: seven digits, as some fields for them are short.
FIRST_INDEX = 1_000_000
INDICES = 8_000_000

#: RTEXT_FILTER_VF and RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h). Without the
#: counters a VF takes 200 bytes instead of 320.
VFS_ONLY = 1 | 8

#: RTEXT_FILTER_VF alone.
VFS_WITH_STATS = 1

#: RTEXT_FILTER_SKIP_STATS alone.
SKIP_STATS = 8

#: include/uapi/linux/if.h.
IFF_UP = 0x1
IFF_LOOPBACK = 0x8
IFF_PROMISC = 0x100
IFF_ALLMULTI = 0x200

#: How often a dump is requested that changes while it is read.
MAX_DUMPS = 8

#: NETNSA_NSID_NOT_ASSIGNED as pyroute2 reads it.
_NOT_ASSIGNED = 0xFFFFFFFF

#: include/uapi/linux/netlink.h; the socket module lacks them.
SOL_NETLINK = 270
NETLINK_EXT_ACK = 11

#: struct timeval: time limit of the kernel's answer. It is there once the
#: request is sent, unless it got lost.
_LIMIT = struct.pack("@ll", 60, 0)

#: Field of struct ifla_vf_vlan_info (linux/if_link.h); see :func:`_pad`.
_PADDING = ("padding", "H")

#: A conversation: pyroute2's IPRoute, which has no types.
Route = Any

T = TypeVar("T")


def open_socket() -> socket.socket:
    """Return a socket in the calling thread's network namespace.

    It is connected to the kernel: messages of other processes in its namespace
    are refused (netlink_getsockbyportid in net/netlink/af_netlink.c).

    :raises OSError: if a sandbox refuses it.
    """
    # The type that pyroute2 0.9 requires.
    opened = socket.socket(
        socket.AF_NETLINK,
        socket.SOCK_DGRAM | socket.SOCK_CLOEXEC,
        socket.NETLINK_ROUTE,
    )
    try:
        opened.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        # Not settimeout(), which applies to this object, not to the socket.
        for each in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            opened.setsockopt(socket.SOL_SOCKET, each, _LIMIT)
        opened.connect((0, 0))
    except OSError:
        opened.close()
        raise
    return opened


@contextlib.contextmanager
def conversation(
    opened: socket.socket | None = None,
) -> Iterator[Route]:
    """Talk to the kernel of a network namespace.

    :param opened: socket of :func:`open_socket` in that namespace, which is
        closed; None for the calling thread's namespace.
    :raises OSError: if the kernel refuses; see :func:`refusal`.
    """
    import pyroute2

    _pad()
    number = (opened or open_socket()).detach()
    with (
        refused(),
        pyroute2.IPRoute(fileno=number, groups=0, ext_ack=True) as route,
    ):
        _take_busy_for_an_answer(route)
        yield route


def _take_busy_for_an_answer(route: Route) -> None:
    """Raise EBUSY at once, as an OSError.

    pyroute2 0.8 takes it for no answer if it is a NetlinkError, and repeats
    the request for 9 s (nlm_request in netlink/nlsocket.py).
    """
    import pyroute2

    get = route.get

    def answers(*arguments: Any, **more: Any) -> Iterator[Any]:
        try:
            yield from get(*arguments, **more)
        except pyroute2.NetlinkError as error:
            if error.code == errno.EBUSY:
                raise refusal(error) from error
            raise

    route.get = answers


def _pad() -> None:
    """Add the padding of struct ifla_vf_vlan_info, which pyroute2 leaves out.

    Without it the kernel returns EINVAL (do_setvfinfo in
    net/core/rtnetlink.c).
    """
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    info = ifinfmsg.vflist.vfinfo.vf_vlist.ivvi
    if _PADDING not in info.fields:
        info.fields = (*info.fields, _PADDING)


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Translate an error of the kernel to an OSError; see :func:`refusal`."""
    import pyroute2

    try:
        yield
    except pyroute2.NetlinkError as error:
        raise refusal(error) from error


def refusal(error: Exception) -> OSError:
    """Return an error of the kernel, with its errno and its message.

    A dump that changed while it was read has EINTR.

    :param error: a NetlinkError of pyroute2.
    """
    code, words = error.args
    return OSError(code if code > 0 else errno.EINTR, words)


def flags(states: Mapping[int, bool | None]) -> dict[str, int]:
    """Return flags of an interface as IPRoute.link takes them.

    :param states: whether to set each IFF_*; None leaves it alone.
    """
    changed = {flag: on for flag, on in states.items() if on is not None}
    return {
        "flags": sum(flag for flag, on in changed.items() if on),
        "change": sum(changed),
    }


#: Prefix of the name of an interface that tests if its parent is idle.
PROBE = "srtq"


def index_of(interface: str) -> int:
    """Return the index of an interface.

    :raises OSError: ENODEV if there is none; the C library sets no errno.
    """
    try:
        return socket.if_nametoindex(interface)
    except OSError as error:
        code = error.errno or errno.ENODEV
        raise OSError(code, os.strerror(code)) from error


def choose_index() -> int:
    """Return an index that another interface has only by chance."""
    return FIRST_INDEX + secrets.randbelow(INDICES)


def is_idle(interface: str) -> bool | None:
    """Return whether no macvlan, ipvlan, bridge or bond has an interface.

    This counts any namespace: sysfs shows only one's own, and a namespace
    without a name or a process is listed nowhere. A macvlan in passthru mode
    can only be made if nothing else is there (EINVAL for another macvlan,
    EBUSY for the rest: macvlan_common_newlink and netdev_rx_handler_register).
    It is never up, so that its parent notices nothing, and it is deleted at
    once.

    :returns: None if this kernel has no macvlan.
    :raises OSError: if the kernel refuses; ENODEV for no such interface.
    """
    parent, index = index_of(interface), choose_index()
    with conversation() as route:
        try:
            with refused():
                route.link(
                    "add",
                    index=index,
                    ifname=f"{PROBE}{secrets.token_hex(5)}",
                    link=parent,
                    kind="macvlan",
                    macvlan_mode="passthru",
                )
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EBUSY):
                return False
            if error.errno == errno.EOPNOTSUPP:
                return None
            raise
        route.link("del", index=index)
    return True


def links(route: Route) -> list[Any]:
    """Return the messages of all links of a conversation's namespace.

    :raises OSError: EINTR if they keep changing.
    """
    # Without the match, pyroute2 would filter by the request's arguments.
    return _whole(
        lambda: list(
            route.link("dump", match=lambda _: True, ext_mask=SKIP_STATS)
        )
    )


def number(route: Route, descriptor: int) -> int | None:
    """Return a namespace's number in that of a conversation, if any.

    :param descriptor: descriptor of the namespace.
    """
    found = route.get_netnsid(fd=descriptor)
    number = found["nsid"] if found else _NOT_ASSIGNED
    return None if number == _NOT_ASSIGNED else int(number)


def _whole(dump: Callable[[], T]) -> T:
    """Return a dump that did not change while it was read."""
    import pyroute2

    for _ in range(MAX_DUMPS - 1):
        try:
            return dump()
        except pyroute2.NetlinkError as error:
            if refusal(error).errno != errno.EINTR:
                raise
    return dump()
