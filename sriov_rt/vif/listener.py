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

"""Events of rtnetlink, from all namespaces."""

import errno
import socket
import struct
from typing import NamedTuple

from sriov_rt.vif.rtnl import MSG_TRUNC
from sriov_rt.vif.rtnl import SMALL_BUFFER
from sriov_rt.vif.rtnl import SOL_NETLINK
from sriov_rt.vif.rtnl import messages
from sriov_rt.vif.rtnl import open_socket

#: include/uapi/linux/netlink.h.
NETLINK_LISTEN_ALL_NSID = 8

_NUMBER = struct.Struct("=i")

#: The groups of events on links and on numbers of namespaces, as a mask
#: (RTNLGRP_LINK and RTNLGRP_NSID in include/uapi/linux/rtnetlink.h).
GROUPS = 1 << (1 - 1) | 1 << (28 - 1)

#: The most memory of events that nobody has heard yet. The kernel counts up
#: to 4 KiB for one, so the 208 KiB that a socket has by default are 50: a
#: pod's worth or two, and whatever is lost is to be asked for in every
#: namespace. To hear what this holds takes as long as to ask 100 of them.
MEMORY = 8 << 20

#: include/uapi/asm-generic/socket.h; the socket module has none of it.
SO_RCVBUFFORCE = 33

_NUMBER_SPACE = socket.CMSG_SPACE(_NUMBER.size)


class Heard(NamedTuple):
    """One event of the kernel.

    :param space: the number of the namespace that it is of, in that of the
        socket; None for the socket's own.
    """

    space: int | None
    kind: int
    body: bytes


class Listener:
    """A socket that hears events on links, of other namespaces too.

    :raises OSError: EPERM without CAP_NET_BROADCAST.
    """

    def __init__(self) -> None:
        self._socket = open_socket()
        self._socket.setblocking(False)
        try:
            self._socket.setsockopt(SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, 1)
            self._enlarge()
            self._socket.bind((0, GROUPS))
        except OSError:
            self._socket.close()
            raise

    def _enlarge(self) -> None:
        level = socket.SOL_SOCKET
        try:
            self._socket.setsockopt(level, SO_RCVBUFFORCE, MEMORY)
        except PermissionError:
            # In a user namespace: as much as net.core.rmem_max lets it have.
            self._socket.setsockopt(level, socket.SO_RCVBUF, MEMORY)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def heard(self) -> list[Heard]:
        """Return the events that have come, and do not wait for others.

        :raises OSError: ENOBUFS if there were more than the socket holds;
            some are lost then.
        """
        found: list[Heard] = []
        while True:
            try:
                data, ancillary, flags, address = self._socket.recvmsg(
                    SMALL_BUFFER, _NUMBER_SPACE
                )
            except BlockingIOError:
                return found
            if flags & MSG_TRUNC:
                raise OSError(errno.ENOBUFS, "an event was cut")
            if address[0] != 0:
                continue
            space = _space(ancillary)
            for kind, _, _, body in messages(data):
                found.append(Heard(space, kind, body))


def _space(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_NETLINK, NETLINK_LISTEN_ALL_NSID):
            found: int = _NUMBER.unpack(data[: _NUMBER.size])[0]
            return found
    return None
