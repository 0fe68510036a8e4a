# SPDX-License-Identifier: Apache-2.0

"""CPUs of LXC containers: the pCPUs that Nova claims, as a cpuset.

Nova claims pCPUs for every instance that requests dedicated ones, whatever
the virt_type: Claim._test_numa_topology (nova/compute/claims.py) fits the
instance to the NUMA topology of the host. With virt_type=lxc that topology is
missing: _has_numa_support (nova/virt/libvirt/driver.py) allows it for QEMU
only. Without it the NUMATopologyFilter rejects a dedicated instance. Where
that filter is not enabled, no pCPUs are claimed and the compute host raises
NUMATopologyUnsupported. libvirt's LXC driver does report the host's topology,
and so can the compute driver: then filter, claim and resource tracker work as
for virtual machines.

Nova would write pins of vCPUs into the domain, but a container has no vCPUs:
libvirt accepts ``<vcpupin>`` and ignores it, and refuses
``<memnode>`` without guest NUMA cells (virDomainNumatuneNodeParseXML in its
src/conf/numa_conf.c). A container's processes are bound to the cpuset of
``<vcpu>`` and to the nodeset of ``<numatune>``'s ``<memory>``
(virLXCCgroupSetupCpusetTune in its src/lxc/lxc_cgroup.c).
"""

from typing import Any

import nova.conf
from nova.virt import hardware

from sriov_rt.facts import CpuSet
from sriov_rt.guest.hook import Pinning


def has_numa_support() -> bool:
    """Return whether this host's containers are placed by NUMA topology.

    Only where pCPUs are dedicated: any other host is left to Nova's rule.
    """
    return is_lxc() and bool(hardware.get_cpu_dedicated_set())


def is_lxc() -> bool:
    """Return whether the guests of this host are containers."""
    return bool(nova.conf.CONF.libvirt.virt_type == "lxc")


def confine(found: Any) -> Any:
    """Return Nova's CPU settings of a guest in the form for containers.

    :param found: Nova's GuestNumaConfig.
    """
    if found.cputune is None:
        return found
    cpus: set[int] = set()
    for each in found.cputune.vcpupin:
        cpus |= each.cpuset
    if found.numatune is not None:
        found.numatune.memnodes = []
    return found._replace(cpuset=cpus, cputune=None, numaconfig=None)


def pinning(instance: Any) -> Pinning | None:
    """Return the pCPUs that Nova claimed for a container, None for none."""
    topology = instance.numa_topology
    if not is_lxc() or topology is None:
        return None
    pins = [
        (vcpu, CpuSet((pcpu,)))
        for cell in topology.cells
        for vcpu, pcpu in (cell.cpu_pinning or {}).items()
    ]
    return tuple(sorted(pins)) or None
