# SPDX-License-Identifier: Apache-2.0

"""How long a program takes to start, beside bare Python."""

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.benchmarks.measure import best
from tests.benchmarks.measure import children_s
from tests.benchmarks.measure import row

#: Commands that something waits for. Each is refused an argument once all
#: that it imports before its work is there.
PROGRAMS = (
    ("vif", "plug", "--vlan", "x"),
    ("vif", "unplug"),
    ("onload", "lxc-hook", "--init"),
    ("guest", "render", "--facts"),
)

#: Seconds within which a hook's program has started.
HOOK_S = 0.05


def run() -> list[dict[str, Any]]:
    """Return the rows: elapsed times, and the CPU time of each."""
    script = pathlib.Path(sys.executable).parent / "sriov-rt"
    command = (
        (sys.executable, "-I", str(script))
        if script.exists()
        else (sys.executable, "-m", "sriov_rt.cmd.main")
    )
    subjects = {
        "python3 -I -c pass": (sys.executable, "-I", "-c", "pass"),
        "sriov-rt --help": (*command, "--help"),
        **{
            f"sriov-rt {' '.join(words[:2])}": (*command, *words)
            for words in PROGRAMS
        },
    }
    starts = [_starter(words) for words in subjects.values()]
    elapsed = best(*starts)
    targets = {"python3 -I -c pass": None, "sriov-rt --help": 0.3}
    return [
        found
        for name, start, seconds in zip(subjects, starts, elapsed, strict=True)
        for found in (
            row(name, seconds, "s", target=targets.get(name, HOOK_S)),
            row("  CPU time", min(children_s(start) for _ in range(5)), "s"),
        )
    ]


def _starter(command: tuple[str, ...]) -> Callable[[], None]:
    def start() -> None:
        subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    return start
