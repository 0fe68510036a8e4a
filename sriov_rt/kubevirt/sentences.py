# SPDX-License-Identifier: Apache-2.0

"""Sentences of guest hooks in the words of a VirtualMachineInstance."""

import types
from collections.abc import Mapping
from typing import Any

from sriov_rt import reason as reasons
from sriov_rt.reason import Reason

#: Code to the sentence. Codes of :mod:`sriov_rt.guest.sentences` that are
#: not here have no remedy of Nova's in theirs, and serve as they are.
SENTENCES: Mapping[str, str] = types.MappingProxyType(
    {
        "disk_on_virtio": (
            "disk {target} is on {bus} and guest=bare allows no virtio; set "
            "the disk's bus to sata"
        ),
        "nic_on_virtio": (
            "NIC {mac} is virtio and guest=bare allows none; set the "
            "interface's model to e1000e, or make it an sriov interface"
        ),
        "nic_needs_virtio": (
            "NIC {mac} is {kind}, for which QEMU has virtio alone, and "
            "guest=bare allows none; make it an sriov interface, or ask for "
            "guest=lean"
        ),
        "filesystem_on_virtio": (
            "filesystem {target} is on virtio and guest=bare allows none; "
            "take the filesystem out of the VMI, or ask for guest=lean"
        ),
        "iommu_on_virtio": (
            "the IOMMU is virtio and guest=bare allows none; ask for "
            "guest=lean"
        ),
        "console_on_virtio": (
            "the only console is virtio and keep=console keeps it, but "
            "guest=bare allows no virtio; set autoattachSerialConsole, or "
            "take console out of keep"
        ),
        "kept_on_virtio": (
            "keep={kept} keeps {device}, which is virtio, but guest=bare "
            "allows none; take {kept} out of keep, or ask for guest=lean"
        ),
        "device_on_virtio": (
            "{device} is virtio and guest=bare allows none; take it out of "
            "the VMI, or ask for guest=lean"
        ),
        "vcpus_unpinned": (
            "realtime vCPUs {vcpus} are pinned to no pCPU; set "
            "spec.domain.cpu.dedicatedCpuPlacement"
        ),
        "vcpus_share_pcpus": (
            "realtime vCPUs share pCPUs {cpus} with other vCPUs; set "
            "spec.domain.cpu.dedicatedCpuPlacement"
        ),
        "vcpus_not_isolated": (
            "realtime vCPUs {vcpus} run on pCPUs {cpus}, which the node does "
            "not isolate; boot it with isolcpus=managed_irq,domain,{cpus}, "
            "give kubelet no other CPUs (reservedSystemCPUs), and select the "
            "node by its label feature.node.kubernetes.io/sriov-rt.ready"
        ),
        "vcpus_not_tick_free": (
            "realtime vCPUs {vcpus} run on pCPUs {cpus}, which have the "
            "scheduler's tick; boot the node with nohz_full={cpus}, and "
            "select it by its label "
            "feature.node.kubernetes.io/sriov-rt.ready"
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
        "realtime_unset": (
            "virt-handler schedules the vCPUs of a VMI with "
            "spec.domain.cpu.realtime alone; set it, as well as "
            "dedicatedCpuPlacement"
        ),
        "domain_rejected": (
            "the domain XML is rejected: {problem}; look for another hook "
            "that changes it before"
        ),
        "fact_unknown": (
            "{fact} is unknown ({why}); see that the hook's container may "
            "read the node's /sys and /proc"
        ),
    }
)


def reason(code: str, **fields: Any) -> Reason:
    """Return the Reason of a code, its sentence filled in."""
    return reasons.filled(code, SENTENCES[code], fields)


def translated(given: Reason) -> Reason:
    """Return a Reason in a VMI's words, if it has any."""
    sentence = SENTENCES.get(given.code)
    if sentence is None:
        return given
    return reasons.filled(given.code, sentence, given.fields)
