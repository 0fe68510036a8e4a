# SPDX-License-Identifier: Apache-2.0

"""CPUs of LXC containers: the pCPUs that Nova claims, as a cpuset.

Nova claims pCPUs for whoever asks for dedicated ones, whatever the
virt_type: Claim._test_numa_topology (nova/compute/claims.py) fits the
instance to the NUMA topology of the host. What it lacks with virt_type=lxc
is that topology: _has_numa_support (nova/virt/libvirt/driver.py) takes it
for a matter of QEMU's. Without it a dedicated instance is turned away by the
NUMATopologyFilter, or, where that is not in use, claimed no pCPUs and then
raised NUMATopologyUnsupported for. libvirt's LXC driver does report the
host's topology, and so can the compute driver: then filter, claim and
resource tracker work as for virtual machines.

What Nova would write of it into the domain is of vCPUs, which a container
has none of: libvirt takes ``<vcpupin>`` and ignores it, and refuses
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

    Only where pCPUs are dedicated: a host without any stays as Nova has it.
    """
    return is_lxc() and bool(hardware.get_cpu_dedicated_set())


def is_lxc() -> bool:
    """Return whether the guests of this host are containers."""
    return bool(nova.conf.CONF.libvirt.virt_type == "lxc")


def confine(found: Any) -> Any:
    """Return what Nova says of a guest's CPUs as containers take it.

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
