# SPDX-License-Identifier: Apache-2.0

"""The filter, through Nova's own handler over real HostState objects."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any
from unittest import mock

from nova import objects
from nova.scheduler import filters
from nova.scheduler import host_manager
from nova.scheduler.filters import numa_topology_filter
from oslo_config import cfg

from sriov_rt.nova.filters import RealtimeSriovFilter
from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.benchmarks import hosts
from tests.benchmarks import topology
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row
from tests.unit import builders

SIZES = (100, 1_000, 10_000)

#: NUMATopologyFilter takes some milliseconds a host.
NUMA_HOSTS = 50

BUILDS = 4

#: How long the worker has run, seconds.
_UPTIME_S = 86400.0

NETWORK = "3cb9bc59-5699-4588-a4b1-b87f96708bc6"

REQUESTED = {
    "sriov_rt:realtime": "required",
    "sriov_rt:kernel": "preempt_rt",
    "sriov_rt:nic": "intel",
    "sriov_rt:vif": "vf",
    "sriov_rt:node_selector": "rack!=r0,cpu-cpuid.F7=true",
    "sriov_rt:max_latency_us": "50",
    "hw:cpu_policy": "dedicated",
}


class DoNothingFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Passes every host: what Nova's loop alone costs."""

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """Return True."""
        return True


class Bench:
    """Hosts, their facts in a table, and a request.

    :param number: of hosts.
    :param failing: every second build has KSM on.
    """

    def __init__(self, number: int, *, failing: bool = False) -> None:
        # Facts do not age, as where agents confirm them: a benchmark may take
        # longer than facts_max_age.
        self.worker = worker.Worker(cfg.CONF, monotonic=lambda: _UPTIME_S)
        self.states = []
        for n in range(number):
            name = f"compute-{n:05d}.example.org"
            facts = hosts.host(name, build=n % BUILDS, own=n + 1)
            if failing and n % 2:
                facts = _spoilt(facts)
            self.worker.table.put(name, "00" * 32, facts)
            self.states.append(host_manager.HostState(name, name, "cell"))
        self.spec = topology.request(REQUESTED)

    def run(self, filter_: Any) -> Callable[[], list[Any]]:
        """Return what takes all hosts through a filter."""
        handler = filters.HostFilterHandler()
        return lambda: handler.get_filtered_objects(
            [filter_], self.states, self.spec
        )

    def forget(self) -> None:
        """Drop all verdicts: the next request is the first one."""
        self.worker.verdicts._kept.cache_clear()  # noqa: SLF001


def _spoilt(facts: Any) -> Any:
    memory = dataclasses.replace(facts.memory, ksm_run=1)
    return dataclasses.replace(facts, memory=memory)


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    objects.register_all()
    options.register(cfg.CONF)
    rows = []
    for number in SIZES:
        rows += _passing(number)
        rows += _first(number)
    rows += _with_reasons(SIZES[1])
    rows += _onload(SIZES[-1])
    rows += _numa()
    return rows


def _timed(bench: Bench, *subjects: Callable[[], Any]) -> list[float]:
    # No queue: a worker that was started long ago, and waits for nothing.
    with (
        mock.patch.object(worker, "of_this_process", lambda: bench.worker),
        mock.patch.object(bench.worker, "start"),
        mock.patch.object(bench.worker, "_began", 0.0),
    ):
        return best(*subjects)


def _passing(number: int) -> list[dict[str, Any]]:
    bench = Bench(number)
    ours, peer = bench.run(RealtimeSriovFilter()), bench.run(DoNothingFilter())
    times = _timed(bench, ours, peer)
    assert _timed_length(bench, ours) == number
    return [
        row(
            f"filter, {number:,} hosts / do-nothing",
            times[0] * 1e3,
            "ms",
            peer=times[1] * 1e3,
        )
    ]


def _timed_length(bench: Bench, subject: Callable[[], list[Any]]) -> int:
    found: list[int] = []
    _timed(bench, lambda: found.append(len(subject())))
    return found[0]


def _with_reasons(number: int) -> list[dict[str, Any]]:
    bench = Bench(number, failing=True)
    logger = logging.getLogger("sriov_rt.nova.filters")
    sink = _Sink()
    logger.addHandler(sink)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        ours = bench.run(RealtimeSriovFilter())
        peer = bench.run(DoNothingFilter())
        assert _timed_length(bench, ours) == number // 2
        times = _timed(bench, ours, peer)
    finally:
        logger.removeHandler(sink)
        logger.setLevel(level)
        logger.propagate = propagate
    assert sink.characters
    return [
        row(
            f"filter, {number:,} hosts, all Reasons logged / do-nothing",
            times[0] * 1e3,
            "ms",
            peer=times[1] * 1e3,
        )
    ]


class _Sink(logging.Handler):
    """Formats each line, as a log file would have it, and drops it."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count the line."""
        self.characters += len(self.format(record))


def _first(number: int) -> list[dict[str, Any]]:
    bench = Bench(number)
    ours, peer = bench.run(RealtimeSriovFilter()), bench.run(DoNothingFilter())

    def first() -> None:
        bench.forget()
        ours()

    times = _timed(bench, first, peer)
    return [
        row(
            f"filter, {number:,} hosts, first request / do-nothing",
            times[0] * 1e3,
            "ms",
            peer=times[1] * 1e3,
        )
    ]


def _onload(number: int) -> list[dict[str, Any]]:
    bench = Bench(number)
    bench.spec = topology.request({"sriov_rt:onload": "required"})
    bench.spec.instance_uuid = "6a7a3c1e-4b0d-4f0e-9d4c-111111111111"
    bench.spec.requested_networks = objects.NetworkRequestList(
        objects=[objects.NetworkRequest(network_id=NETWORK)]
    )
    bench.spec.network_metadata = objects.NetworkMetadata(
        physnets={"fast"}, tunneled=False
    )
    for n, state in enumerate(bench.states):
        # Every second host has the network already, the others another one.
        own = builders.endpoint(NETWORK if n % 2 else "other", "eth1", f"{n}")
        facts = builders.onload_host(state.host, own)
        bench.worker.table.put(state.host, "00" * 32, facts)
    ours, peer = bench.run(RealtimeSriovFilter()), bench.run(DoNothingFilter())
    times = _timed(bench, ours, peer)
    assert _timed_length(bench, ours) == number // 2
    return [
        row(
            f"filter, {number:,} hosts, Onload on one network / do-nothing",
            times[0] * 1e3,
            "ms",
            peer=times[1] * 1e3,
        )
    ]


def _numa() -> list[dict[str, Any]]:
    bench = Bench(NUMA_HOSTS)
    for state in bench.states:
        state.numa_topology = topology.host()
        state.allocation_candidates = [{"mappings": {}}]
        state.ram_allocation_ratio = state.cpu_allocation_ratio = 1.0
    theirs = bench.run(numa_topology_filter.NUMATopologyFilter())
    assert len(theirs()) == NUMA_HOSTS
    ours, peer = _timed(bench, bench.run(RealtimeSriovFilter()), theirs)
    return [
        row(
            f"filter, {NUMA_HOSTS} hosts, a host / NUMATopologyFilter",
            ours / NUMA_HOSTS * 1e6,
            "µs",
            peer=peer / NUMA_HOSTS * 1e6,
        )
    ]
