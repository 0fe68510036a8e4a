# SPDX-License-Identifier: Apache-2.0

"""Bounded reading of ELF files, which may be a tenant's.

Structures and numbers are those of the System V gABI and of glibc's
``elf/elf.h``. Only the parts that a loader uses are read: the program headers
and the dynamic section. Section headers can be stripped, or wrong.
"""

import dataclasses
import struct
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.onload.errors import NotElf
from sriov_rt.parse import numbers
from sriov_rt.parse.errors import ParseError

#: e_machine to its usual name.
MACHINES = {
    3: "i386",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """A version of symbols that a file needs from another.

    :param file: such as ``libc.so.6``.
    :param name: such as ``GLIBC_2.34``.
    """

    file: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Elf:
    """A program or a shared library.

    :param bits: 32 or 64.
    :param order: ``little`` or ``big`` endian.
    :param machine: its name in MACHINES, or its number.
    :param interpreter: the path of its dynamic loader (PT_INTERP).
    :param needed: the libraries that it is linked to (DT_NEEDED).
    :param versions: versions of symbols that it needs (.gnu.version_r).
    :param defines: names of versions that it defines (.gnu.version_d).
    """

    bits: int
    order: str
    machine: str
    interpreter: str | None
    soname: str | None
    needed: tuple[str, ...]
    versions: tuple[Version, ...]
    defines: tuple[str, ...]

    @property
    def is_static(self) -> bool:
        """Whether a program runs without a loader, and so without preload."""
        return self.interpreter is None

    @property
    def architecture(self) -> str:
        """Properties that two files must share to be in one process."""
        return f"{self.machine} {self.bits}-bit {self.order}-endian"

    @property
    def glibc_floor(self) -> tuple[int, ...] | None:
        """The oldest glibc with all needed versions; None if none is needed.

        A version is a tuple such as (2, 34).
        """
        return _newest(each.name for each in self.versions)

    @property
    def glibc(self) -> tuple[int, ...] | None:
        """The version of a glibc; None if the file is not glibc."""
        return _newest(self.defines)


def _newest(names: Iterable[str]) -> tuple[int, ...] | None:
    found = [
        version
        for each in names
        if each.startswith("GLIBC_")
        and (version := _dotted(each.removeprefix("GLIBC_")))
    ]
    return max(found, default=None)


def _dotted(text: str) -> tuple[int, ...] | None:
    # GLIBC_PRIVATE and GLIBC_ABI_DT_RELR are not versions.
    parts = text.split(".")
    try:
        return tuple(
            numbers.parse_int(each, "version", 0, 9999) for each in parts[:4]
        )
    except ParseError:
        return None


#: Returns the bytes from an offset, up to a number; fewer at the file's end.
Read = Callable[[int, int], bytes]

#: The most entries of each that are read. libc.so.6 has some 15 segments and
#: 60 versions, a large program some 300 needed versions.
MAX_SEGMENTS = 256
MAX_DYNAMIC = 4096
MAX_VERSIONS = 4096
MAX_NAME = 4096

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME = 0, 1, 5, 10, 14
_DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFFC, 0x6FFFFFFD
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


def parse(data: bytes) -> Elf:
    """Return the properties of an ELF file, given its bytes.

    :raises NotElf: if it is not an ELF file, or is broken.
    """
    return read(lambda offset, size: data[offset : offset + size])


def read(read_at: Read) -> Elf:
    """Return the properties of an ELF file, read piece by piece.

    :raises NotElf: if it is not an ELF file, or is broken.
    """
    return _File(read_at).facts()


@dataclasses.dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


class _File:
    """One file while it is read."""

    def __init__(self, read_at: Read) -> None:
        self._read = read_at
        head = self._bytes(0, 64, least=20)
        if head[:4] != b"\x7fELF":
            raise NotElf("no ELF file")
        if head[4] not in (1, 2) or head[5] not in (1, 2):
            raise NotElf("neither 32 nor 64 bits, or no byte order")
        self._wide = head[4] == 2
        self._end = "<" if head[5] == 1 else ">"
        (self._machine,) = self._unpack("H", head[18:20])
        self._segments = tuple(self._program_headers(head))
        self._dynamic = self._find_dynamic()
        self._strings = self._find_strings()

    def facts(self) -> Elf:
        """Return the properties of the file."""
        return Elf(
            bits=64 if self._wide else 32,
            order="little" if self._end == "<" else "big",
            machine=MACHINES.get(self._machine, f"machine {self._machine}"),
            interpreter=self._interpreter(),
            soname=next(map(self._string, self._values(_DT_SONAME)), None),
            needed=tuple(map(self._string, self._values(_DT_NEEDED))),
            versions=tuple(self._needed_versions()),
            defines=tuple(self._defined_versions()),
        )

    def _bytes(
        self, offset: int, size: int, least: int | None = None
    ) -> bytes:
        data = self._read(offset, size) if offset < 2**62 else b""
        if len(data) < (size if least is None else least):
            raise NotElf("it ends too early")
        return data

    def _unpack(self, form: str, data: bytes) -> tuple[int, ...]:
        return struct.unpack(self._end + form, data)

    def _program_headers(self, head: bytes) -> Iterator[_Segment]:
        form, at, counts = ("Q", 32, 54) if self._wide else ("I", 28, 42)
        if len(head) < counts + 4:
            raise NotElf("it ends too early")
        (start,) = self._unpack(form, head[at : at + struct.calcsize(form)])
        size, number = self._unpack("HH", head[counts : counts + 4])
        form = "IIQQQQ" if self._wide else "IIIIII"
        need = struct.calcsize("<" + form)
        if number > MAX_SEGMENTS or (number and size < need):
            raise NotElf("program headers that can't be")
        for index in range(number):
            parts = self._unpack(form, self._bytes(start + index * size, need))
            if self._wide:
                kind, _flags, offset, address, _, length = parts
            else:
                kind, offset, address, _, length, _ = parts
            yield _Segment(kind, offset, address, length)

    def _interpreter(self) -> str | None:
        for each in self._segments:
            if each.kind == _PT_INTERP:
                size = min(each.size, MAX_NAME)
                return _text(self._bytes(each.offset, size))
        return None

    def _find_dynamic(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        form = "QQ" if self._wide else "II"
        size = struct.calcsize(form)
        for each in self._segments:
            if each.kind != _PT_DYNAMIC:
                continue
            count = min(each.size // size, MAX_DYNAMIC)
            data = self._bytes(each.offset, count * size)
            for index in range(count):
                tag, value = self._unpack(
                    form, data[index * size : (index + 1) * size]
                )
                if tag == _DT_NULL:
                    break
                found.setdefault(tag, []).append(value)
            break
        return found

    def _values(self, tag: int) -> list[int]:
        return self._dynamic.get(tag, [])

    def _find_strings(self) -> range:
        """Return the range of its names, a table that may have megabytes."""
        table, sizes = self._values(_DT_STRTAB), self._values(_DT_STRSZ)
        if not table or not sizes:
            return range(0)
        start = self._offset(table[0])
        return range(start, start + sizes[0])

    def _offset(self, address: int) -> int:
        for each in self._segments:
            within = address - each.address
            if each.kind == _PT_LOAD and 0 <= within < each.size:
                return each.offset + within
        raise NotElf("an address that is not in the file")

    def _string(self, offset: int) -> str:
        place = self._strings[offset : offset + MAX_NAME]
        if not place:
            raise NotElf("a name that is not in the file")
        return _text(self._bytes(place.start, len(place), least=1))

    def _chain(
        self, tags: tuple[int, int], form: str, link: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield offset and fields of the records in a linked list.

        :param link: index of the field with the distance to the next record.
        """
        start, counts = self._values(tags[0]), self._values(tags[1])
        if not start or not counts:
            return
        yield from self._records(self._offset(start[0]), form, link, counts[0])

    def _records(
        self, offset: int, form: str, link: int, count: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        if count > MAX_VERSIONS:
            raise NotElf("more versions than can be")
        size = struct.calcsize("<" + form)
        for _ in range(count):
            fields = self._unpack(form, self._bytes(offset, size))
            yield offset, fields
            if not fields[link]:
                return
            offset += fields[link]

    def _needed_versions(self) -> Iterator[Version]:
        total = 0
        records = self._chain((_DT_VERNEED, _DT_VERNEEDNUM), "HHIII", 4)
        for offset, (_, count, file, first, _) in records:
            for _, fields in self._records(offset + first, "IHHII", 4, count):
                total += 1
                if total > MAX_VERSIONS:
                    raise NotElf("more versions than can be")
                yield Version(self._string(file), self._string(fields[3]))

    def _defined_versions(self) -> Iterator[str]:
        records = self._chain((_DT_VERDEF, _DT_VERDEFNUM), "HHHHIII", 6)
        for offset, fields in records:
            # The first name is its own, the others are its parents'.
            name, _ = self._unpack("II", self._bytes(offset + fields[5], 8))
            yield self._string(name)


def _text(data: bytes) -> str:
    # Names in ELF files have no encoding; these are paths and versions.
    return data.partition(b"\0")[0].decode("utf-8", "backslashreplace")
