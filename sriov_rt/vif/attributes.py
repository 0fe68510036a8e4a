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

"""Attributes of netlink messages, whatever is in them.

What a tenant has set in a namespace of its own is read here too: no bytes
make these raise, and none are taken beyond their bounds. pyroute2 reads and
writes all attributes of a link, which takes ten times as long: more than the
kernel needs for what it is asked.
"""

import struct
import sys
from collections.abc import Container
from collections.abc import Iterator
from typing import Literal

_HEADER = struct.Struct("=HH")

#: An attribute's type without its flags: nested, byte order (NLA_TYPE_MASK
#: in include/uapi/linux/netlink.h).
_TYPE = 0x3FFF

_WHOLE = struct.Struct("=HHI")

_SIZES = frozenset((1, 2, 4, 8))

_ORDER: Literal["little", "big"] = sys.byteorder


def attribute(kind: int, value: bytes | str | int) -> bytes:
    """Return one attribute, padded.

    :param value: a text, which gets its zero byte, or an unsigned number of
        32 bits.
    """
    if isinstance(value, int):
        return _WHOLE.pack(_WHOLE.size, kind, value)
    if isinstance(value, str):
        value = value.encode() + b"\0"
    length = _HEADER.size + len(value)
    return _HEADER.pack(length, kind) + value + bytes(-length % 4)


def pairs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the value of each attribute, in their order.

    What is malformed ends them.
    """
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind = _HEADER.unpack_from(data, at)
        end = at + length
        if length < _HEADER.size or end > len(data):
            return
        yield kind & _TYPE, data[at + _HEADER.size : end]
        at += (length + 3) & ~3


class Attributes(dict[int, bytes]):
    """Attributes by their type; the last of each counts.

    :param data: one behind the other. What is malformed ends them.
    :param only: the types that are wanted; None for all.
    """

    def __init__(
        self, data: bytes, only: Container[int] | None = None
    ) -> None:
        super().__init__(
            (kind, value)
            for kind, value in pairs(data)
            if only is None or kind in only
        )

    def nested(self, kind: int) -> "Attributes":
        """Return those inside of one; none if it is absent."""
        return Attributes(self.get(kind, b""))

    def number(self, kind: int, *, signed: bool = False) -> int | None:
        """Return a number of 1, 2, 4 or 8 bytes; None for anything else."""
        value = self.get(kind)
        if value is None or len(value) not in _SIZES:
            return None
        return int.from_bytes(value, _ORDER, signed=signed)

    def text(self, kind: int, limit: int) -> str:
        """Return a text up to its zero byte, empty if it is absent.

        :param limit: the longest, in bytes; the rest is left out.
        """
        value = self.get(kind)
        if not value:
            return ""
        return value[:limit].partition(b"\0")[0].decode("utf-8", "replace")
