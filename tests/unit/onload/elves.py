# SPDX-License-Identifier: Apache-2.0

"""Small ELF files, built byte by byte."""

import dataclasses
import struct


@dataclasses.dataclass
class Built:
    """What goes into an ELF file; :meth:`bytes` is the file."""

    bits: int = 64
    order: str = "<"
    machine: int = 62
    interpreter: str | None = "/lib64/ld-linux-x86-64.so.2"
    needed: tuple[str, ...] = ("libc.so.6",)
    versions: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("libc.so.6", ("GLIBC_2.2.5", "GLIBC_2.34")),
    )
    defines: tuple[str, ...] = ()
    soname: str | None = None
    dynamic: bool = True

    def bytes(self) -> bytes:
        """Return the file: headers, loader, strings, versions, dynamic."""
        strings = _Strings()
        form = "QQ" if self.bits == 64 else "II"
        tags = [(1, strings.add(each)) for each in self.needed]
        if self.soname:
            tags.append((14, strings.add(self.soname)))
        needs = self._needs(strings)
        defined = self._defined(strings)
        body = bytearray()
        base = 64 + 3 * 56
        loader = (self.interpreter or "").encode() + b"\0"
        body += loader
        table = base + len(body)
        body += strings.data
        needs_at = base + len(body)
        body += needs
        defined_at = base + len(body)
        body += defined
        # Addresses are not offsets: 0x1000 lies between.
        tags += [(5, table + 0x1000), (10, len(strings.data))]
        if self.versions:
            tags += [
                (0x6FFFFFFE, needs_at + 0x1000),
                (0x6FFFFFFF, len(self.versions)),
            ]
        if self.defines:
            tags += [
                (0x6FFFFFFC, defined_at + 0x1000),
                (0x6FFFFFFD, len(self.defines)),
            ]
        tags.append((0, 0))
        dynamic_at = base + len(body)
        body += b"".join(
            struct.pack(self.order + form, *each) for each in tags
        )
        size = base + len(body)
        headers = [(1, 0, 0x1000, size)]
        if self.dynamic:
            length = len(tags) * struct.calcsize(form)
            headers.append((2, dynamic_at, dynamic_at + 0x1000, length))
        if self.interpreter is not None:
            headers.append((3, base, base + 0x1000, len(loader)))
        head = self._header(len(headers))
        head += b"".join(self._segment(*each) for each in headers)
        return head.ljust(base, b"\0") + bytes(body)

    def _header(self, segments: int) -> bytes:
        wide = self.bits == 64
        ident = b"\x7fELF" + bytes(
            (2 if wide else 1, 1 if self.order == "<" else 2, 1)
        )
        form = "HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"
        start, size = (64, 56) if wide else (52, 32)
        packed = struct.pack(
            self.order + form,
            *(3, self.machine, 1, 0, start, 0, 0),
            *(start, size, segments, 0, 0, 0),
        )
        return ident.ljust(16, b"\0") + packed

    def _segment(self, kind: int, offset: int, address: int, size: int):
        if self.bits == 64:
            parts = (kind, 4, offset, address, 0, size, size, 1)
            return struct.pack(self.order + "IIQQQQQQ", *parts)
        parts = (kind, offset, address, 0, size, size, 4, 1)
        return struct.pack(self.order + "IIIIIIII", *parts)

    def _needs(self, strings: "_Strings") -> bytes:
        data = b""
        for index, (file, names) in enumerate(self.versions):
            last = index == len(self.versions) - 1
            length = 16 * (1 + len(names))
            data += struct.pack(
                self.order + "HHIII",
                *(1, len(names), strings.add(file), 16, 0 if last else length),
            )
            for place, name in enumerate(names):
                rest = 0 if place == len(names) - 1 else 16
                data += struct.pack(
                    self.order + "IHHII", 0, 0, 2, strings.add(name), rest
                )
        return data

    def _defined(self, strings: "_Strings") -> bytes:
        data = b""
        for index, name in enumerate(self.defines):
            last = index == len(self.defines) - 1
            data += struct.pack(
                self.order + "HHHHIII",
                *(1, 0, index + 1, 1, 0, 20, 0 if last else 28),
            )
            data += struct.pack(self.order + "II", strings.add(name), 0)
        return data


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        """Return the offset of a string that was put in."""
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


#: glibc 2.36's libc.so.6, as far as it matters here.
LIBC = Built(
    defines=(
        "libc.so.6",
        "GLIBC_2.2.5",
        "GLIBC_2.34",
        "GLIBC_2.36",
        "GLIBC_PRIVATE",
    ),
    soname="libc.so.6",
    needed=("ld-linux-x86-64.so.2",),
    versions=(),
)

#: A libonload.so that needs glibc 2.34.
LIBRARY = Built(interpreter=None, soname="libonload.so")

#: A program of glibc.
INIT = Built()

#: One of musl, one that is static.
MUSL = Built(
    interpreter="/lib/ld-musl-x86_64.so.1",
    needed=("libc.musl-x86_64.so.1",),
    versions=(),
)
STATIC = Built(interpreter=None, needed=(), versions=(), dynamic=False)
