# SPDX-License-Identifier: Apache-2.0

"""Parsed values of single files in /proc and /sys."""

import posixpath
from collections.abc import Callable
from typing import TypeVar

from sriov_rt.codec import Unknown
from sriov_rt.host.root import MAX_TEXT
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import numbers
from sriov_rt.parse.cpulist import CpuSet

T = TypeVar("T")

#: The widest number in a kernel file: 64 bits, signed.
MAX_INT = 2**63 - 1


def parsed(
    root: Root,
    path: str,
    parse: Callable[[str], T],
    limit: int = MAX_TEXT,
) -> T | Unknown:
    """Return the parsed text of a file, without its last newline.

    Some kernels end a list with a NUL (CentOS 7's 3.10), which is removed.

    :param parse: parser; raises ParseError for a malformed text.
    :param limit: the longest file that is read, in bytes.
    """
    text = root.read_text(path, limit)
    if isinstance(text, Unknown):
        return text
    try:
        return parse(text.strip("\0\n"))
    except errors.ParseError as error:
        return garbled(path, error)


def garbled(path: str, error: errors.ParseError) -> Unknown:
    """Return the Unknown for a malformed file."""
    return Unknown(f"/{path}: {error}")


def unless_absent(
    root: Root, path: str, value: T | Unknown, absent: T, beside: str
) -> T | Unknown:
    """Return a value, or a default if the kernel lacks its file.

    :param value: result of reading the file.
    :param absent: value for a kernel that was built without it.
    :param beside: a file that every kernel has: if it is missing, too, nothing
        is known.
    """
    if not isinstance(value, Unknown) or root.exists(path) is not False:
        return value
    return absent if root.exists(beside) is True else value


def cpu_mask(root: Root, path: str) -> CpuSet | Unknown:
    """Return the CPUs in a file with a hexadecimal mask."""
    return parsed(root, path, cpulist.parse_cpu_mask)


def cpu_set(root: Root, path: str) -> CpuSet | Unknown:
    """Return the CPUs in a file with a CPU list."""
    return parsed(root, path, cpulist.parse_cpu_list)


def integer(
    root: Root, path: str, minimum: int = 0, maximum: int = MAX_INT
) -> int | Unknown:
    """Return the number in a file."""
    return parsed(
        root,
        path,
        lambda text: numbers.parse_int(text, "number", minimum, maximum),
    )


def switch(root: Root, path: str) -> bool | Unknown:
    """Return whether a file with 0 or 1 has 1."""
    value = integer(root, path, 0, 1)
    return value if isinstance(value, Unknown) else bool(value)


def link_name(root: Root, path: str) -> str | None | Unknown:
    """Return the name of a link's target; None if there is no link.

    sysfs names a device's driver, bus and IOMMU group this way.
    """
    target = root.read_link(path)
    if target is None or isinstance(target, Unknown):
        return target
    return posixpath.basename(target)
