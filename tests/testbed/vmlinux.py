# SPDX-License-Identifier: Apache-2.0

"""Extract the ELF kernel from Debian's bzImage.

A guest that is emulated twice takes minutes to decompress its kernel; QEMU
starts an ELF file with a PVH note directly.
Layout of a bzImage: Documentation/x86/boot.rst of the kernel.
"""

import ctypes
import lzma
import struct

from tests.testbed import errors

_SETUP_SECTORS = 0x1F1
_MAGIC = 0x202
_PAYLOAD = 0x248
_SECTOR = 512
#: The kernel's build appends the size of the ELF file to the payload.
_SIZE_SUFFIX = 4
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
#: The longest block of `lz4 -l`, in bytes (lz4_Frame_format.md).
_LZ4_BLOCK = 8 << 20
_XZ = b"\xfd7zXZ\x00"
_ELF = b"\x7fELF"


def extract(image: bytes) -> bytes:
    """Return the ELF kernel of a bzImage.

    :param image: the bytes of the bzImage.
    :raises errors.TestbedError: when it isn't one, or is compressed in a
        way that Debian 12 doesn't use.
    """
    if image[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise errors.TestbedError("the kernel is no bzImage")
    start = (image[_SETUP_SECTORS] + 1) * _SECTOR
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    payload = image[start + offset : start + offset + length - _SIZE_SUFFIX]
    kernel = _decompress(payload)
    if not kernel.startswith(_ELF):
        raise errors.TestbedError("the kernel's payload is no ELF file")
    return kernel


def _decompress(payload: bytes) -> bytes:
    if payload.startswith(_LZ4_LEGACY):
        return _unlz4(payload)
    if payload.startswith(_XZ):
        return lzma.LZMADecompressor().decompress(payload)
    raise errors.TestbedError(
        f"the kernel is compressed in an unknown way: {payload[:8].hex()}"
    )


def _unlz4(payload: bytes) -> bytes:
    """Decompress a legacy LZ4 frame with the library that apt links."""
    library = ctypes.CDLL("liblz4.so.1")
    buffer = ctypes.create_string_buffer(_LZ4_BLOCK)
    blocks = []
    position = len(_LZ4_LEGACY)
    while position < len(payload):
        (size,) = struct.unpack_from("<I", payload, position)
        position += 4
        block = payload[position : position + size]
        position += size
        got = library.LZ4_decompress_safe(block, buffer, size, _LZ4_BLOCK)
        if got < 0:
            raise errors.TestbedError("the kernel's LZ4 payload is damaged")
        blocks.append(buffer.raw[:got])
    return b"".join(blocks)
