# SPDX-License-Identifier: Apache-2.0

"""Maintenance of the host: its hold, and what maintenance changes.

The hold is a file on disk that only root writes: it outlives the agent and the
boot. A hold with an end follows this host's clock.
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

#: It is in the certificate's directory, which is root's.
PATH = "var/lib/sriov-rt-verify/hold.json"

SCHEMA_VERSION = 1

#: The reboot that 'host apply' needs; its own record is for root alone.
BOOT_OWED = "run/sriov-rt/boot-owed.json"

#: The longest file, in bytes.
MAX_FILE = 16 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class BootOwed:
    """A reboot that is owed.

    :param boot: id of the boot that it ends.
    :param what: what it changes, as a clause.
    :param codes: codes of the Reasons that it ends.
    """

    boot: str
    what: str
    codes: tuple[str, ...] = ()


def observe(root: Root) -> MaintenanceFacts:
    """Return the hold in force, and the state of microcode and tuned."""
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
    """Return the reboot that is owed; None if there is none."""
    found = _document(root, BOOT_OWED, BootOwed)
    if isinstance(found, BootOwed) and found.boot != boot_of(root):
        return None
    return found


def boot_of(root: Root) -> str:
    """Return the id of the host's boot; empty if it is unknown."""
    found = root.read_text(BOOT_ID)
    return "" if isinstance(found, Unknown) else found.strip()


def has_ended(found: HostHold, now: float) -> bool:
    """Return whether a hold has ended by itself.

    :param now: Unix time, seconds.
    """
    return found.until is not None and found.until <= now


def read(root: Root) -> HostHold | None | Unknown:
    """Return the hold on disk, whether it has ended or not.

    A hold that cannot be read is unknown, which keeps realtime guests off.
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
