# SPDX-License-Identifier: Apache-2.0

"""Running guests of a host: what was promised, and what the kernel shows."""

import dataclasses

from sriov_rt.codec import Unknown
from sriov_rt.facts.parts import NOT_REPORTED
from sriov_rt.parse.cpulist import CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """A scheduling policy, as sched(7) names it.

    :param policy: such as ``fifo``, ``rr`` or ``other``.
    :param priority: 1 to 99 for realtime policies, else 0.
    """

    policy: str
    priority: int = 0

    def __str__(self) -> str:
        return (
            f"{self.policy} {self.priority}"
            if self.priority
            else (self.policy)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class GuestThread:
    """A thread that works for a guest.

    :param role: such as ``vcpu 0``, ``iothread 1``, ``emulator`` or
        ``vhost``; ``process`` in a container.
    :param thread: its id on the host.
    :param cpus: the CPUs that it may run on (``Cpus_allowed_list``).
    :param promised_cpus: the CPUs that the domain pins it to; None if none.
    :param promised: the schedule that the domain gives it; None if none.
    """

    role: str
    thread: int
    cpus: CpuSet
    schedule: Schedule
    promised_cpus: CpuSet | None = None
    promised: Schedule | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GuestMemory:
    """Memory of a guest, KiB; see proc_pid_status(5).

    :param locked: whether mlockall(2) is in effect.
    :param huge: ``HugetlbPages``.
    :param size: size of the guest's memory.
    :param promised_locked: whether the domain requests locked memory.
    :param promised_huge: whether the domain requests huge pages.
    """

    locked: bool
    huge: int
    size: int
    promised_locked: bool
    promised_huge: bool


@dataclasses.dataclass(frozen=True, slots=True)
class GuestDevice:
    """A PCI device of the host that is assigned to a guest.

    :param driver: its driver on the host; None if it has none.
    :param irq_cpus: the CPUs that its interrupts fire on.
    :param attached: False for a device in the domain's configuration that was
        removed from the running guest.
    """

    address: str
    driver: str | None
    irq_cpus: CpuSet
    attached: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class GuestOnload:
    """State of Onload in a guest that requests it.

    :param state: ``asked``, ``injected`` or ``accelerated``.
    :param why: one clause on what keeps it from the next state.
    """

    state: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True)
class RunningGuest:
    """A running guest, as libvirt and the kernel show it.

    :param instance: its UUID.
    :param guest_class: ``sriov_rt:guest`` of its flavor.
    :param realtime: whether it was promised realtime vCPUs, or dedicated
        pCPUs if it is a container.
    :param virtio: names of its virtio devices.
    :param cpuset: the pCPUs that a container is confined to; None for a
        virtual machine and for an unconfined container.
    :param is_plain: whether it uses the kernel's network stack although it
        requests Onload (``[onload] second_endpoint``).
    """

    instance: str
    guest_class: str
    realtime: bool
    threads: tuple[GuestThread, ...]
    memory: GuestMemory | None
    devices: tuple[GuestDevice, ...]
    virtio: tuple[str, ...]
    cpuset: CpuSet | None = None
    is_plain: bool = False

    @property
    def realtime_cpus(self) -> CpuSet:
        """The pCPUs dedicated to it for realtime."""
        if self.cpuset is not None:
            return self.cpuset if self.realtime else CpuSet()
        return CpuSet().union(
            *(
                each.promised_cpus
                for each in self.threads
                if each.role.startswith("vcpu ")
                and each.promised is not None
                and each.promised_cpus is not None
            )
        )


@dataclasses.dataclass(frozen=True, slots=True)
class OtherThread:
    """A thread that ran on a pCPU of realtime guests.

    :param cpu: the CPU that it ran on last.
    :param name: name of its process, printable.
    :param instance: the guest that it works for; empty if there is none.
    :param owner: its program and unit, as far as known, if there is no guest.
    """

    thread: int
    name: str
    cpu: int
    instance: str = ""
    owner: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class PodCpus:
    """Static CPUs of a pod's container, which the kubelet dedicated to it.

    :param pod: UID of the pod.
    """

    pod: str
    container: str
    cpus: CpuSet


@dataclasses.dataclass(frozen=True, slots=True)
class KubeletCpus:
    """CPUs as assigned by the kubelet's CPU manager.

    :param shared: CPUs of all other containers; None if the kubelet confines
        none.
    """

    pods: tuple[PodCpus, ...]
    shared: CpuSet | None


@dataclasses.dataclass(frozen=True, slots=True)
class Drift:
    """Drift of a running guest from what was promised, and the remedy.

    :param code: code of the Reason.
    :param subject: the thread's role, the device or the program; may be
        empty.
    :param since: Unix time when it was first seen, seconds.
    """

    instance: str
    code: str
    subject: str
    message: str
    remedy: str
    since: float


@dataclasses.dataclass(frozen=True, slots=True)
class AuditFacts:
    """Result of the last audit of the host's guests."""

    drifts: tuple[Drift, ...] | Unknown


NO_AUDIT_REPORTED = AuditFacts(NOT_REPORTED)
