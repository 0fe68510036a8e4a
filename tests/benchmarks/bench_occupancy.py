# SPDX-License-Identifier: Apache-2.0

"""What one observation takes of a host with 200 guests and 5,000 threads.

They are real processes and threads, which sleep; half of the processes are
guests by the status files of a libvirt, in a mount namespace of their own. An
observation without occupancy is that of the version before.
"""

import json
import subprocess
import sys
from typing import Any

from tests.benchmarks.measure import row

#: Seconds from one observation to the next, [agent] observe_interval.
INTERVAL_S = 10.0

PERCENT = 1.0


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    found = json.loads(
        subprocess.run(
            (
                *("unshare", "--mount", "--propagation", "private"),
                *(sys.executable, "-m", "tests.benchmarks.inside.occupancy"),
            ),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    )
    share = found["with"] / INTERVAL_S * 100
    before = found["without"] / INTERVAL_S * 100
    name = f"observation of {found['threads']} threads"
    return [
        row(f"{name}, of one core", share, "%", target=PERCENT),
        row(f"{name} / the version before", share, "%", peer=before),
    ]
