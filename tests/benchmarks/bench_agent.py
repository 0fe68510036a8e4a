# SPDX-License-Identifier: Apache-2.0

"""What ``sriov-rt-agent`` takes of a host: CPU time and memory.

The agent runs as a process, with its default periods, over oslo.messaging's
driver for tests and without Placement: RabbitMQ's driver and the client of
Placement add some 5 MB.
"""

import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.measure import processor_s
from tests.benchmarks.measure import row

#: Seconds that are measured: six observations of the host.
SECONDS = 60.0

#: Seconds from the first report until what a start leaves to do is done.
SETTLE_S = 5.0

#: Seconds that the start may take on a busy machine.
START_S = 45.0

#: What nobody feels: of one core, and MB that are resident.
PERCENT = 1.0
MEGABYTES = 100.0

CONFIGURATION = """\
[DEFAULT]
host = bench-1
transport_url = fake://
[agent]
publish_traits = false
"""

#: What the agent logs once it has reported the host.
REPORTED = "facts changed: host=bench-1"


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    with _agent() as pid:
        time.sleep(SETTLE_S)
        before, began = processor_s(pid), time.monotonic()
        time.sleep(SECONDS)
        used = processor_s(pid) - before
        took = time.monotonic() - began
        resident = _memory_mb(pid, "Rss")
        proportional = _memory_mb(pid, "Pss")
    share = used / took * 100
    return [
        row("sriov-rt-agent, of one core", share, "%", target=PERCENT),
        row("sriov-rt-agent, resident", resident, "MB", target=MEGABYTES),
        row("  its part of what is shared counted", proportional, "MB"),
    ]


@contextlib.contextmanager
def _agent() -> Iterator[int]:
    """Run the agent; give its PID once it has reported the host."""
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        config, log = place / "sriov-rt.conf", place / "log"
        config.write_text(CONFIGURATION)
        with log.open("wb") as sink:
            agent = subprocess.Popen(
                (
                    *(sys.executable, "-m", "sriov_rt.cmd.agent"),
                    f"--config-file={config}",
                ),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + START_S
            while REPORTED not in (text := log.read_text()):
                assert agent.poll() is None, text
                assert time.monotonic() < deadline, text
                time.sleep(0.1)
            yield agent.pid
            assert agent.poll() is None, log.read_text()
        finally:
            agent.terminate()
            agent.wait(START_S)


def _memory_mb(pid: int, name: str) -> float:
    """Return what a process has in memory.

    :param name: a field of smaps_rollup: Rss or Pss.
    """
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(rf"^{name}: +([0-9]+) kB$", text, re.MULTILINE)
    assert found, text
    return int(found[1]) * 1024 / 1e6
