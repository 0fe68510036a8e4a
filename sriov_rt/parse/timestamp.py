# SPDX-License-Identifier: Apache-2.0

"""Times as shown to people and as typed by them."""

import datetime
import time

from sriov_rt.parse import errors


def text(at: float) -> str:
    """Return a Unix time to the minute, such as ``2026-11-28 20:15 UTC``.

    A number that is not a valid time is returned as it is: it may come from
    any host.
    """
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    except (OverflowError, OSError, ValueError):
        return str(at)


def parse(typed: str) -> float:
    """Return the Unix time in seconds of a time in ISO 8601.

    A time without a time zone is in UTC, as is every printed time.

    :raises ParseError: if it is not a time.
    """
    try:
        found = datetime.datetime.fromisoformat(typed.removesuffix(" UTC"))
    except ValueError:
        raise errors.ParseError(
            "time", typed, "ISO 8601 expected, such as 2026-12-01T06:00"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return found.timestamp()
