# SPDX-License-Identifier: Apache-2.0

"""An ELF file is read in bounds, whatever is in it."""

import dataclasses
import struct
import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.onload import elf
from sriov_rt.onload.elf import Version
from sriov_rt.onload.errors import NotElf
from tests.unit.onload import elves
from tests.unit.parse.properties import deterministic


class ElfTest(unittest.TestCase):
    def test_a_program(self):
        for bits, order, machine, told in (
            (64, "<", 62, "x86_64 64-bit little-endian"),
            (32, "<", 3, "i386 32-bit little-endian"),
            (64, ">", 22, "s390x 64-bit big-endian"),
            (32, ">", 9999, "machine 9999 32-bit big-endian"),
        ):
            with self.subTest(told=told):
                built = elves.Built(bits=bits, order=order, machine=machine)
                found = elf.parse(built.bytes())
                self.assertEqual(told, found.architecture)
                self.assertEqual(built.interpreter, found.interpreter)
                self.assertFalse(found.is_static)
                self.assertEqual(("libc.so.6",), found.needed)
                self.assertEqual(
                    (
                        Version("libc.so.6", "GLIBC_2.2.5"),
                        Version("libc.so.6", "GLIBC_2.34"),
                    ),
                    found.versions,
                )
                self.assertEqual((2, 34), found.glibc_floor)
                self.assertIsNone(found.glibc)

    def test_a_libc(self):
        found = elf.parse(elves.LIBC.bytes())
        self.assertEqual("libc.so.6", found.soname)
        self.assertEqual((2, 36), found.glibc)
        self.assertIsNone(found.glibc_floor)

    def test_versions_of_many_files(self):
        built = elves.Built(
            versions=(
                ("libm.so.6", ("GLIBC_2.29",)),
                ("libc.so.6", ("GLIBC_2.9", "GLIBC_ABI_DT_RELR")),
                ("libx.so", ("X_9.9",)),
            )
        )
        found = elf.parse(built.bytes())
        self.assertEqual(4, len(found.versions))
        # By number: 2.9 is older than 2.29.
        self.assertEqual((2, 29), found.glibc_floor)

    def test_a_static_program(self):
        found = elf.parse(elves.STATIC.bytes())
        self.assertTrue(found.is_static)
        self.assertEqual((), found.needed)

    def test_what_is_no_elf_file(self):
        whole = elves.INIT.bytes()
        for data in (b"", b"#!/bin/sh\n", b"\x7fELF", whole[:63]):
            with self.subTest(data=data[:8]), self.assertRaises(NotElf):
                elf.parse(data)
        for place, value in ((4, 3), (5, 0)):
            broken = bytearray(whole)
            broken[place] = value
            with self.assertRaises(NotElf):
                elf.parse(bytes(broken))

    def test_every_truncation_is_refused_or_read(self):
        whole = elves.LIBC.bytes()
        for end in range(len(whole)):
            try:
                elf.parse(whole[:end])
            except NotElf as error:
                self.assertTrue(error.problem)

    def test_bounds(self):
        for place, form, value in (
            (56, "<H", 65535),  # e_phnum
            (54, "<H", 1),  # e_phentsize
            (32, "<Q", 2**64 - 1),  # e_phoff
        ):
            broken = bytearray(elves.INIT.bytes())
            struct.pack_into(form, broken, place, value)
            with self.subTest(place=place), self.assertRaises(NotElf):
                elf.parse(bytes(broken))

    def test_names_and_tables_that_are_not_there(self):
        whole = elves.INIT.bytes()
        # The dynamic section is the last in the file, 16 bytes an entry.
        for entry, value, told in (
            (6, 2**32, "a name"),  # DT_NEEDED
            (5, 2**40, "an address"),  # DT_STRTAB
            (4, 1, "a name"),  # DT_STRSZ
            (2, 2**20, "more versions"),  # DT_VERNEEDNUM
        ):
            broken = bytearray(whole)
            at = len(broken) - 16 * entry + 8
            struct.pack_into("<Q", broken, at, value)
            with self.subTest(told=told):
                with self.assertRaises(NotElf) as caught:
                    elf.parse(bytes(broken))
                self.assertIn(told, caught.exception.problem)

    def test_a_string_table_may_be_long(self):
        # That of nodejs has 5 MB, others have more: only names are read.
        whole = elves.INIT.bytes()
        long = bytearray(whole)
        struct.pack_into("<Q", long, len(long) - 16 * 4 + 8, 2**40)
        sizes = []

        def read_at(offset: int, size: int) -> bytes:
            sizes.append(size)
            return bytes(long[offset : offset + size])

        self.assertEqual(elf.parse(whole), elf.read(read_at))
        self.assertLessEqual(max(sizes), 4096)

    def test_reads_are_bounded_in_number(self):
        # Each record says that 65,535 further ones follow, one byte on.
        built = elves.Built(versions=(("libc.so.6", ("GLIBC_2.2.5",)),))
        data = bytearray(built.bytes())
        record = struct.pack("<HHI", 1, 1, 0)[:4]
        at = data.index(record, 64 + 3 * 56)
        struct.pack_into("<H", data, at + 2, 65535)
        struct.pack_into("<I", data, at + 16 + 12, 1)
        reads = []

        def read_at(offset: int, size: int) -> bytes:
            reads.append(size)
            return bytes(data[offset : offset + size])

        with self.assertRaises(NotElf):
            elf.read(read_at)
        self.assertLess(len(reads), 10_000)

    @deterministic
    @hypothesis.given(
        st.sampled_from((elves.INIT, elves.LIBC, elves.STATIC)),
        st.lists(
            st.tuples(st.integers(0, 700), st.integers(0, 255)), max_size=8
        ),
    )
    def test_total_on_broken_files(self, built, changes):
        data = bytearray(built.bytes())
        for place, value in changes:
            data[place % len(data)] = value
        self.outcome(bytes(data))

    @deterministic
    @hypothesis.given(st.binary(max_size=300), st.sampled_from((1, 2)))
    def test_total_on_garbage(self, rest, bits):
        self.outcome(b"\x7fELF" + bytes((bits, 1)) + rest)

    def outcome(self, data: bytes) -> None:
        try:
            found = elf.parse(data)
        except NotElf as error:
            self.assertTrue(error.problem)
            return
        self.assertTrue(dataclasses.is_dataclass(found))
        self.assertLessEqual(len(found.versions), elf.MAX_VERSIONS)
        self.assertIsInstance(found.glibc_floor, tuple | None)
