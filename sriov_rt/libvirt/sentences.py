# SPDX-License-Identifier: Apache-2.0

"""Sentences of refusals in the terms of libvirt's domain XML."""

import types
from collections.abc import Mapping

#: Code to the sentence, in place of that of sriov_rt.guest.sentences or
#: sriov_rt.reason, which has Nova's terms.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "request_invalid": (
            "the request of this guest is invalid ({problems}); correct it "
            "in the domain's metadata with 'virsh edit', or in "
            "/etc/sriov_rt/guests.conf"
        ),
        "disk_on_virtio": (
            "disk {target} is on {bus} and guest=bare allows no virtio; set "
            "<target dev='sda' bus='sata'/> in its place"
        ),
        "nic_on_virtio": (
            "NIC {mac} is virtio and guest=bare allows none; set <model "
            "type='e1000e'/>, or give it a VF with <interface "
            "type='hostdev'>"
        ),
        "nic_needs_virtio": (
            "NIC {mac} is {kind}, for which QEMU has virtio alone, and "
            "guest=bare allows none; give it a VF with <interface "
            "type='hostdev'>, or request guest=lean"
        ),
        "filesystem_on_virtio": (
            "filesystem {target} is on virtio and guest=bare allows none; "
            "take it out of the domain, or request guest=lean"
        ),
        "iommu_on_virtio": (
            "the IOMMU is virtio and guest=bare allows none; set <iommu "
            "model='intel'/>"
        ),
        "console_on_virtio": (
            "the only console is virtio and keep=console keeps it, but "
            "guest=bare allows no virtio; add <serial type='pty'/>, or take "
            "console out of keep"
        ),
        "kept_on_virtio": (
            "keep={kept} keeps {device}, which is virtio, but guest=bare "
            "allows none; take {kept} out of keep, or request guest=lean"
        ),
        "device_on_virtio": (
            "{device} is virtio and guest=bare allows none; take it out of "
            "the domain, or request guest=lean"
        ),
    }
)
