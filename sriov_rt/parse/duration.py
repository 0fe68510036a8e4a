# SPDX-License-Identifier: Apache-2.0

"""Spans of time such as ``90``, ``15m`` and ``12h``, in seconds."""

import re
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.parse import numbers

#: Seconds of each unit, the largest first.
UNITS: Mapping[str, int] = {"d": 86400, "h": 3600, "m": 60, "s": 1}

#: The longest span: a year.
MAX_S = 366 * 86400

_FORM = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)


def parse_duration(text: str) -> int:
    """Return the seconds of a whole number and a unit; seconds without one.

    :raises ParseError: if it is not a span from 1 s to a year.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise errors.ParseError(
            "duration", text, "a number and s, m, h or d expected, such as 15m"
        )
    seconds = numbers.parse_int(found[1], "duration", 0, 10**9)
    seconds *= UNITS[found[2] or "s"]
    if not 1 <= seconds <= MAX_S:
        raise errors.ParseError("duration", text, "1s to 366d expected")
    return seconds


def format_duration(seconds: int) -> str:
    """Return a span in its two largest units, such as ``1h5m``."""
    parts = []
    for unit, size in UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
