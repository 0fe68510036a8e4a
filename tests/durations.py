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
        # Two runs that end at once may lose or spoil what is only told.
        return {}
    return found


def keep(name: str, seconds: float, *, failed: int) -> None:
    """Keep how long a run took.

    :param name: of the run.
    :param failed: how many of its tests did.
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
    """Return how long a run took the last time, for people."""
    found = _read().get(name)
    if found is None:
        return "never run here"
    minutes = found["seconds"] / 60
    how = f", {found['failed']} failed" if found["failed"] else ""
    return f"{minutes:.1f} min on {found['when'][:10]}{how}"
