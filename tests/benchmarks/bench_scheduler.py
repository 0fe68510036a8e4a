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

"""What Nova's scheduler manager takes to sort hosts, without us and with us.

Nova asks Placement and its database beside, which takes the same time in
both: the ratio of a whole ``select_destinations`` is nearer to 1 than this.
"""

import copy
from collections.abc import Callable
from typing import Any
from unittest import mock

import nova.conf
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.servicegroup import api as servicegroup

from sriov_rt.scheduler import options
from sriov_rt.scheduler import worker
from tests.benchmarks import bench_filter
from tests.benchmarks import topology
from tests.benchmarks.measure import best
from tests.benchmarks.measure import row

HOSTS = 1_000

#: A request takes seconds.
TURNS = 3

#: What the documentation has Nova load, the filters that Nova has by default
#: first.
FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
)

#: A ratio of 1.1 at most is what nobody feels.
TARGET = 1.1

#: One that says nothing to us.
ORDINARY = {"hw:cpu_policy": "dedicated"}


def run() -> list[dict[str, Any]]:
    """Return the rows."""
    objects.register_all()
    options.register(nova.conf.CONF)
    bench = bench_filter.Bench(HOSTS)
    for state in bench.states:
        _dress(state)
    without, with_us = _manager(with_us=False), _manager(with_us=True)
    rows = []
    with (
        mock.patch.object(worker, "of_this_process", lambda: bench.worker),
        mock.patch.object(bench.worker, "start"),
        mock.patch.object(bench.worker, "_began", 0.0),
        mock.patch.object(servicegroup.API, "service_is_up", lambda *_: True),
    ):
        for name, extra_specs in (
            ("a realtime flavor", bench_filter.ASKED),
            ("an ordinary flavor", ORDINARY),
        ):
            spec = topology.request(extra_specs)
            for field in ("ignore_hosts", "force_hosts", "force_nodes"):
                setattr(spec, field, None)
            spec.requested_destination = spec.instance_group = None
            peer, ours = (
                _sorting(each, bench.states, spec)
                for each in (without, with_us)
            )
            assert len(ours()) == len(peer()) == HOSTS
            peer_s, ours_s = best(peer, ours, turns=TURNS)
            rows.append(
                row(
                    f"{name}, {HOSTS:,} hosts sorted / Nova alone",
                    ours_s * 1e3,
                    "ms",
                    peer=peer_s * 1e3,
                    target=TARGET,
                )
            )
    return rows


def _dress(state: Any) -> None:
    """Give a host what Nova's own filters and weighers look at."""
    state.service = {"disabled": False}
    state.numa_topology = topology.host()
    state.allocation_candidates = [{"mappings": {}}]
    state.ram_allocation_ratio = state.cpu_allocation_ratio = 1.0
    state.total_usable_ram_mb = state.free_ram_mb = 65536
    state.vcpus_total = 64


def _manager(*, with_us: bool) -> Any:
    """Return Nova's scheduler manager, without or with our filter."""
    available = ["nova.scheduler.filters.all_filters"]
    weighers = ["nova.scheduler.weights.all_weighers"]
    enabled = list(FILTERS)
    if with_us:
        available.append("sriov_rt.nova.filters.all_filters")
        weighers.append("sriov_rt.nova.weights.all_weighers")
        enabled.append("RealtimeSriovFilter")
    for name, value in (
        ("available_filters", available),
        ("enabled_filters", enabled),
        ("weight_classes", weighers),
    ):
        nova.conf.CONF.set_override(name, value, "filter_scheduler")
    # Without the database of aggregates and instances.
    with mock.patch.multiple(
        host_manager.HostManager,
        _init_aggregates=mock.Mock(),
        _init_instance_info=mock.Mock(),
        refresh_cells_caches=mock.Mock(),
    ):
        hosts = host_manager.HostManager()
    found = manager.SchedulerManager.__new__(manager.SchedulerManager)
    found.host_manager = hosts
    return found


def _sorting(
    scheduler: Any, states: list[Any], spec: Any
) -> Callable[[], list[Any]]:
    """Return what filters and weighs the hosts for a new request."""

    def sort() -> list[Any]:
        found: list[Any] = scheduler._get_sorted_hosts(
            copy.deepcopy(spec), list(states), 0
        )
        return found

    return sort
