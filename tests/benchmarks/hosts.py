# SPDX-License-Identifier: Apache-2.0

"""Facts of large hosts, of one build or each of its own."""

import dataclasses

from sriov_rt import facts
from sriov_rt.parse.cpulist import CpuSet
from tests.unit import builders

#: Two sockets of 16 cores, two threads each.
CPUS = 64
PFS = 2
VFS = 16


def host(name: str, *, build: int, own: int | None = None) -> facts.HostFacts:
    """Return the facts of a host.

    :param build: hosts of one build differ in names and addresses only.
    :param own: a number that makes it differ from every other host.
    """
    return dataclasses.replace(
        builders.realtime_host(name),
        cpus=_cpus(),
        compute=facts.ComputeFacts(_guests(), builders.cpus("0-7")),
        irqs=_irqs(name),
        nics=facts.NicFacts(tuple(_nic(name, pf) for pf in range(PFS))),
        latency=facts.LatencyFacts(
            facts.LatencyCertificate(20, "6.1.0-44-rt-amd64", 4e9 + (own or 0))
        ),
        labels=_labels(build, own),
    )


def _guests() -> CpuSet:
    return builders.cpus(f"8-{CPUS - 1}")


def _cpus() -> facts.CpuFacts:
    half = CPUS // 2
    every = builders.cpus(f"0-{CPUS - 1}")
    return facts.CpuFacts(
        online=every,
        isolated=_guests(),
        nohz_full=_guests(),
        rcu_nocbs=_guests(),
        isolcpus_flags=("domain", "managed_irq"),
        siblings=tuple(CpuSet((n, n + 1)) for n in range(0, CPUS, 2)),
        numa=(
            facts.NumaNode(0, builders.cpus(f"0-{half - 1}")),
            facts.NumaNode(1, builders.cpus(f"{half}-{CPUS - 1}")),
        ),
    )


def _irqs(name: str) -> facts.IrqFacts:
    # Where interrupts fire among the housekeeping CPUs is each host's own.
    shift = sum(name.encode())
    groups = tuple(
        facts.IrqGroup(
            builders.cpus("0-7"),
            CpuSet(((n + shift) % 8,)),
            tuple(range(24 + n, 200, 8)),
        )
        for n in range(8)
    )
    return facts.IrqFacts(builders.cpus("0-7"), groups)


def _nic(name: str, pf: int) -> facts.Nic:
    vfs = tuple(
        facts.Vf(
            n, f"0000:{pf:02x}:10.{n:x}", "iavf", f"p{pf}v{n}", 20 + n, None
        )
        for n in range(VFS)
    )
    return builders.nic(
        name=f"p{pf}", mac=f"{name}/{pf}", sriov_numvfs=VFS, vfs=vfs
    )


def _labels(build: int, own: int | None) -> facts.LabelFacts:
    prefix = "feature.node.kubernetes.io"
    values = {f"{prefix}/cpu-cpuid.F{n}": "true" for n in range(50)}
    values[f"{prefix}/system-os_release.VERSION_ID"] = str(build)
    if own is not None:
        values[f"{prefix}/rack"] = f"r{own}"
    return facts.LabelFacts(values, dict.fromkeys(values, "kernel"), ())
