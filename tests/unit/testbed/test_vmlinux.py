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

"""The ELF kernel inside a bzImage."""

import lzma
import struct
import unittest

from tests.testbed import errors
from tests.testbed import vmlinux

_ELF = b"\x7fELF" + bytes(1000)
#: A block of LZ4 that holds literals only: token, length, bytes.
_LZ4_BLOCK = bytes((0xF0, 255, 255, 255, 224)) + _ELF


def _bzimage(payload: bytes) -> bytes:
    """Return what boot.rst says of a bzImage, with one setup sector."""
    image = bytearray(2 * 512)
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    padding = 16
    struct.pack_into("<II", image, 0x248, padding, len(payload) + 4)
    size = struct.pack("<I", len(_ELF))
    return bytes(image) + bytes(padding) + payload + size + b"after"


class ExtractTest(unittest.TestCase):
    def test_unpacks_xz(self) -> None:
        image = _bzimage(lzma.compress(_ELF))
        self.assertEqual(_ELF, vmlinux.extract(image))

    def test_unpacks_legacy_lz4(self) -> None:
        frame = b"\x02\x21\x4c\x18"
        frame += struct.pack("<I", len(_LZ4_BLOCK)) + _LZ4_BLOCK
        self.assertEqual(_ELF, vmlinux.extract(_bzimage(frame)))

    def test_refuses_damaged_lz4(self) -> None:
        frame = b"\x02\x21\x4c\x18" + struct.pack("<I", 3) + b"\xff\xff\xff"
        with self.assertRaisesRegex(errors.TestbedError, "damaged"):
            vmlinux.extract(_bzimage(frame))

    def test_refuses_an_unknown_compression(self) -> None:
        with self.assertRaisesRegex(errors.TestbedError, "unknown way"):
            vmlinux.extract(_bzimage(b"\x28\xb5\x2f\xfd"))

    def test_refuses_what_is_no_bzimage(self) -> None:
        with self.assertRaisesRegex(errors.TestbedError, "no bzImage"):
            vmlinux.extract(_ELF)

    def test_refuses_a_payload_that_is_no_elf_file(self) -> None:
        with self.assertRaisesRegex(errors.TestbedError, "no ELF"):
            vmlinux.extract(_bzimage(lzma.compress(b"something else")))
