# SPDX-License-Identifier: Apache-2.0

"""The host of ``bench_occupancy``, in a mount namespace of its own."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

from sriov_rt.facts import CpuSet
from sriov_rt.host import guest_processes
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.occupancy import Occupancy
from sriov_rt.host.root import Root
from tests.benchmarks.measure import best
from tests.unit import builders

GUESTS = 200
DAEMONS = 200
#: Threads of a guest, of which four are on pCPUs for guests, and of a daemon.
OF_GUEST, OF_DAEMON = 15, 10

#: Forks processes with so many threads, prints their numbers, and waits.
CROWD = r"""
import os, sys, threading
count, threads, pinned = map(int, sys.argv[1:4])
ready, done = os.pipe()
threading.stack_size(65536)
cpus = sorted(os.sched_getaffinity(0))
def work(number, there):
    os.sched_setaffinity(0, {cpus[-1] if number < pinned else cpus[0]})
    there.wait()
    threading.Event().wait()
for _ in range(count):
    if os.fork() == 0:
        os.sched_setaffinity(0, {cpus[0]})
        there = threading.Barrier(threads)
        for number in range(threads - 1):
            threading.Thread(target=work, args=(number, there)).start()
        there.wait()
        os.write(done, b"%d\n" % os.getpid())
        threading.Event().wait()
os.close(done)
got = b""
while got.count(b"\n") < count:
    got += os.read(ready, 65536)
print(*got.decode().split(), flush=True)
sys.stdin.read()
os.killpg(0, 9)
"""


def _crowd(*numbers: int, names: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CROWD, *map(str, numbers), names],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def _started(crowd: subprocess.Popen[bytes]) -> list[bytes]:
    """Return the process ids that a crowd prints once it is there."""
    assert crowd.stdout is not None
    return crowd.stdout.readline().split()


def main() -> None:
    """Print the seconds of an observation with and without occupancy."""
    names = [f"g{number}" for number in range(GUESTS)]
    crowds = [
        _crowd(GUESTS, OF_GUEST, 4, names=" ".join(names)),
        _crowd(DAEMONS, OF_DAEMON, 0),
    ]
    try:
        guests, daemons = map(_started, crowds)
        subprocess.run(("mount", "-t", "tmpfs", "none", "/run"), check=True)
        place = pathlib.Path("/", guest_processes.MACHINES)
        place.mkdir(parents=True)
        for name, pid in zip(names, guests, strict=True):
            text = f"<domstatus state='running' pid='{pid.decode()}'>"
            (place / f"{name}.xml").write_text(text + "x" * 20_000)
        threads = len(guests) * OF_GUEST + len(daemons) * OF_DAEMON
        print(json.dumps({"threads": threads, **_measure()}))
    finally:
        for each in crowds:
            each.communicate()


def _measure() -> dict[str, float]:
    found = builders.realtime_host()
    online = sorted(os.sched_getaffinity(0))
    last = CpuSet(online[-1:])
    sources = {
        **load_sources(),
        "cpus": lambda root: dataclasses.replace(
            found.cpus, online=CpuSet(online), isolated=last
        ),
        "compute": lambda root: dataclasses.replace(
            found.compute, dedicated=last
        ),
    }
    root = Root()
    observers = [
        Observer(root, "h", "h", sources, occupancy=each)
        for each in (Occupancy(root), None)
    ]
    seen = observers[0].observe().occupancy
    assert isinstance(seen.occupants, tuple), seen
    assert seen.unread == 0, seen
    assert "python" not in {
        each.process for each in seen.occupants if each.state == "pinned"
    }, seen
    ours, before = best(
        *(each.observe for each in observers), clock=time.process_time
    )
    return {"with": ours, "without": before}


if __name__ == "__main__":
    main()
