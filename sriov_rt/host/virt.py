# SPDX-License-Identifier: Apache-2.0

"""KVM, its module parameters, and IOMMU groups."""

import types
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import VirtFacts
from sriov_rt.host import values
from sriov_rt.host.root import Root

KVM = "dev/kvm"
MODULE = "sys/module"
IOMMU_GROUPS = "sys/kernel/iommu_groups"

#: Parameters of the kvm modules that affect a guest's latency
#: (Documentation/virt/kvm/halt-polling.rst, arch/x86/kvm/{x86,lapic}.c and
#: {vmx/vmx,svm/svm}.c), and why. An architecture or release has some.
PARAMETERS: Mapping[str, str] = types.MappingProxyType(
    {
        "kvm.halt_poll_ns": "how long a halted vCPU is polled for, not slept",
        "kvm.halt_poll_ns_grow": "how that time grows",
        "kvm.halt_poll_ns_shrink": "how it shrinks; 0 is at once",
        "kvm.kvmclock_periodic_sync": "interrupts every vCPU each 300 s",
        "kvm.lapic_timer_advance": "timers fire early by what an exit costs",
        "kvm.lapic_timer_advance_ns": "the same on older kernels: by how much",
        "kvm.min_timer_period_us": "the shortest periodic timer of a guest",
        "kvm.nx_huge_pages": "splits huge pages: a mitigation",
        "kvm.pi_inject_timer": "timers from housekeeping CPUs, without exit",
        "kvm_amd.avic": "interrupts without exit",
        "kvm_amd.pause_filter_count": "exits of a vCPU that spins",
        "kvm_amd.pause_filter_thresh": "the same",
        "kvm_intel.enable_apicv": "interrupts without exit",
        "kvm_intel.ple_gap": "exits of a vCPU that spins; 0 is off",
        "kvm_intel.ple_window": "how long it may spin",
        "kvm_intel.preemption_timer": "timers without a host timer",
        "kvm_intel.vmentry_l1d_flush": "flushes the L1 cache at entry",
    }
)


def observe(root: Root) -> VirtFacts:
    """Return KVM's presence and parameters and the count of IOMMU groups."""
    return VirtFacts(
        kvm=root.exists(KVM),
        parameters=_parameters(root),
        iommu_groups=_iommu_groups(root),
    )


def _parameters(root: Root) -> Mapping[str, str] | Unknown:
    if isinstance(modules := root.list_dir(MODULE), Unknown):
        return modules
    found = {}
    for name in PARAMETERS:
        module, _, parameter = name.partition(".")
        path = f"{MODULE}/{module}/parameters/{parameter}"
        if module not in modules or root.exists(path) is False:
            continue
        text = root.read_text(path)
        if isinstance(text, Unknown):
            return text
        found[name] = text.rstrip("\n")
    return types.MappingProxyType(found)


def _iommu_groups(root: Root) -> int | Unknown:
    """Return how many there are; 0 in a kernel without IOMMU support."""
    groups = root.list_dir(IOMMU_GROUPS)
    count = groups if isinstance(groups, Unknown) else len(groups)
    return values.unless_absent(
        root, IOMMU_GROUPS, count, 0, beside="sys/kernel"
    )
