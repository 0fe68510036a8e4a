# SPDX-License-Identifier: Apache-2.0

"""Sentences of refusals in the terms of oVirt's engine."""

import types
from collections.abc import Mapping

#: Code to the sentence, in place of that of sriov_rt.guest.sentences or
#: sriov_rt.reason, which has Nova's terms.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "request_invalid": (
            "the VM's custom properties are invalid ({problems}); correct "
            "them in Edit Virtual Machine, Custom Properties"
        ),
        "disk_on_virtio": (
            "disk {target} is on {bus} and guest=bare allows no virtio; set "
            "the disk's interface to SATA"
        ),
        "nic_on_virtio": (
            "NIC {mac} is virtio and guest=bare allows none; set its type to "
            "e1000e, or give it a vNIC profile with passthrough"
        ),
        "nic_needs_virtio": (
            "NIC {mac} is {kind}, for which QEMU has virtio alone, and "
            "guest=bare allows none; give it a vNIC profile with "
            "passthrough, or request guest=lean"
        ),
        "filesystem_on_virtio": (
            "filesystem {target} is on virtio and guest=bare allows none; "
            "take it out of the VM, or request guest=lean"
        ),
        "iommu_on_virtio": (
            "the IOMMU is virtio and guest=bare allows none; request "
            "guest=lean"
        ),
        "console_on_virtio": (
            "the only console is virtio and keep=console keeps it, but "
            "guest=bare allows no virtio; enable the VM's serial console, or "
            "take console out of keep"
        ),
        "kept_on_virtio": (
            "keep={kept} keeps {device}, which is virtio, but guest=bare "
            "allows none; take {kept} out of keep, or request guest=lean"
        ),
        "device_on_virtio": (
            "{device} is virtio and guest=bare allows none; take it out of "
            "the VM, or request guest=lean"
        ),
        "vcpus_unpinned": (
            "realtime vCPUs {vcpus} are pinned to no pCPU; set the VM's CPU "
            "pinning policy to Dedicated, or its custom property pinning"
        ),
        "vcpus_share_pcpus": (
            "realtime vCPUs share pCPUs {cpus} with other vCPUs; pin each of "
            "them to a pCPU of its own in CPU Pinning Topology"
        ),
        "pins_differ": (
            "the CPU pinning of the VM differs from its custom property "
            "pinning, for vCPUs {vcpus}; keep one of the two"
        ),
    }
)
