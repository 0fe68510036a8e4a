# SPDX-License-Identifier: Apache-2.0

"""Nova's scheduler manager over hosts in memory.

``select_destinations`` runs as Nova has it, with Nova's filters and weighers.
What it asks other services for is answered at once: Placement has one
candidate for each host and takes each claim, the database has the hosts.
"""

import contextlib
import copy
import types
import uuid
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from unittest import mock

import nova.conf
from nova import context
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.scheduler import request_filter
from nova.scheduler import utils
from nova.servicegroup import api as servicegroup

from tests.benchmarks import topology

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

CELL = "4f2c6a52-7c1c-4e0b-9a51-222222222222"
INSTANCE = "6a7a3c1e-4b0d-4f0e-9d4c-111111111111"


class Scheduler:
    """A scheduler manager, without or with sriov-rt.

    :param names: the hosts, by Nova's name of them.
    :param with_us: whether our filter and weighers are loaded.
    """

    def __init__(self, names: Sequence[str], *, with_us: bool) -> None:
        self._hosts = {str(uuid.uuid4()): name for name in names}
        self._allocations: list[dict[str, dict[str, object]]] = [
            {"allocations": {each: {}}, "mappings": {}} for each in self._hosts
        ]
        self._manager = _manager(with_us=with_us)
        states = [_state(name, each) for each, name in self._hosts.items()]
        self._manager.host_manager.get_host_states_by_uuids = lambda *_: iter(
            states
        )

    def select(self, spec: Any) -> list[str]:
        """Return the host for an instance, and the alternates.

        :param spec: the RequestSpec; it stays as it is.
        """
        (found,) = self._manager.select_destinations(
            context.get_admin_context(),
            spec_obj=copy.deepcopy(spec),
            instance_uuids=[INSTANCE],
            return_objects=True,
            return_alternates=True,
        )
        return [each.service_host for each in found]

    @property
    def placement(self) -> Any:
        """What stands for Nova's client of Placement."""
        return types.SimpleNamespace(
            get_allocation_candidates=lambda *_: (
                copy.copy(self._allocations),
                dict.fromkeys(self._hosts),
                "1.36",
            )
        )


@contextlib.contextmanager
def alone(*schedulers: Scheduler) -> Iterator[None]:
    """Answer for the services that schedulers talk to, in all threads."""
    for each in schedulers:
        each._manager._placement_client = each.placement  # noqa: SLF001
    with (
        mock.patch.object(servicegroup.API, "service_is_up", lambda *_: True),
        mock.patch.object(utils, "claim_resources", lambda *_, **__: True),
        # Whether an image is in a cell's cache and the like: Nova's own.
        mock.patch.object(request_filter, "process_reqspec"),
        mock.patch.object(
            manager.SchedulerManager,
            "placement_client",
            property(lambda self: self._placement_client),
        ),
        mock.patch.object(
            manager.compute_utils, "notify_about_scheduler_action"
        ),
    ):
        yield


def request(extra_specs: dict[str, str]) -> Any:
    """Return the RequestSpec of a flavor with these extra specs."""
    spec = topology.request(extra_specs)
    for field in ("ignore_hosts", "force_hosts", "force_nodes"):
        setattr(spec, field, None)
    spec.requested_destination = spec.instance_group = None
    spec.num_instances = 1
    if not extra_specs:
        spec.numa_topology = None
    return spec


def _state(name: str, provider: str) -> Any:
    """Return a host with what Nova's own filters and weighers look at."""
    state = host_manager.HostState(name, name, CELL)
    state.uuid = provider
    state.service = {"disabled": False}
    state.numa_topology = topology.host()
    state.ram_allocation_ratio = state.cpu_allocation_ratio = 1.0
    state.total_usable_ram_mb = state.free_ram_mb = 65536
    state.vcpus_total = 64
    return state


def _manager(*, with_us: bool) -> Any:
    available = ["nova.scheduler.filters.all_filters"]
    weighers = ["nova.scheduler.weights.all_weighers"]
    enabled = list(FILTERS)
    if with_us:
        available.append("sriov_rt.nova.filters.all_filters")
        weighers.append("sriov_rt.nova.weights.all_weighers")
        before = enabled.index("PciPassthroughFilter")
        enabled.insert(before, "RealtimeSriovFilter")
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
    found.notifier = mock.Mock()
    return found
