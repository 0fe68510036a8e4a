# SPDX-License-Identifier: Apache-2.0

"""Maintenance of the host: its hold, and what maintenance changes.

The hold is a file of root's on disk: it outlives the agent and the boot. One
that ends by itself does so by this host's clock.
"""

import dataclasses
import os
import stat
import time
from typing import TypeVar

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostHold
from sriov_rt.facts import MaintenanceFacts
from sriov_rt.host import conditions
from sriov_rt.host.root import BOOT_ID
from sriov_rt.host.root import Root

T = TypeVar("T")

#: In the directory of the certificate, which is root's.
PATH = "var/lib/sriov-rt-verify/hold.json"

SCHEMA_VERSION = 1

#: The boot that 'host apply' owes; its own record is for root alone.
BOOT_OWED = "run/sriov-rt/boot-owed.json"

#: The longest file, in bytes.
MAX_FILE = 16 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class BootOwed:
    """A boot that is owed.

    :param boot: the kernel's name of the one that it ends.
    :param what: what it changes, a clause.
    :param codes: of the Reasons that it ends.
    """

    boot: str
    what: str
    codes: tuple[str, ...] = ()


def observe(root: Root) -> MaintenanceFacts:
    """Return the hold that stands, and what kernel and tuned say."""
    found = read(root)
    if isinstance(found, HostHold) and has_ended(found, time.time()):
        found = None
    owed = boot_owed(root)
    return MaintenanceFacts(
        found,
        _text(root, "microcode"),
        _text(root, "tuned profile"),
        owed.what if isinstance(owed, BootOwed) else owed or "",
    )


def boot_owed(root: Root) -> BootOwed | None | Unknown:
    """Return which boot is owed; None for none."""
    found = _document(root, BOOT_OWED, BootOwed)
    if isinstance(found, BootOwed) and found.boot != boot_of(root):
        return None
    return found


def boot_of(root: Root) -> str:
    """Return the kernel's name of its boot; empty if it is unknown."""
    found = root.read_text(BOOT_ID)
    return "" if isinstance(found, Unknown) else found.strip()


def has_ended(found: HostHold, now: float) -> bool:
    """Return whether a hold has ended by itself.

    :param now: Unix time, seconds.
    """
    return found.until is not None and found.until <= now


def read(root: Root) -> HostHold | None | Unknown:
    """Return the hold on disk, whether it has ended or not.

    One that cannot be read is unknown, which keeps realtime guests off.
    """
    return _document(root, PATH, HostHold)


def _document(root: Root, path: str, cls: type[T]) -> T | None | Unknown:
    """Return a document that only root may have written; None without one."""
    source = root.open_file(path)
    if isinstance(source, Unknown):
        return None if root.exists(path) is False else source
    with source:
        status = os.fstat(source.fileno())
        if status.st_uid != root.path.stat().st_uid or (
            status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        ):
            return Unknown(f"/{path}: others than root may write it")
        try:
            data = source.read(MAX_FILE + 1) or b""
            return documents.load(cls, data, MAX_FILE, SCHEMA_VERSION)
        except (OSError, codec.SchemaError) as error:
            return Unknown(f"/{path}: {error}")


def _text(root: Root, condition: str) -> str | None | Unknown:
    """Return a condition of the certificate; None where there is none."""
    path = conditions.FILES[condition]
    found = root.read_text(path, may_be_empty=True)
    if isinstance(found, Unknown):
        return None if root.exists(path) is False else found
    return found.strip() or None
