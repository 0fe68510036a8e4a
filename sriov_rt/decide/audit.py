# SPDX-License-Identifier: Apache-2.0

"""The audit: why a running guest is not what was promised."""

import itertools
from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.decide import onload
from sriov_rt.decide.unknown_facts import is_unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import HeldVf
from sriov_rt.facts import LostPort
from sriov_rt.facts import QuarantinedPort
from sriov_rt.facts.guests import GuestOnload
from sriov_rt.facts.guests import GuestThread
from sriov_rt.facts.guests import KubeletCpus
from sriov_rt.facts.guests import OtherThread
from sriov_rt.facts.guests import RunningGuest
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Endings of the drivers that pass a device to a guest (drivers/vfio/pci).
_VFIO = ("vfio-pci", "vfio_pci")

_BARE = "bare"

#: States of Onload before the last one.
_REQUESTED, _INJECTED = "asked", "injected"


def why_not(
    guest: RunningGuest,
    host: DecisiveFacts,
    others: Iterable[OtherThread] = (),
    acceleration: GuestOnload | None = None,
) -> tuple[Reason, ...]:
    """Return every Reason why a guest is not what was promised.

    :param host: facts of its host.
    :param others: threads that ran on pCPUs of realtime guests.
    :param acceleration: its state of Onload; None if it requests none.
    """
    return tuple(_reasons(guest, host, others, acceleration))


def pods(
    kubelet: KubeletCpus, host: DecisiveFacts, realtime: CpuSet
) -> Iterable[tuple[str, Reason]]:
    """Yield pairs of a pod's UID (empty for all pods) and a Reason.

    The kubelet knows nothing of isolation, so it promises no isolated CPU.

    :param realtime: pCPUs of running realtime guests.
    """
    dedicated = host.compute.dedicated
    ours = realtime
    if not isinstance(dedicated, Unknown) and dedicated is not None:
        ours |= dedicated
    for each in kubelet.pods:
        named = {"pod": each.pod, "container": each.container}
        if both := each.cpus & ours:
            cpus = format_cpu_list(both)
            yield each.pod, reason("pod_cpus_dedicated", cpus=cpus, **named)
        isolated = host.cpus.isolated
        if isinstance(isolated, Unknown) or not isolated:
            continue
        if beyond := each.cpus - isolated:
            cpus = format_cpu_list(beyond)
            yield (
                each.pod,
                reason("pod_cpus_not_isolated", cpus=cpus, **named),
            )
    if kubelet.shared is not None and (both := kubelet.shared & realtime):
        yield "", reason("pods_on_pcpus", cpus=format_cpu_list(both))


def quarantined(port: QuarantinedPort) -> Reason:
    """Return the Reason of a quarantined port."""
    return reason("port_quarantined", port=port.port, why=port.why)


def lost(port: LostPort) -> Reason:
    """Return the Reason of a lost port, whose VF or NIC is gone."""
    return reason(
        "port_lost_by_guest" if port.of_guest else "port_lost",
        port=port.port,
        name=port.interface,
        instance=port.instance,
    )


def vf_quarantined(vf: HeldVf) -> Reason:
    """Return the Reason of a VF that another manager has left dirty."""
    return reason(
        "vf_quarantined", address=vf.vf, holder=vf.holder, why=vf.why
    )


def _reasons(
    guest: RunningGuest,
    host: DecisiveFacts,
    others: Iterable[OtherThread],
    acceleration: GuestOnload | None,
) -> Iterator[Reason]:
    uuid = guest.instance
    for each in guest.threads:
        yield from _thread(each, uuid)
    yield from _isolation(guest, host.cpus.isolated)
    yield from _memory(guest)
    yield from _devices(guest)
    for other in others:
        if other.cpu in guest.realtime_cpus and other.instance != uuid:
            yield reason(
                "guest_cpu_shared",
                thread=other.thread,
                name=other.name,
                of=f" of {other.owner}" if other.owner else "",
                cpu=other.cpu,
            )
    if acceleration is not None and not guest.is_plain:
        yield from _onload(acceleration, uuid, host)


def _onload(
    found: GuestOnload, instance: str, host: DecisiveFacts
) -> Iterator[Reason]:
    if found.state == _REQUESTED:
        yield reason("guest_without_onload", instance=instance, why=found.why)
    if found.state == _INJECTED:
        # If Onload is usable, the guest has just not opened a socket yet.
        known = (x for x in onload.usable(host) if not is_unknown(x))
        for each in itertools.islice(known, 1):
            yield reason(
                "guest_onload_idle", instance=instance, why=each.problem
            )


def _thread(thread: GuestThread, uuid: str) -> Iterator[Reason]:
    pinned = thread.promised_cpus
    if pinned is not None and not thread.cpus <= pinned:
        yield reason(
            "guest_thread_moved",
            role=thread.role,
            thread=thread.thread,
            cpus=format_cpu_list(thread.cpus),
            promised=format_cpu_list(pinned),
            instance=uuid,
        )
    if thread.promised is not None and thread.schedule != thread.promised:
        yield reason(
            "guest_thread_rescheduled",
            role=thread.role,
            thread=thread.thread,
            schedule=str(thread.schedule),
            promised=str(thread.promised),
            instance=uuid,
        )


def _isolation(
    guest: RunningGuest, isolated: CpuSet | Unknown
) -> Iterator[Reason]:
    if isinstance(isolated, Unknown) or not guest.realtime:
        return
    if beyond := guest.realtime_cpus - isolated:
        yield reason(
            "guest_cpus_not_isolated",
            cpus=format_cpu_list(beyond),
            instance=guest.instance,
        )


def _memory(guest: RunningGuest) -> Iterator[Reason]:
    memory = guest.memory
    if memory is None:
        return
    # mlockall() skips huge pages (mlock_fixup in the kernel's mm/mlock.c)
    # and locks the rest of the process.
    if memory.promised_locked and not memory.locked:
        yield reason("guest_memory_unlocked", instance=guest.instance)
    if memory.promised_huge and memory.huge < memory.size:
        yield reason(
            "guest_memory_small",
            huge_mib=memory.huge // 1024,
            size_mib=memory.size // 1024,
            instance=guest.instance,
        )


def _devices(guest: RunningGuest) -> Iterator[Reason]:
    if guest.guest_class == _BARE:
        for name in guest.virtio:
            yield reason(
                "guest_device_forbidden", device=name, instance=guest.instance
            )
    pcpus: CpuSet = guest.realtime_cpus
    for each in guest.devices:
        if not each.attached:
            yield reason(
                "guest_device_pulled",
                address=each.address,
                instance=guest.instance,
            )
        elif each.driver is None or not each.driver.endswith(_VFIO):
            yield reason(
                "guest_device_lost",
                address=each.address,
                driver=each.driver or "none",
                instance=guest.instance,
            )
        if found := each.irq_cpus & pcpus:
            yield reason(
                "guest_irq_on_pcpu",
                address=each.address,
                cpus=format_cpu_list(found),
            )
