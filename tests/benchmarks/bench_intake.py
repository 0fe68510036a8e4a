# SPDX-License-Identifier: Apache-2.0

"""Taking facts in, and the memory that they take."""

import gc
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.scheduler.listener import Endpoint
from tests.benchmarks import hosts
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row

HOSTS = 1_000
BUILDS = 4

#: Reports taken in at each turn.
REPORTS = 200

_PAGE = os.sysconf("SC_PAGE_SIZE")


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    return [*_intake(), _memory()]


def _intake() -> list[dict[str, Any]]:
    table = FactsTable(2 * HOSTS, 60.0)
    endpoint = Endpoint(table, lambda host: None)
    reports = []
    for n in range(REPORTS):
        facts = hosts.host(f"compute-{n}", build=n % BUILDS)
        document = json.dumps(facts.to_plain(), separators=(",", ":"))
        reports.append((facts.host, facts.node, facts.digest(), document))

    def take_in() -> None:
        for host, node, digest, document in reports:
            # Facts that are known already would not be decoded.
            table.forget(host)
            endpoint.facts({}, host, node, digest, document)

    def confirm() -> None:
        for host, node, digest, _ in reports:
            endpoint.heartbeat({}, host, node, digest)

    def decode() -> None:
        for _, _, _, document in reports:
            json.loads(document)

    full, beat, peer = best(take_in, confirm, decode)
    assert len(table) == REPORTS
    size = len(reports[0][3]) / 1000
    return [
        row(
            f"facts of {size:.0f} kB taken in / JSON decode alone",
            full / REPORTS * 1e6,
            "µs",
            peer=peer / REPORTS * 1e6,
        ),
        row("facts taken in", REPORTS / full, "1/s"),
        row("heartbeats taken in", REPORTS / beat, "1/s"),
    ]


def _memory() -> dict[str, Any]:
    done = subprocess.run(
        (sys.executable, "-m", "tests.benchmarks.bench_intake"),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return row(
        f"memory of the table for each of {HOSTS:,} hosts",
        float(done.stdout),
        "kB",
        target=20.0,
    )


def _fill() -> float:
    """Return by how much the process grew for each host, in kB."""
    table = FactsTable(2 * HOSTS, 60.0)
    endpoint = Endpoint(table, lambda host: None)
    _report(endpoint, 0)
    gc.collect()
    before = _resident()
    for n in range(1, HOSTS):
        _report(endpoint, n)
    gc.collect()
    assert len(table) == HOSTS
    return (_resident() - before) / 1e3 / (HOSTS - 1)


def _report(endpoint: Endpoint, n: int) -> None:
    name = f"compute-{n:05d}.example.org"
    facts = hosts.host(name, build=n % BUILDS, own=n)
    document = json.dumps(facts.to_plain(), separators=(",", ":"))
    endpoint.facts({}, name, name, facts.digest(), document)


def _resident() -> int:
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * _PAGE


if __name__ == "__main__":
    print(_fill())
