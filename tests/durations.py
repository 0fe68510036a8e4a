# SPDX-License-Identifier: Apache-2.0

"""How long runs took on this machine: what ``tools/test --list`` prints."""

import datetime
import json
import pathlib
from typing import Any

from tests.testbed import paths


def _path() -> pathlib.Path:
    return paths.Paths.from_environment().cache / "durations.json"


def _read() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(_path().read_text())
    except (FileNotFoundError, ValueError):
        # Two runs that end at once may lose or spoil this mere information.
        return {}
    return found


def keep(name: str, seconds: float, *, failed: int) -> None:
    """Keep how long a run took.

    :param name: name of the run.
    :param failed: number of its tests that failed.
    """
    found = _read()
    now = datetime.datetime.now(datetime.UTC)
    found[name] = {
        "seconds": round(seconds),
        "when": now.isoformat(timespec="minutes"),
        "failed": failed,
    }
    text = json.dumps(found, indent=1, sort_keys=True)
    _path().write_text(f"{text}\n")


def last(name: str) -> str:
    """Return how long a run took the last time, as text."""
    found = _read().get(name)
    if found is None:
        return "never run here"
    minutes = found["seconds"] / 60
    how = f", {found['failed']} failed" if found["failed"] else ""
    return f"{minutes:.1f} min on {found['when'][:10]}{how}"
