# SPDX-License-Identifier: Apache-2.0

"""Maintenance of the host: its hold, and what maintenance changes.

The hold is a file of root's on disk: it outlives the agent and the boot. One
that ends by itself does so by this host's clock.
"""

import os
import stat
import time

from sriov_rt import codec
from sriov_rt import documents
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostHold
from sriov_rt.facts import MaintenanceFacts
from sriov_rt.host import conditions
from sriov_rt.host.root import Root

#: In the directory of the certificate, which is root's.
PATH = "var/lib/sriov-rt-verify/hold.json"

SCHEMA_VERSION = 1

#: The longest file, in bytes.
MAX_FILE = 16 * 1024


def observe(root: Root) -> MaintenanceFacts:
    """Return the hold that stands, and what kernel and tuned say."""
    found = read(root)
    if isinstance(found, HostHold) and has_ended(found, time.time()):
        found = None
    return MaintenanceFacts(
        found, _text(root, "microcode"), _text(root, "tuned profile")
    )


def has_ended(found: HostHold, now: float) -> bool:
    """Return whether a hold has ended by itself.

    :param now: Unix time, seconds.
    """
    return found.until is not None and found.until <= now


def read(root: Root) -> HostHold | None | Unknown:
    """Return the hold on disk, whether it has ended or not.

    One that cannot be read is unknown, which keeps realtime guests off.
    """
    source = root.open_file(PATH)
    if isinstance(source, Unknown):
        return None if root.exists(PATH) is False else source
    with source:
        status = os.fstat(source.fileno())
        if status.st_uid != root.path.stat().st_uid or (
            status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        ):
            return Unknown(f"/{PATH}: others than root may write it")
        try:
            data = source.read(MAX_FILE + 1) or b""
            return documents.load(HostHold, data, MAX_FILE, SCHEMA_VERSION)
        except (OSError, codec.SchemaError) as error:
            return Unknown(f"/{PATH}: {error}")


def _text(root: Root, condition: str) -> str | None | Unknown:
    """Return a condition of the certificate; None where there is none."""
    path = conditions.FILES[condition]
    found = root.read_text(path, may_be_empty=True)
    if isinstance(found, Unknown):
        return None if root.exists(path) is False else found
    return found.strip() or None
