# SPDX-License-Identifier: Apache-2.0

"""Ports plugged and unplugged, beside who else does it.

All are macvlans on one veth in the benchmark's own namespaces, each port in
a namespace of its own; several at once are as many threads. How often ports
are plugged and unplugged in search of what grows, ``SRIOV_RT_CYCLES`` says.
"""

import gc
import os
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.links import Links
from tests.benchmarks import vif_peers
from tests.benchmarks.crew import Crew
from tests.benchmarks.measure import children_s
from tests.benchmarks.measure import row
from tests.benchmarks.vif_host import PARENT
from tests.benchmarks.vif_host import PORTS
from tests.benchmarks.vif_host import Host
from tests.benchmarks.vif_host import namespace
from tests.benchmarks.vif_host import want
from tests.testbed import isolation
from tests.testbed import packages
from tests.testbed.paths import Paths

#: How many at once, and how often; the best counts, of everybody. With ten
#: it is the threads' turns that differ, by a third from one try to the next.
AT_ONCE = {1: 60, 10: 60, PORTS: 5}

#: How many ports there are when one more is plugged, and how often that is
#: done; the best counts, and CNI's in between.
EXISTING = (1, 100, 500)
TRIES = 10

#: Who else does it.
PEERS: Mapping[str, str] = {
    "pyroute": "its netlink calls by pyroute2",
    "cni": "CNI's macvlan",
    "ip": "ip(8)",
}

#: Processes that plug, one after the other, and how long one may take: each
#: start of an LXC container waits for it.
PROCESSES = 9
PROCESS_MS = 150.0

#: What such a process cannot do without.
FLOOR = "import oslo_config.cfg, pyroute2"

#: Plugs that are interrupted, and the seconds to recover from that.
INTERRUPTED = 64
RECOVERY_S = 1.0

#: 10,000 take minutes, for each unplug waits for an RCU grace period.
WARM_UP = 300
BATCH = 100
CYCLES = int(os.environ.get("SRIOV_RT_CYCLES", "1000"))
THREADS = 8

#: How far the memory may have grown, MB: less than 1 kB a cycle of 10,000.
GROWTH_MB = 8.0

_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Killed(BaseException):
    """Stands for SIGKILL: nobody catches it."""


class _Mortal(Links):
    """Links that kill who has just made one."""

    def create(self, what: Subinterface) -> Link:
        super().create(what)
        raise _Killed


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    place = Paths.from_environment()
    place.make()
    packages.install(vif_peers.PACKAGES, place.log / "apt.log")
    # What is measured leaves the namespaces of the process to itself.
    with (
        tempfile.TemporaryDirectory(dir=place.state) as directory,
        futures.ThreadPoolExecutor(1) as pool,
    ):
        return pool.submit(_run, pathlib.Path(directory)).result()


def _run(directory: pathlib.Path) -> list[dict[str, Any]]:
    isolation.leave()
    # As /run is, where the records are by default.
    isolation.sh("mount", "-t", "tmpfs", "tmpfs", str(directory))
    host = Host(directory / "records")
    rows = []
    for count in AT_ONCE:
        rows += _beside(host, count)
    rows += _among(host)
    rows += _process(host)
    rows.append(_recovery(host))
    rows += _growth(host)
    return rows


def _beside(host: Host, count: int) -> list[dict[str, Any]]:
    numbers = range(count)
    # pyroute2's sockets are told of each link of a namespace: they are
    # closed before anybody else makes one.
    with vif_peers.Pyroute(PARENT, numbers, namespace) as pyroute:
        best = _best(
            host,
            count,
            {"pyroute": (pyroute.add, pyroute.delete)},
            lambda verb: _in_turn(verb, count),
        )
    # What is asked for is there before the clock runs, as with the rest.
    wanted = [want(number) for number in numbers]
    with Crew(count) as crew:
        subjects = {
            "ours": (lambda n: host.plugger.plug(wanted[n]), host.unplug),
            "ip": (_ip_add, _ip_delete),
            "cni": (_cni("ADD"), _cni("DEL")),
        }
        best |= _best(host, count, subjects, crew.seconds)
    rows = []
    for which, what in enumerate(("plug", "unplug")):
        ours = best["ours"][which] * 1e3
        for peer, name in PEERS.items():
            rows.append(
                row(
                    f"{what}, {count} at once / {name}",
                    ours,
                    "ms",
                    peer=best[peer][which] * 1e3,
                )
            )
    return rows


def _best(
    host: Host,
    count: int,
    subjects: Mapping[str, Sequence[Callable[[int], Any]]],
    seconds: Callable[[Callable[[int], Any]], float],
) -> dict[str, list[float]]:
    """Return the fewest seconds that each verb of each subject took.

    :param seconds: tells how long a verb takes for as many as there are.
    """
    best = {name: [float("inf")] * len(subjects[name]) for name in subjects}
    for _ in range(AT_ONCE[count]):
        for name, verbs in subjects.items():
            for which, verb in enumerate(verbs):
                best[name][which] = min(best[name][which], seconds(verb))
    return best


def _among(host: Host) -> list[dict[str, Any]]:
    """Plug one more port where there are many, and CNI as well."""
    rows = []
    there = 0
    for count in EXISTING:
        for number in range(there, count):
            host.plug(number)
        there = count
        subjects = {
            "ours": (host.plug, host.unplug),
            "cni": (_cni("ADD"), _cni("DEL")),
        }
        best = {name: [float("inf")] * 2 for name in subjects}
        for _ in range(TRIES):
            for name, verbs in subjects.items():
                for which, verb in enumerate(verbs):
                    began = time.perf_counter()
                    verb(count)
                    took = time.perf_counter() - began
                    best[name][which] = min(best[name][which], took)
        for which, what in enumerate(("plug", "unplug")):
            rows.append(
                row(
                    f"{what} beside {count} ports / CNI's macvlan",
                    best["ours"][which] * 1e3,
                    "ms",
                    peer=best["cni"][which] * 1e3,
                )
            )
    for number in range(there):
        host.unplug(number)
    return rows


def _ip_add(number: int) -> None:
    vif_peers.ip_add(PARENT, number, namespace(number))


def _ip_delete(number: int) -> None:
    vif_peers.ip_delete(number, namespace(number))


def _cni(command: str) -> Callable[[int], None]:
    return lambda number: vif_peers.cni(
        command, PARENT, number, namespace(number)
    )


def _in_turn(verb: Callable[[int], Any], count: int) -> float:
    """Return the seconds that each took, one after the other."""
    began = time.perf_counter()
    for number in range(count):
        verb(number)
    return (time.perf_counter() - began) / count


def _process(host: Host) -> list[dict[str, Any]]:
    """Plug by a process, as each start of an LXC container does."""
    config = host.directory.with_name("sriov-rt.conf")
    config.write_text(
        f"[vif]\nparents = physnet1:{PARENT}\nrecords = {host.directory}\n"
    )
    script = pathlib.Path(sys.executable).with_name("sriov-rt")
    options = (
        f"--config-file={config}",
        f"--port={want(0).port}",
        "--owner=bench",
        "--kind=macvlan",
        "--network=physnet1",
        f"--namespace={namespace(0)}",
        "--json",
    )
    took = []
    used: dict[str, list[float]] = {"ours": [], "floor": [], "cni": []}
    for _ in range(PROCESSES):
        began = time.perf_counter()
        used["ours"].append(
            children_s(
                lambda: isolation.sh(str(script), "vif", "plug", *options)
            )
        )
        took.append(time.perf_counter() - began)
        host.unplug(0)
        used["floor"].append(
            children_s(lambda: isolation.sh(sys.executable, "-c", FLOOR))
        )
        used["cni"].append(children_s(lambda: _cni("ADD")(0)))
        _cni("DEL")(0)
    ours, floor, cni = (min(used[name]) * 1e3 for name in used)
    return [
        row(
            "sriov-rt vif plug, a process",
            min(took) * 1e3,
            "ms",
            target=PROCESS_MS,
        ),
        row(
            "  its CPU time / to import pyroute2 and oslo.config",
            ours,
            "ms",
            peer=floor,
        ),
        row("  its CPU time / CNI's macvlan", ours, "ms", peer=cni),
    ]


def _recovery(host: Host) -> dict[str, Any]:
    mortal = host.make(_Mortal())
    for number in range(INTERRUPTED):
        try:
            mortal.plug(want(number))
        except _Killed:
            continue
        raise AssertionError("it has not been interrupted")
    again = host.make(Links())
    began = time.perf_counter()
    again.recover()
    took = time.perf_counter() - began
    left = [each for each in host.all() if each.alias]
    assert not left, left
    return row(
        f"recovery of {INTERRUPTED} interrupted plugs",
        took,
        "s",
        target=RECOVERY_S,
    )


def _growth(host: Host) -> list[dict[str, Any]]:
    def cycles(numbers: Sequence[int]) -> None:
        # A future takes 2 kB until it is collected: not all at once.
        with futures.ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(numbers), BATCH):
                some = numbers[start : start + BATCH]
                for _ in pool.map(lambda n: _cycle(host, n), some):
                    pass

    # Long enough for the caches of what was parsed to be full.
    cycles(range(WARM_UP))
    before = _held(host)
    began = time.perf_counter()
    cycles(range(CYCLES))
    took = time.perf_counter() - began
    after = _held(host)
    rows = [row(f"{CYCLES:,} plugs and unplugs", took, "s")]
    for what, limit in (
        ("descriptors", 0),
        ("threads", 0),
        ("namespaces", 0),
        ("links", 0),
        ("files of the records", 0),
        ("memory in MB", GROWTH_MB),
    ):
        grown = after[what] - before[what]
        rows.append(row(f"  {what} more than before", grown, "", target=limit))
    return rows


def _cycle(host: Host, number: int) -> None:
    host.plug(number)
    host.unplug(number)


def _held(host: Host) -> dict[str, float]:
    gc.collect()
    links = host.all()
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return {
        "descriptors": _count("/proc/self/fd"),
        "threads": threading.active_count(),
        "namespaces": len({each.namespace for each in links}),
        "links": len(links),
        "files of the records": _count(host.directory),
        "memory in MB": int(fields[1]) * _PAGE / 1e6,
    }


def _count(directory: pathlib.Path | str) -> int:
    return len(list(pathlib.Path(directory).iterdir()))
