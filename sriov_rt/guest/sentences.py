# SPDX-License-Identifier: Apache-2.0

"""Sentences of the reasons to refuse a guest, by code."""

import types
from collections.abc import Mapping
from typing import Any

from sriov_rt import reason as reasons
from sriov_rt.reason import Reason

#: Code to the operator's sentence, with its fields in braces. The codes of
#: :data:`sriov_rt.reason.SENTENCES` apply to guests too. Nova cuts a fault at
#: 255 characters, so the remedy comes early.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "disk_on_virtio": (
            "disk {target} is on {bus} and sriov_rt:guest=bare allows no "
            "virtio; set the image property {prop}"
        ),
        "nic_on_virtio": (
            "NIC {mac} is virtio and sriov_rt:guest=bare allows none; set "
            "the image property hw_vif_model=e1000e, or make its port with "
            "--vnic-type direct"
        ),
        "nic_needs_virtio": (
            "NIC {mac} is {kind}, for which QEMU has virtio alone, and "
            "sriov_rt:guest=bare allows none; make its port with --vnic-type "
            "direct, or set sriov_rt:guest=lean"
        ),
        "filesystem_on_virtio": (
            "filesystem {target} is on virtio and sriov_rt:guest=bare allows "
            "none; detach the share, or set sriov_rt:guest=lean"
        ),
        "iommu_on_virtio": (
            "the IOMMU is virtio and sriov_rt:guest=bare allows none; set "
            "hw:viommu_model=intel on the flavor (hw_viommu_model on the "
            "image)"
        ),
        "console_on_virtio": (
            "the only console is virtio and sriov_rt:keep=console keeps it, "
            "but sriov_rt:guest=bare allows no virtio; add a serial port, or "
            "take console out of sriov_rt:keep"
        ),
        "kept_on_virtio": (
            "sriov_rt:keep={kept} keeps {device}, which is virtio, but "
            "sriov_rt:guest=bare allows none; take {kept} out of "
            "sriov_rt:keep, or set sriov_rt:guest=lean"
        ),
        "device_on_virtio": (
            "{device} is virtio and sriov_rt:guest=bare allows none; take it "
            "out of the domain, or set sriov_rt:guest=lean"
        ),
        "vcpus_not_isolated": (
            "realtime vCPUs {vcpus} run on pCPUs {cpus}, which are not "
            "isolated; reboot the host with isolcpus=managed_irq,domain,{cpus}"
            ", or pin them elsewhere"
        ),
        "vcpus_not_tick_free": (
            "realtime vCPUs {vcpus} run on pCPUs {cpus}, which have the "
            "scheduler's tick; reboot the host with nohz_full={cpus}, or pin "
            "them elsewhere"
        ),
        "vcpus_unpinned": (
            "realtime vCPUs {vcpus} are pinned to no pCPU; pin each of them "
            "to one isolated pCPU"
        ),
        "container_unpinned": (
            "Nova has claimed no pCPUs for the container; set "
            "hw:cpu_policy=dedicated on the flavor, and on the host [compute] "
            "cpu_dedicated_set and compute_driver="
            "sriov_rt.RealtimeLibvirtDriver"
        ),
        "domain_rejected": (
            "the domain XML is rejected: {problem}; give the document as "
            "libvirt or its manager wrote it"
        ),
        "domain_differs": (
            "the domain is not what its request makes of it ({changes}); "
            "define what 'virsh dumpxml --inactive {name} | sriov-rt guest "
            "render' prints"
        ),
        "pcpus_taken": (
            "pCPUs {cpus} of realtime vCPUs belong to another guest or a pod; "
            "pin the vCPUs elsewhere, or stop that guest or pod"
        ),
        "vcpus_share_pcpus": (
            "realtime vCPUs share pCPUs {cpus} with other vCPUs; pin each "
            "of them to a pCPU of its own"
        ),
        "no_cpu_for_emulator": (
            "of the online CPUs {cpus} each is isolated, dedicated or a "
            "realtime vCPU's, and none is left for the guest's emulator "
            "threads; leave at least one CPU out of isolcpus and "
            "cpu_dedicated_set"
        ),
        "pins_differ": (
            "the domain's own pins differ from the pinning that is given, "
            "for vCPUs {vcpus}; give none, or take the pins out"
        ),
        "pinning_beyond": (
            "the pinning that is given names vCPUs {vcpus}, the guest has "
            "{count}; give one of vCPUs below {count}"
        ),
        "vcpusched_beyond": (
            "<vcpusched> names vCPUs {vcpus} and the guest has {count}; name "
            "vCPUs below {count}"
        ),
        "too_few_isolated": (
            "{wanted} isolated nohz_full pCPUs of one NUMA node are needed "
            "and no node has more than {found} to spare; isolate more, or "
            "give a pinning"
        ),
        "too_few_in_cpuset": (
            "{wanted} isolated nohz_full pCPUs of one NUMA node are needed "
            "and <vcpu cpuset> and strict <numatune> of the domain leave no "
            "more than {found}; widen them, or give a pinning"
        ),
        "realtime_unset": (
            "virt-handler schedules the vCPUs of a VMI with "
            "spec.domain.cpu.realtime alone; set it, as well as "
            "dedicatedCpuPlacement"
        ),
        "emulator_on_vcpus": (
            "the emulator thread may run on pCPUs {cpus} of realtime vCPUs; "
            "set spec.domain.cpu.isolateEmulatorThread"
        ),
        "iothreads_on_vcpus": (
            "I/O threads {threads} may run on pCPUs {cpus} of realtime "
            "vCPUs; take spec.domain.ioThreadsPolicy and the disks' "
            "dedicatedIOThread out, or set isolateEmulatorThread"
        ),
    }
)

#: Managers of guests whose operators have other remedies than Nova's.
LIBVIRT = "libvirt"
OVIRT = "oVirt"
KUBEVIRT = "kubevirt"

#: Words that only Nova's operators know, and those of other managers.
_OF_FLAVORS: Mapping[str, str] = types.MappingProxyType(
    {
        "sriov_rt:": "",
        "the flavor's extra specs are": "the guest's request is",
    }
)

_DEDICATED = "set spec.domain.cpu.dedicatedCpuPlacement"

#: Code to the remedy for each manager that needs another one than Nova's.
REMEDIES: Mapping[str, Mapping[str, str]] = types.MappingProxyType(
    {
        "request_invalid": {
            LIBVIRT: "correct it in the domain's metadata with 'virsh edit', "
            "or in /etc/sriov_rt/guests.conf",
            OVIRT: "correct the VM's custom properties in Edit Virtual "
            "Machine, Custom Properties",
            KUBEVIRT: "correct the annotations of the VMI",
        },
        "fact_unknown": {
            KUBEVIRT: "check that the hook's container may read the node's "
            "/sys and /proc",
        },
        "disk_on_virtio": {
            LIBVIRT: "set <target dev='sda' bus='sata'/> in its place",
            OVIRT: "set the disk's interface to SATA",
            KUBEVIRT: "set the disk's bus to sata",
        },
        "nic_on_virtio": {
            LIBVIRT: "set <model type='e1000e'/>, or give it a VF with "
            "<interface type='hostdev'>",
            OVIRT: "set its type to e1000e, or give it a vNIC profile with "
            "passthrough",
            KUBEVIRT: "set the interface's model to e1000e, or make it an "
            "sriov interface",
        },
        "nic_needs_virtio": {
            LIBVIRT: "give it a VF with <interface type='hostdev'>, or set "
            "guest=lean",
            OVIRT: "give it a vNIC profile with passthrough, or set "
            "guest=lean",
            KUBEVIRT: "make it an sriov interface, or set guest=lean",
        },
        "filesystem_on_virtio": {
            LIBVIRT: "take it out of the domain, or set guest=lean",
            OVIRT: "take it out of the VM, or set guest=lean",
            KUBEVIRT: "take the filesystem out of the VMI, or set guest=lean",
        },
        "iommu_on_virtio": {
            LIBVIRT: "set <iommu model='intel'/>",
            OVIRT: "set guest=lean",
            KUBEVIRT: "set guest=lean",
        },
        "console_on_virtio": {
            LIBVIRT: "add <serial type='pty'/>, or take console out of keep",
            OVIRT: "enable the VM's serial console, or take console out of "
            "keep",
            KUBEVIRT: "set autoattachSerialConsole, or take console out of "
            "keep",
        },
        "device_on_virtio": {
            OVIRT: "take it out of the VM, or set guest=lean",
            KUBEVIRT: "take it out of the VMI, or set guest=lean",
        },
        "vcpus_unpinned": {
            OVIRT: "set the VM's CPU pinning policy to Dedicated, or its "
            "custom property pinning",
            KUBEVIRT: _DEDICATED,
        },
        "vcpus_share_pcpus": {
            OVIRT: "pin each of them to a pCPU of its own in CPU Pinning "
            "Topology",
            KUBEVIRT: _DEDICATED,
        },
        "vcpus_not_isolated": {
            KUBEVIRT: "boot the node with isolcpus=managed_irq,domain,{cpus}, "
            "give kubelet no other CPUs (reservedSystemCPUs), and select the "
            "node by its label feature.node.kubernetes.io/sriov-rt.ready",
        },
        "vcpus_not_tick_free": {
            KUBEVIRT: "boot the node with nohz_full={cpus}, and select it by "
            "its label feature.node.kubernetes.io/sriov-rt.ready",
        },
        "pins_differ": {
            OVIRT: "keep one of the VM's CPU pinning and its custom property "
            "pinning",
        },
        "domain_rejected": {
            KUBEVIRT: "look for another hook that changes it before",
        },
    }
)


def reason(code: str, **fields: Any) -> Reason:
    """Return the Reason of a code, its sentence filled in.

    :param code: a key of :data:`SENTENCES` here or in
        :mod:`sriov_rt.reason`.
    :param fields: fields of the sentence, and any others.
    """
    sentence = SENTENCES.get(code)
    if sentence is None:
        return reasons.reason(code, **fields)
    return reasons.filled(code, sentence, fields)


def in_terms_of(manager: str, found: Reason) -> Reason:
    """Return a Reason in the terms of a manager of guests."""
    remedy = REMEDIES.get(found.code, {}).get(manager)
    sentence = SENTENCES.get(found.code)
    if sentence is None and remedy is not None:
        sentence = reasons.SENTENCES[found.code]
    if sentence is None:
        return found
    problem, _, novas = sentence.partition(reasons.REMEDY)
    text = f"{problem}{reasons.REMEDY}{remedy or novas}"
    for ours, theirs in _OF_FLAVORS.items():
        text = text.replace(ours, theirs)
    return reasons.filled(found.code, text, found.fields)
