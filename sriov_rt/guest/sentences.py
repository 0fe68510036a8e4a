# SPDX-License-Identifier: Apache-2.0

"""Sentences for what a guest can't be, code by code."""

import types
from collections.abc import Mapping
from typing import Any

from sriov_rt import reason as reasons
from sriov_rt.reason import Reason

#: Code to the operator's sentence, with the fields that it takes. Those of
#: :data:`sriov_rt.reason.SENTENCES` serve a guest too. Nova cuts a fault at
#: 255 characters: what to do comes early.
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
            "pCPUs {cpus} of realtime vCPUs are another guest's or a pod's; "
            "pin the vCPUs elsewhere, or stop that one"
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
    }
)


def reason(code: str, **fields: Any) -> Reason:
    """Return the Reason of a code, its sentence filled in.

    :param code: a key of :data:`SENTENCES` here or in
        :mod:`sriov_rt.reason`.
    :param fields: those that the sentence takes, and any further ones.
    """
    sentence = SENTENCES.get(code)
    if sentence is None:
        return reasons.reason(code, **fields)
    return reasons.filled(code, sentence, fields)
