# SPDX-License-Identifier: Apache-2.0

"""State of running guests, as the kernel shows it.

Read from /proc and /sys only: libvirt and QEMU are not called, and nothing in
a guest can influence it. A thread that ends meanwhile is left out.
"""

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts.guests import GuestDevice
from sriov_rt.facts.guests import GuestMemory
from sriov_rt.facts.guests import GuestThread
from sriov_rt.facts.guests import RunningGuest
from sriov_rt.facts.guests import Schedule
from sriov_rt.guest import bare
from sriov_rt.guest import metadata
from sriov_rt.guest.domain import MAX_DOCUMENT
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.report import describe
from sriov_rt.guest.running import Guest
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import cpuset
from sriov_rt.guest.xml import cpusets
from sriov_rt.guest.xml import text_of
from sriov_rt.host import occupancy
from sriov_rt.host import procfs
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import process

#: Persistent configurations of domains (configDir in libvirt's
#: src/qemu/qemu_conf.c).
_CONFIGURATIONS = "etc/libvirt/qemu"

#: QEMU's name of an I/O thread, and the kernel's of a vhost worker.
_IOTHREAD = re.compile(r"IO iothread([0-9]{1,5})")
_VHOST = "vhost-"

_EMULATOR = "emulator"
_PROCESS = "process"

#: Bytes read of /proc/PID/smaps, enough for some mappings
#: (proc_pid_smaps(5)).
_SMAPS_HEAD = 4096
_VM_FLAGS = re.compile(rb"^VmFlags: (.*)$", re.MULTILINE)

#: Units of <memory> in KiB (virScaleInteger in libvirt's src/util/virutil.c).
_UNITS = {"b": 0, "KiB": 1, "k": 1, "MiB": 1024, "M": 1024, "GiB": 1024**2}


class Promised:
    """CPUs and schedules of a guest's threads in its domain, by role."""

    def __init__(self, domain: Domain) -> None:
        self.cpus: dict[str, CpuSet] = {
            f"vcpu {vcpu}": cpus for vcpu, cpus in domain.pins.items()
        }
        self.schedules: dict[str, Schedule] = {}
        for each in domain.tunes("emulatorpin"):
            self.cpus[_EMULATOR] = cpuset(each.get("cpuset", ""))
        for each in domain.tunes("iothreadpin"):
            role = f"iothread {each.get('iothread')}"
            self.cpus[role] = cpuset(each.get("cpuset", ""))
        for kind in ("vcpu", "iothread"):
            for each, ids in cpusets(domain.tunes(f"{kind}sched"), f"{kind}s"):
                for number in ids:
                    self.schedules[f"{kind} {number}"] = _schedule(each)
        for each in domain.tunes("emulatorsched"):
            self.schedules[_EMULATOR] = _schedule(each)
        # libvirt puts vhost workers in the cgroup of the emulator.
        if _EMULATOR in self.cpus:
            self.cpus["vhost"] = self.cpus[_EMULATOR]


def _schedule(element: Element) -> Schedule:
    priority = element.get("priority", "0")
    return Schedule(
        element.get("scheduler", "other"),
        int(priority[:3]) if priority.isascii() and priority.isdigit() else 0,
    )


def observe(
    root: Root, guest: Guest, processes: Iterable[int] = ()
) -> RunningGuest:
    """Return a running guest as the kernel shows it.

    :param processes: processes in the guest, if it is a container.
    :raises DomainRejected: for a domain that contradicts itself.
    """
    domain = guest.domain
    return RunningGuest(
        instance=guest.instance,
        guest_class=metadata.marked(domain, "class") or "standard",
        realtime=metadata.promised(domain).realtime,
        threads=tuple(threads(root, guest, processes)),
        memory=_memory(root, guest),
        devices=tuple(_devices(root, domain)),
        virtio=tuple(
            f"{each.tag} {describe(each)}".rstrip()
            for each in domain.devices()
            if each.tag != "controller" and bare.is_virtio(each, domain)
        )
        if not domain.is_container
        else (),
        cpuset=domain.cpuset if domain.is_container else None,
        is_plain=metadata.marked(domain, metadata.ONLOAD_MARK) is not None,
    )


def threads(
    root: Root, guest: Guest, processes: Iterable[int] = ()
) -> Iterator[GuestThread]:
    """Yield the threads of a guest.

    :param processes: processes in the guest, if it is a container.
    :raises DomainRejected: for a domain that contradicts itself.
    """
    if guest.domain.is_container:
        for each in processes:
            yield from _inside(root, each, guest.domain.cpuset)
        return
    promised = Promised(guest.domain)
    vcpus = {thread: vcpu for vcpu, thread in guest.vcpu_threads.items()}
    directory = f"proc/{guest.process}/task"
    for name in procfs.numbers(root, directory):
        stat = procfs.stat(root, f"{directory}/{name}/stat")
        cpus = procfs.allowed(root, f"{directory}/{name}/status")
        if stat is None or cpus is None:
            continue
        role = _role(stat, vcpus)
        schedule = promised.schedules.get(role)
        if role == _EMULATOR and stat.thread != guest.process:
            # libvirt schedules only the first one.
            schedule = None
        yield GuestThread(
            role,
            stat.thread,
            cpus,
            Schedule(stat.policy, stat.priority),
            promised.cpus.get(role),
            schedule,
        )


def _inside(
    root: Root, number: int, promised: CpuSet | None
) -> Iterator[GuestThread]:
    """Yield the threads of one process in a container.

    The tenant sets their policies.
    """
    directory = f"proc/{number}/task"
    for name in procfs.numbers(root, directory):
        stat = procfs.stat(root, f"{directory}/{name}/stat")
        cpus = procfs.allowed(root, f"{directory}/{name}/status")
        if stat is not None and cpus is not None:
            schedule = Schedule(stat.policy, stat.priority)
            yield GuestThread(_PROCESS, stat.thread, cpus, schedule, promised)


def _role(stat: process.Stat, vcpus: Mapping[int, int]) -> str:
    if stat.thread in vcpus:
        return f"vcpu {vcpus[stat.thread]}"
    if found := _IOTHREAD.fullmatch(stat.name):
        return f"iothread {found[1]}"
    # From Linux 6.4 on, vhost is a thread of QEMU (vhost_task_create()).
    return "vhost" if stat.name.startswith(_VHOST) else _EMULATOR


def vhost_workers(
    root: Root, guests: Mapping[int, Guest]
) -> Iterator[tuple[Guest, GuestThread]]:
    """Yield vhost workers that are kernel threads, as before Linux 6.4.

    :param guests: process to its guest.
    """
    for name in procfs.numbers(root, "proc", procfs.MAX_PROCESSES):
        stat = procfs.stat(root, f"proc/{name}/stat")
        if stat is None or not (
            stat.is_kernel and stat.name.startswith(_VHOST)
        ):
            continue
        owner = stat.name.removeprefix(_VHOST)
        guest = guests.get(int(owner)) if owner.isdecimal() else None
        cpus = procfs.allowed(root, f"proc/{name}/status")
        if guest is not None and cpus is not None:
            yield (
                guest,
                GuestThread(
                    "vhost",
                    stat.thread,
                    cpus,
                    Schedule(stat.policy, stat.priority),
                    Promised(guest.domain).cpus.get("vhost"),
                ),
            )


def realtime_threads(root: Root, cpus: CpuSet) -> Iterator[GuestThread]:
    """Yield realtime threads of programs that may run on these CPUs only.

    A thread's role is its name.
    """
    some = frozenset(cpus)
    for each in occupancy.Threads(root, some.issuperset):
        stat = each.stat
        if (
            each.allowed
            and not stat.is_kernel
            and stat.policy in ("fifo", "rr", "deadline")
        ):
            how = Schedule(stat.policy, stat.priority)
            yield GuestThread(stat.name, stat.thread, each.allowed, how)


def _memory(root: Root, guest: Guest) -> GuestMemory | None:
    domain = guest.domain
    fields = values.parsed(
        root, f"proc/{guest.process}/status", process.parse_status
    )
    backing = domain.root.find("memoryBacking")
    if isinstance(fields, Unknown) or backing is None:
        return None
    return GuestMemory(
        locked=_is_locked(root, guest.process),
        huge=process.kib(fields, "HugetlbPages"),
        size=_size(domain.root.find("currentMemory")),
        promised_locked=backing.find("locked") is not None,
        promised_huge=backing.find("hugepages") is not None,
    )


def _is_locked(root: Root, number: int) -> bool:
    """Return whether a process has locked its memory; True if unknown.

    VmLck of its status is no proof: memory that is pinned for a device of the
    guest is counted there as well (vfio_lock_acct in the kernel's
    drivers/vfio/vfio_iommu_type1.c). mlockall() marks every mapping but huge
    pages, and the first mappings are those of QEMU's program.
    """
    stream = root.open_file(f"proc/{number}/smaps")
    if isinstance(stream, Unknown):
        return True
    with stream:
        try:
            found = _VM_FLAGS.search(stream.read(_SMAPS_HEAD))
        except OSError:
            return True  # the process has ended
    return found is None or b"lo" in found[1].split()


def _size(element: Element | None) -> int:
    """Return an amount of memory, KiB; 0 if it is absent or invalid."""
    if element is None:
        return 0
    text = text_of(element).strip()[:18]
    unit = _UNITS.get(element.get("unit", "KiB"), 0)
    return int(text) * unit if text.isascii() and text.isdigit() else 0


def _devices(root: Root, domain: Domain) -> Iterator[GuestDevice]:
    there = set(_addresses(domain))
    for name in _addresses(domain):
        device = f"sys/bus/pci/devices/{name}"
        driver = root.read_link(f"{device}/driver")
        yield GuestDevice(
            name,
            driver.rpartition("/")[2] if isinstance(driver, str) else None,
            _irq_cpus(root, device),
        )
    # When a device is unplugged, libvirt removes it from the running domain
    # but not from its configuration (processDeviceDeletedEvent in
    # src/qemu/qemu_driver.c).
    for name in _addresses(_configured(root, domain)):
        if name not in there:
            yield GuestDevice(name, None, CpuSet(), attached=False)


def _configured(root: Root, domain: Domain) -> Domain | None:
    """Return a domain's persistent configuration; None if it is unknown."""
    name = text_of(domain.root.find("name"))
    if "/" in name:
        return None
    text = root.read_text(f"{_CONFIGURATIONS}/{name}.xml", MAX_DOCUMENT)
    if isinstance(text, Unknown):
        return None
    try:
        found = parse_domain(text[text.find("<domain ") :])
    except DomainRejected:
        return None
    ours, theirs = (text_of(x.root.find("uuid")) for x in (domain, found))
    return found if ours == theirs else None


def _addresses(domain: Domain | None) -> Iterator[str]:
    """Yield the addresses of the PCI devices that a domain has."""
    for each in () if domain is None else domain.devices():
        address = None
        if each.tag in ("hostdev", "interface"):
            address = each.find("source/address")
        if address is None or address.get("bus") is None:
            continue
        try:
            name = "{:04x}:{:02x}:{:02x}.{:x}".format(
                *(
                    int(address.get(key, "0")[:6], 16)
                    for key in ("domain", "bus", "slot", "function")
                )
            )
        except ValueError:
            continue
        if address.get("slot") is not None:  # a USB address has none
            yield name


def _irq_cpus(root: Root, device: str) -> CpuSet:
    found = CpuSet()
    for irq in procfs.numbers(root, f"{device}/msi_irqs"):
        cpus = values.cpu_set(root, f"proc/irq/{irq}/effective_affinity_list")
        if not isinstance(cpus, Unknown):
            found |= cpus
    return found
