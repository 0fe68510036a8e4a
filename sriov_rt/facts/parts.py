# SPDX-License-Identifier: Apache-2.0

"""Parts of HostFacts, each read by one source.

The sources are those of ``sriov_rt.fact_sources``. A fact that could not be
read is an :class:`~sriov_rt.codec.Unknown` with the reason, never a guess.
"""

import dataclasses
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts.culprit import Culprit
from sriov_rt.parse.cpulist import CpuSet

#: Value of a fact that the document of an older agent lacks.
NOT_REPORTED = Unknown("not reported by an older agent")


@dataclasses.dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node and its CPUs (``/sys/devices/system/node/nodeN``)."""

    id: int
    cpus: CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class Governor:
    """A cpufreq governor and the CPUs whose frequency it sets."""

    name: str
    cpus: CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class IdleState:
    """The deepest idle state that some CPUs may enter.

    :param name: such as ``C6``.
    :param latency_us: time to leave it, µs.
    """

    name: str
    latency_us: int
    cpus: CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class CgroupPartition:
    """A cgroup with exclusive CPUs (``cpuset.cpus.partition``).

    :param path: such as ``/sys/fs/cgroup/rt.slice``.
    """

    path: str
    cpus: CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class GuestCgroup:
    """The cgroup that libvirt runs guests in.

    :param path: such as ``/sys/fs/cgroup/machine.slice``; its parent until
        the first guest has run.
    :param cpus: the CPUs that its guests may use, including offline CPUs that
        they may use once these are online.
    :param partition: ``member``, ``root``, ``isolated``, or one of these with
        ``invalid`` and the kernel's reason; None if it can't be a partition.
    :param others: partitions of other programs, whose CPUs no guest can get.
    """

    path: str
    cpus: CpuSet
    partition: str | None = None
    others: tuple[CgroupPartition, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class CpuFacts:
    """CPUs, and their isolation by the kernel.

    :param isolated: the CPUs that are isolated, requested or not:
        ``cpu/isolated``, and the CPUs of an isolated partition that libvirt's
        guests run in.
    :param nohz_full: the CPUs whose tick stops (``cpu/nohz_full``).
    :param rcu_nocbs: the CPUs whose RCU callbacks run elsewhere; a kernel
        adds its nohz_full CPUs to them by itself (kernel/rcu/tree_nocb.h).
    :param isolcpus_flags: the flags of ``isolcpus=``, sorted.
    :param siblings: the groups of online hyper-threads that share a core.
    :param numa: the nodes and their online CPUs.
    :param governors: empty if the kernel does not scale frequencies.
    :param idle_states: the deepest states that the isolated CPUs may enter
        (all CPUs if none is isolated), within all limits; empty if the kernel
        has no idle driver.
    :param workqueues: the CPUs of unbound workqueues
        (``/sys/devices/virtual/workqueue/cpumask``).
    :param offline: the CPUs that are offline and can be brought online.
    :param smt: ``cpu/smt/control``; the kernel does not report the cores of
        offline CPUs.
    :param guest_cgroup: None if no cgroup limits the CPUs of guests.
    :param sched_ext: state of the BPF scheduler
        (``/sys/kernel/sched_ext/state``), such as ``enabled``; None if the
        kernel has none.
    """

    online: CpuSet | Unknown
    isolated: CpuSet | Unknown
    nohz_full: CpuSet | Unknown
    rcu_nocbs: CpuSet | Unknown
    isolcpus_flags: tuple[str, ...] | Unknown
    siblings: tuple[CpuSet, ...] | Unknown
    numa: tuple[NumaNode, ...] | Unknown
    governors: tuple[Governor, ...] | Unknown = NOT_REPORTED
    idle_states: tuple[IdleState, ...] | Unknown = NOT_REPORTED
    workqueues: CpuSet | Unknown = NOT_REPORTED
    offline: CpuSet | Unknown = NOT_REPORTED
    smt: str | Unknown = NOT_REPORTED
    guest_cgroup: GuestCgroup | None | Unknown = NOT_REPORTED
    sched_ext: str | None | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveKernel:
    """The running kernel, as decisions judge it.

    :param rt_runtime_us: ``kernel.sched_rt_runtime_us``, µs in each
        ``rt_period_us``; -1 means no throttling.
    :param modules: state of each kernel module that sriov-rt uses:
        ``builtin``, ``loaded``, ``available`` or ``absent``.
    :param clock_source: the kernel's clock source, such as ``tsc``.
    :param watchdog: the CPUs that the soft lockup detector runs on.
    :param distribution: ID of os-release, such as ``debian``.
    """

    release: str | Unknown
    preempt_rt: bool | Unknown
    rt_runtime_us: int | Unknown
    rt_period_us: int | Unknown
    timer_migration: bool | Unknown
    nmi_watchdog: bool | Unknown
    modules: Mapping[str, str] | Unknown
    clock_source: str | Unknown = NOT_REPORTED
    watchdog: CpuSet | Unknown = NOT_REPORTED
    distribution: str | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class KernelFacts(DecisiveKernel):
    """The running kernel.

    :param command_line: the command line that it was booted with.
    """

    command_line: str | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class HugePages:
    """The pool of one page size on one NUMA node, as a total of pages."""

    node: int
    size_kib: int
    total: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Memory management that can stall a guest.

    :param thp: ``always``, ``madvise`` or ``never``.
    :param ksm_run: ``/sys/kernel/mm/ksm/run``; 0 and 2 are off.
    :param swap: the devices and files in use (``/proc/swaps``).
    :param zram_generator: whether systemd's generator for swap on zram is
        installed.
    """

    thp: str | Unknown
    ksm_run: int | Unknown
    hugepages: tuple[HugePages, ...] | Unknown
    swap: tuple[str, ...] | Unknown = NOT_REPORTED
    zram_generator: bool | Unknown = NOT_REPORTED

    @property
    def on_zram(self) -> tuple[str, ...]:
        """The devices of :attr:`swap` in compressed memory."""
        if isinstance(self.swap, Unknown):
            return ()
        return tuple(each for each in self.swap if "/zram" in each)


@dataclasses.dataclass(frozen=True, slots=True)
class IrqGroup:
    """Interrupts with the same affinity.

    :param allowed: the CPUs that they may fire on (``smp_affinity_list``).
    :param effective: the CPUs that they actually fire on.
    :param irqs: their numbers in ``/proc/irq``.
    :param managed: whether only the kernel sets their affinity; unknown if
        the kernel does not show it. None if they fire on no isolated CPU:
        then it is not read.
    :param fired: whether one of them fired between two observations; None if
        that is not known.
    """

    allowed: CpuSet
    effective: CpuSet
    irqs: tuple[int, ...]
    managed: bool | None | Unknown = NOT_REPORTED
    fired: bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class IrqFacts:
    """Where interrupts fire."""

    default_affinity: CpuSet | Unknown
    groups: tuple[IrqGroup, ...] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Occupant:
    """A program or kernel task, other than a guest, on CPUs for guests.

    :param kind: ``thread``, ``kernel_thread``, ``interrupt`` or ``mask`` (of
        Open vSwitch's PMD threads).
    :param state: ``pinned`` (it can run nowhere else), ``runs`` (it was seen
        there) or ``may``.
    :param name: printable name of its first thread; an interrupt's number and
        name.
    :param cpus: the CPUs for guests that it is on, or may be on.
    :param process: the name of the program; empty for the kernel's.
    :param unit: the systemd unit or container; empty for none.
    :param thread: id of the first thread; 0 if there is none.
    :param threads: number of threads.
    :param share: percentage of one CPU that the busiest thread used; None if
        that is not known.
    :param since: Unix time when it was first seen, seconds.
    """

    kind: str
    state: str
    name: str
    cpus: CpuSet
    process: str = ""
    unit: str = ""
    thread: int = 0
    threads: int = 1
    share: int | None = None
    since: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class OccupancyFacts:
    """Occupants of the CPUs for guests, besides the guests.

    :param occupants: pinned ones first, then those that run there.
    :param unread: number of threads that could not be inspected.
    :param more: number of occupants that are not listed.
    """

    occupants: tuple[Occupant, ...] | Unknown
    unread: int | Unknown = 0
    more: int | Unknown = 0


#: Occupancy in facts that were observed without it.
NO_OCCUPANCY_REPORTED = OccupancyFacts(NOT_REPORTED)


@dataclasses.dataclass(frozen=True, slots=True)
class VirtFacts:
    """Virtualisation support of the host.

    :param kvm: whether ``/dev/kvm`` exists.
    :param parameters: parameters of the kvm modules that affect latency, such
        as ``kvm.halt_poll_ns``.
    :param iommu_groups: number of groups; 0 if no IOMMU is in use.
    """

    kvm: bool | Unknown
    parameters: Mapping[str, str] | Unknown
    iommu_groups: int | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class PowerManagement:
    """Nova's power management of unused dedicated pCPUs.

    :param strategy: ``[libvirt] cpu_power_management_strategy``:
        ``cpu_state`` takes them offline, ``governor`` changes their governor.
    :param governor_low: ``cpu_power_governor_low``, for unused pCPUs.
    :param governor_high: ``cpu_power_governor_high``, for a guest's pCPUs.
    """

    strategy: str
    governor_low: str
    governor_high: str


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeFacts:
    """Nova's configuration on the host (``[compute]`` and ``[libvirt]``).

    :param dedicated: ``cpu_dedicated_set``; None if it is not set.
    :param shared: ``cpu_shared_set``, likewise.
    :param power_management: None if it is off (``cpu_power_management``).
    :param driver: version of sriov-rt's compute driver in the running
        nova-compute; None if none runs with it.
    """

    dedicated: CpuSet | None | Unknown
    shared: CpuSet | None | Unknown
    power_management: PowerManagement | None | Unknown = NOT_REPORTED
    driver: str | None | Unknown = NOT_REPORTED


def for_guests(cpus: CpuFacts, compute: ComputeFacts) -> CpuSet | Unknown:
    """Return the CPUs for guests: Nova's dedicated pCPUs.

    If ``cpu_dedicated_set`` is not set, they are all isolated CPUs.
    """
    if compute.dedicated is None:
        return cpus.isolated
    return compute.dedicated


@dataclasses.dataclass(frozen=True, slots=True)
class LatencyCertificate:
    """Latency certificate of the host, and its state.

    :param max_latency_us: the worst measured latency, µs.
    :param kernel: release of the kernel that it was measured on.
    :param expires_at: Unix time in seconds from which it is not valid.
    :param withdrawn: why it was withdrawn before it expired, one clause;
        empty while it is valid.
    :param emulated: whether the host is itself a virtual machine: then the
        latency says nothing about any hardware.
    :param cpus: the measured CPUs; None in facts of an older agent.
    :param culprit: culprit of the sample that withdrew it; None if none did.
    :param issued_at: Unix time in seconds; None in facts of an older agent.
    """

    max_latency_us: int
    kernel: str
    expires_at: float
    withdrawn: str = ""
    emulated: bool = False
    cpus: CpuSet | None = None
    culprit: Culprit | None = None
    issued_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class LatencyFacts:
    """The host's latency certificate; None if it has none."""

    certificate: LatencyCertificate | None | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class HostHold:
    """A hold: until it ends, the host takes no realtime guest.

    :param who: who put the host on hold.
    :param why: the reason, a clause.
    :param since: Unix time, seconds.
    :param until: Unix time in seconds at which it ends by itself; None if it
        lasts until it is released.
    """

    who: str
    why: str
    since: float
    until: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class DecisiveMaintenance:
    """Maintenance of the host, as decisions judge it.

    :param hold: None for a host that is not on hold.
    """

    hold: HostHold | None | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class MaintenanceFacts(DecisiveMaintenance):
    """Maintenance of the host, and what it changes.

    :param microcode: its revision; None if the kernel shows none.
    :param tuned_profile: the active profiles of tuned; None without tuned.
    :param boot_owed: what the next boot will change, a clause; may be empty.
    """

    microcode: str | None | Unknown = NOT_REPORTED
    tuned_profile: str | None | Unknown = NOT_REPORTED
    boot_owed: str | Unknown = NOT_REPORTED


@dataclasses.dataclass(frozen=True, slots=True)
class LabelFacts:
    """NFD-style labels, by full key.

    :param values: label key to value.
    :param sources: label key to the name of the source that set it. A key
        without a value is one that its source knows to be absent.
    :param stale: sorted label sources without an answer for longer than the
        agent's limit (``[labels] stale_after``).
    """

    values: Mapping[str, str] | Unknown
    sources: Mapping[str, str] | Unknown
    stale: tuple[str, ...] | Unknown
