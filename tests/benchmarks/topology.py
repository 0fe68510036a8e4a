# SPDX-License-Identifier: Apache-2.0

"""What Nova itself knows of the benchmarks' hosts and of their request."""

from collections.abc import Mapping
from typing import Any

from nova import objects
from nova.objects import fields

from tests.benchmarks import hosts


def request(extra_specs: Mapping[str, str]) -> Any:
    """Return a RequestSpec for two dedicated CPUs."""
    flavor = objects.Flavor(
        name="rt.small",
        vcpus=2,
        memory_mb=512,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
        extra_specs=dict(extra_specs),
    )
    cell = objects.InstanceNUMACell(
        id=0,
        cpuset=set(),
        pcpuset={0, 1},
        memory=512,
        cpu_policy=fields.CPUAllocationPolicy.DEDICATED,
    )
    return objects.RequestSpec(
        flavor=flavor,
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_uuid="6a7a3c1e-4b0d-4f0e-9d4c-111111111111",
        numa_topology=objects.InstanceNUMATopology(cells=[cell]),
        pci_requests=None,
        scheduler_hints={},
        requested_resources=[],
    )


def host() -> Any:
    """Return the NUMATopology of an empty host."""
    half = hosts.CPUS // 2
    return objects.NUMATopology(
        cells=[
            objects.NUMACell(
                id=n,
                cpuset=set(),
                pcpuset=set(range(n * half, (n + 1) * half)),
                memory=65536,
                cpu_usage=0,
                memory_usage=0,
                pinned_cpus=set(),
                siblings=[
                    {c, c + 1} for c in range(n * half, (n + 1) * half, 2)
                ],
                mempages=[
                    objects.NUMAPagesTopology(
                        size_kb=4, total=65536 * 256, used=0
                    )
                ],
                socket=n,
            )
            for n in (0, 1)
        ]
    )
