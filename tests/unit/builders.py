# SPDX-License-Identifier: Apache-2.0

"""HostFacts for tests: a realtime host, and ways to spoil it."""

import dataclasses
import types
from typing import Any

from sriov_rt import facts
from sriov_rt.parse.cpulist import parse_cpu_list as cpus


def nic(**changes: Any) -> facts.Nic:
    """Return an igb PF with two VFs, as QEMU emulates it."""
    found = facts.Nic(
        name="eth1",
        address="0000:01:00.0",
        driver="igb",
        vendor="8086",
        device="10c9",
        numa_node=0,
        speed_mbps=1000,
        carrier=True,
        mac="52:54:00:10:00:01",
        mtu=1500,
        sriov_totalvfs=7,
        sriov_numvfs=2,
        vf_device="10ca",
        link="ethernet",
        vfs=(
            facts.Vf(0, "0000:01:10.0", "igbvf", "eth3", 11, None),
            facts.Vf(1, "0000:01:10.2", "vfio-pci", None, 12, "pid 7 qemu"),
        ),
    )
    return dataclasses.replace(found, **changes)


def realtime_host(name: str = "rt-1", **parts: Any) -> facts.HostFacts:
    """Return the facts of a host that is realtime in every respect.

    :param parts: for a part of HostFacts, a mapping of the fields that differ
        in it.
    """
    found = facts.HostFacts(
        host=name,
        node=name,
        observed_at=1_790_000_000.0,
        cpus=facts.CpuFacts(
            online=cpus("0-3"),
            isolated=cpus("2-3"),
            nohz_full=cpus("2-3"),
            rcu_nocbs=cpus("2-3"),
            isolcpus_flags=("domain", "managed_irq"),
            siblings=(),
            numa=(facts.NumaNode(0, cpus("0-3")),),
            governors=(facts.Governor("performance", cpus("0-3")),),
            idle_states=(facts.IdleState("C1", 1, cpus("2-3")),),
            workqueues=cpus("0-1"),
        ),
        kernel=facts.KernelFacts(
            release="6.1.0-44-rt-amd64",
            preempt_rt=True,
            command_line="isolcpus=managed_irq,domain,2-3 nohz_full=2-3",
            rt_runtime_us=-1,
            rt_period_us=1_000_000,
            timer_migration=False,
            nmi_watchdog=False,
            modules=types.MappingProxyType(
                {"macvlan": "available", "ipvlan": "absent"}
            ),
            clock_source="tsc",
            watchdog=cpus("0-1"),
        ),
        memory=facts.MemoryFacts(
            thp="never",
            ksm_run=0,
            hugepages=(facts.HugePages(0, 2048, 300),),
            swap=(),
        ),
        irqs=facts.IrqFacts(
            default_affinity=cpus("0-1"),
            groups=(facts.IrqGroup(cpus("0-1"), cpus("0"), (24, 25), None),),
        ),
        virt=facts.VirtFacts(
            kvm=True,
            parameters=types.MappingProxyType({"kvm.halt_poll_ns": "0"}),
            iommu_groups=14,
        ),
        nics=facts.NicFacts((nic(),)),
        onload=facts.OnloadFacts((), (), None, ()),
        compute=facts.ComputeFacts(cpus("2-3"), cpus("0-1")),
        latency=facts.LatencyFacts(None),
        labels=facts.LabelFacts(
            types.MappingProxyType(
                {"feature.node.kubernetes.io/pci-8086.present": "true"}
            ),
            types.MappingProxyType(
                {"feature.node.kubernetes.io/pci-8086.present": "kernel"}
            ),
            stale=(),
        ),
    )
    for part, changes in parts.items():
        changed = dataclasses.replace(getattr(found, part), **changes)
        found = dataclasses.replace(found, **{part: changed})
    return found


def onload_host(
    name: str = "fast-1",
    *endpoints: facts.Endpoint,
    **parts: Any,
) -> facts.HostFacts:
    """Return the facts of a realtime host whose NIC Onload can use.

    :param endpoints: its accelerated ports.
    :param parts: see :func:`realtime_host`.
    """
    onload = {
        "modules": ("onload", "sfc"),
        "devices": ("/dev/onload",),
        "library": "/usr/lib64/libonload.so",
        "profiles": ("latency",),
        "nics": types.MappingProxyType({"eth1": "native"}),
    }
    vifs = {
        "pools": types.MappingProxyType({"fast": ("eth1",)}),
        "endpoints": endpoints,
    }
    return realtime_host(
        name,
        **{
            **parts,
            "onload": {**onload, **parts.get("onload", {})},
            "vifs": {**vifs, **parts.get("vifs", {})},
        },
    )


def endpoint(
    network: str = "net-a", nic: str = "eth1", instance: str = "inst-1"
) -> facts.Endpoint:
    """Return an accelerated endpoint."""
    return facts.Endpoint(f"port of {instance}", instance, network, nic)
