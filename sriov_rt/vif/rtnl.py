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

"""Conversations with the kernel's rtnetlink: one socket, one namespace.

pyroute2's IPRoute joins multicast groups whose messages pile up in an idle
socket, and makes itself an event loop and a socket anew for each call from
another thread; so its message classes are used, and not its sockets.
"""

import errno
import itertools
import os
import socket
import struct
from typing import NamedTuple
from typing import Self

from sriov_rt import rtnetlink
from sriov_rt.vif import namespaces
from sriov_rt.vif.attributes import Attributes
from sriov_rt.vif.requests import NLM_F_ACK
from sriov_rt.vif.requests import NLM_F_DUMP

#: include/uapi/linux/netlink.h; the socket module has none of them.
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_DUMP_INTR = 0x10
NLM_F_CAPPED = 0x100
NLM_F_ACK_TLVS = 0x200
NLMSGERR_ATTR_MSG = 1

#: The most that the kernel puts into one datagram of a dump is 32 KiB
#: (netlink_dump in net/netlink/af_netlink.c).
BUFFER = 64 * 1024

#: One link without its VFs, which no request here asks for, is below 4 KiB.
#: The memory for more would be had from the system and given back each time.
SMALL_BUFFER = 8 * 1024

#: How often a dump is asked for that changes while it is given.
MAX_DUMPS = 8

#: The longest text that the kernel adds to an error.
MAX_TEXT = 200

#: As numbers: an enumeration's takes 1 µs to be compared.
MSG_TRUNC = int(socket.MSG_TRUNC)
MSG_DONTWAIT = int(socket.MSG_DONTWAIT)

_HEADER = struct.Struct("=IHHII")
_ERROR = struct.Struct("=i")
_NUMBER = struct.Struct("=I")
_FLAGS = struct.Struct("=6xH")


class Answer(NamedTuple):
    """One message of the kernel.

    :param kind: RTM_*.
    :param body: what follows its header.
    """

    kind: int
    body: bytes


class Channel:
    """A netlink socket. It belongs to one thread at a time.

    It stays in the namespace of the thread that opens it.
    """

    def __init__(self) -> None:
        self._socket = rtnetlink.open_socket()
        self._sequence = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cookie(self) -> int:
        """The cookie of its namespace; 0 where there is none."""
        return namespaces.cookie(self._socket)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, *requests: bytes, size: int = SMALL_BUFFER) -> list[Answer]:
        """Send requests all at once and return what answers them.

        The kernel does each, whatever becomes of those before it.

        :param requests: messages; their sequence numbers are set here.
        :param size: of the longest datagram that answers, in bytes.
        :raises OSError: with the first errno that the kernel gives, and its
            own words if it has any.
        """
        numbers = []
        data = bytearray()
        for request in requests:
            number = next(self._sequence) & 0xFFFFFFFF
            numbers.append((number, _is_ended(request)))
            start = len(data)
            data += request
            _NUMBER.pack_into(data, start + 8, number)
        self._socket.send(data)
        answers: list[Answer] = []
        refused: OSError | None = None
        for number, ended in numbers:
            try:
                self._take(number, ended, answers, size)
            except OSError as error:
                refused = refused or error
        if refused is not None:
            raise refused
        return answers

    def dump(self, request: bytes) -> list[Answer]:
        """Send a request for a dump and return it, as of one moment.

        :raises OSError: EINTR if what is dumped never stands still.
        """
        for _ in range(MAX_DUMPS - 1):
            try:
                return self.ask(request, size=BUFFER)
            except InterruptedError:
                continue
        return self.ask(request, size=BUFFER)

    def _take(
        self, number: int, ended: bool, answers: list[Answer], size: int
    ) -> None:
        torn = False
        while True:
            for kind, flags, sequence, body in messages(self._receive(size)):
                if sequence != number:
                    continue
                torn |= bool(flags & NLM_F_DUMP_INTR)
                if kind == NLMSG_DONE and torn:
                    raise OSError(errno.EINTR, "changed while it was dumped")
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    _check(body, flags)
                    return
                answers.append(Answer(kind, body))
                if not ended:
                    return

    def _receive(self, size: int) -> bytes:
        # A request is worked off while it is sent (rtnetlink_rcv): the answer
        # is there, or lost.
        try:
            data, _, flags, _ = self._socket.recvmsg(size, 0, MSG_DONTWAIT)
        except (BlockingIOError, TimeoutError) as error:
            raise OSError(errno.ETIMEDOUT, "no answer") from error
        if flags & MSG_TRUNC:
            raise OSError(errno.EMSGSIZE, "the kernel's answer was cut")
        return data


def messages(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return type, flags, sequence number and body of each message.

    What does not fit into the data ends them.
    """
    found = []
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        end = offset + length
        if length < _HEADER.size or end > len(data):
            break
        body = data[offset + _HEADER.size : end]
        found.append((kind, flags, sequence, body))
        offset += (length + 3) & ~3
    return found


def _is_ended(request: bytes) -> bool:
    """Tell whether something follows the answer: an acknowledgement, DONE.

    Without either, one answer or one error is all that comes.
    """
    return bool(_FLAGS.unpack_from(request)[0] & (NLM_F_ACK | NLM_F_DUMP))


def _check(body: bytes, flags: int) -> None:
    """Raise what an acknowledgement says; nothing for a 0.

    After the errno comes the header of the request, and all of the request
    where it has failed.
    """
    if len(body) < _ERROR.size + _HEADER.size:
        raise OSError(errno.EBADMSG, "an acknowledgement too short")
    code = -_ERROR.unpack_from(body)[0]
    if code == 0:
        return
    words = ""
    if flags & NLM_F_ACK_TLVS:
        start = _ERROR.size + _HEADER.size
        if not flags & NLM_F_CAPPED:
            length = _HEADER.unpack_from(body, _ERROR.size)[0]
            start = _ERROR.size + ((length + 3) & ~3)
        words = Attributes(body[start:]).text(NLMSGERR_ATTR_MSG, MAX_TEXT)
    raise OSError(code, words or os.strerror(code))
