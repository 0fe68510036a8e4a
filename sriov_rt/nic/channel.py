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

"""One request to rtnetlink and its answer, over a socket of its own.

Opening a socket takes 10 µs. pyroute2's IPRoute makes an event loop and a
socket for each thread that uses it, which stay open when the thread ends,
and joins multicast groups; so only its message classes are used.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterator

#: include/uapi/linux/netlink.h; the socket module has none of them.
SOL_NETLINK = 270
NETLINK_CAP_ACK = 10
NETLINK_EXT_ACK = 11
NLMSG_ERROR = 2
NLM_F_CAPPED = 0x100
NLM_F_ACK_TLVS = 0x200
NLMSGERR_ATTR_MSG = 1

#: Bytes: a PF with 256 VFs in one message is 51 KiB without their counters.
RECEIVE = 128 * 1024

#: The kernel answers when it is done: i40e may wait 300 ms for each of 128
#: VFs (i40e_ndo_set_vf_mac).
PATIENCE_S = 60.0

#: The longest text that is taken of what the kernel says with an error.
MAX_TEXT = 200

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR = struct.Struct("=i")


def ask(request: bytes) -> list[bytes]:
    """Send a request with NLM_F_ACK and return the messages before the ack.

    :param request: one message.
    :raises OSError: with the kernel's errno, and its own words if it has
        any.
    """
    number = _HEADER.unpack_from(request)[3]
    with socket.socket(
        socket.AF_NETLINK,
        socket.SOCK_RAW | socket.SOCK_CLOEXEC,
        socket.NETLINK_ROUTE,
    ) as channel:
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
            channel.setsockopt(SOL_NETLINK, option, 1)
        channel.settimeout(PATIENCE_S)
        channel.send(request)
        return list(_answers(channel, number))


def _answers(channel: socket.socket, number: int) -> Iterator[bytes]:
    while True:
        try:
            data, _, flags, sender = channel.recvmsg(RECEIVE)
        except TimeoutError as error:
            raise OSError(errno.ETIMEDOUT, "no answer") from error
        if flags & socket.MSG_TRUNC:
            raise OSError(errno.EMSGSIZE, "the kernel's answer was cut")
        # Any process may send to a netlink socket; port 0 is the kernel.
        if sender[0] != 0:
            continue
        for kind, bits, sequence, message in split(data):
            if sequence != number:
                continue
            if kind == NLMSG_ERROR:
                check(message, bits)
                return
            yield message


def split(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield type, flags, sequence number and bytes of each message.

    What does not fit into the data ends them.
    """
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        if length < _HEADER.size or offset + length > len(data):
            return
        yield kind, flags, sequence, data[offset : offset + length]
        offset += (length + 3) & ~3


def check(message: bytes, flags: int) -> None:
    """Raise what an acknowledgement says; nothing for a 0.

    :raises OSError: with the errno.
    """
    if len(message) < _HEADER.size + _ERROR.size + _HEADER.size:
        raise OSError(errno.EBADMSG, "an acknowledgement too short")
    code = -_ERROR.unpack_from(message, _HEADER.size)[0]
    if code == 0:
        return
    words = _words(message, flags) if flags & NLM_F_ACK_TLVS else ""
    raise OSError(code, words or os.strerror(code))


def _words(message: bytes, flags: int) -> str:
    """Return the kernel's own words: NLMSGERR_ATTR_MSG."""
    offset = _HEADER.size + _ERROR.size
    request = _HEADER.unpack_from(message, offset)[0]
    offset += _HEADER.size if flags & NLM_F_CAPPED else (request + 3) & ~3
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        if length < _ATTRIBUTE.size:
            return ""
        if kind == NLMSGERR_ATTR_MSG:
            text = message[offset + _ATTRIBUTE.size : offset + length]
            return text.rstrip(b"\0").decode(errors="replace")[:MAX_TEXT]
        offset += (length + 3) & ~3
    return ""
