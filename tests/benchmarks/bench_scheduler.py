# SPDX-License-Identifier: Apache-2.0

"""Nova's select_destinations, without us and with us.

It runs in Nova's own scheduler manager. Placement and the database, which
take the same time in both, answer at once: with them the ratio is nearer to 1.
"""

import functools
import time
from typing import Any
from unittest import mock

import nova.conf
from nova import objects

from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.benchmarks import bench_filter
from tests.benchmarks import nova_scheduler
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row

#: Hosts, and turns of each request: one takes seconds.
SIZES = {100: 9, 1_000: 3, 10_000: 2}

#: A ratio of 1.1 at most is what nobody feels.
TARGET = 1.1

#: Of them the last two say nothing to us, and the last is fitted to no NUMA
#: cell: Nova itself takes least for it.
FLAVORS = {
    "a realtime flavor": bench_filter.REQUESTED,
    "a flavor with dedicated CPUs": {"hw:cpu_policy": "dedicated"},
    "a flavor without extra specs": {},
}


def run(sizes: dict[int, int] = SIZES) -> list[dict[str, Any]]:
    """Return the rows.

    :param sizes: turns of a request, by the number of hosts.
    """
    objects.register_all()
    options.register(nova.conf.CONF)
    rows = []
    for number, turns in sizes.items():
        rows += _rows(number, turns)
    return rows


def _rows(number: int, turns: int) -> list[dict[str, Any]]:
    bench = bench_filter.Bench(number)
    names = [each.host for each in bench.states]
    without = nova_scheduler.Scheduler(names, with_us=False)
    with_us = nova_scheduler.Scheduler(names, with_us=True)
    rows = []
    with (
        nova_scheduler.alone(without, with_us),
        mock.patch.object(worker, "of_this_process", lambda: bench.worker),
        mock.patch.object(bench.worker, "start"),
        mock.patch.object(bench.worker, "_began", 0.0),
    ):
        for name, extra_specs in FLAVORS.items():
            spec = nova_scheduler.request(extra_specs)
            peer, ours = (
                functools.partial(each.select, spec)
                for each in (without, with_us)
            )
            # All pass: the ratio of what the later filters spare is no merit.
            assert len(ours()) == len(peer()) == 3
            peer_s, ours_s = best(
                peer, ours, turns=turns, clock=time.thread_time
            )
            rows.append(
                row(
                    f"select of {number:,}, {name} / Nova",
                    ours_s * 1e3,
                    "ms",
                    peer=peer_s * 1e3,
                    target=TARGET,
                )
            )
    return rows
