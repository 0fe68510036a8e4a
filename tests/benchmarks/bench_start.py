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

"""How long a command takes to start."""

import pathlib
import subprocess
import sys
from typing import Any

from tests.benchmarks.measure import best
from tests.benchmarks.measure import row


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    script = pathlib.Path(sys.executable).parent / "sriov-rt"
    command = (
        (str(script),)
        if script.exists()
        else (sys.executable, "-m", "sriov_rt.cmd.main")
    )
    help_s, python_s = best(
        lambda: _start(*command, "--help"),
        lambda: _start(sys.executable, "-c", "pass"),
    )
    return [
        row("sriov-rt --help", help_s, "s", target=0.3),
        row("  of which Python itself", python_s, "s"),
    ]


def _start(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
