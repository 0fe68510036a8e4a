# SPDX-License-Identifier: Apache-2.0

"""A cloud of many hosts; see :mod:`tests.benchmarks.scale`.

``SRIOV_RT_SCALE`` names the numbers of hosts, "100 1000" by default.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from tests.benchmarks.measure import row

#: The scheduler's default [sriov_rt] warmup_timeout, and the agents'
#: observe_interval with some time for the way: seconds until each worker
#: knows all hosts.
TARGETS = {"cold": 10.0, "another": 10.0, "change": 12.0}


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    sizes = os.environ.get("SRIOV_RT_SCALE", "100 1000").split()
    with tempfile.TemporaryDirectory() as directory:
        output = pathlib.Path(directory, "scale.json")
        subprocess.run(
            (
                *(sys.executable, "-m", "tests.benchmarks.scale"),
                *("--hosts", *sizes, "--output", str(output)),
            ),
            check=True,
            stdin=subprocess.DEVNULL,
        )
        found = json.loads(output.read_text())
    rows = []
    for each in found:
        name = f"{each['hosts']:,} hosts, {each['scenario']}"
        cpu_s = max(worker["cpu_s"] for worker in each["workers"])
        share = 100 * cpu_s / each["elapsed_s"]
        rows.append(row(f"{name}: CPU of a worker", share, "%"))
        if target := TARGETS.get(each["scenario"]):
            rows.append(
                row(
                    f"{name}: all known after",
                    each["seconds"],
                    "s",
                    target=target,
                )
            )
    return rows
