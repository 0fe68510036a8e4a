# SPDX-License-Identifier: Apache-2.0

"""Guests that libvirt runs on this host, from its own status files.

libvirt's drivers keep one of each domain that runs: its state, the process
that it is in, and the whole domain. They are root's alone, so that nothing in
a guest has a say in them.
"""

import dataclasses
import itertools
import re
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.guest.domain import MAX_DOCUMENT
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.guest.xml import text_of
from sriov_rt.host.guest_processes import CONTAINERS
from sriov_rt.host.guest_processes import KEEPER
from sriov_rt.host.guest_processes import MACHINES
from sriov_rt.host.guest_processes import STATUS
from sriov_rt.host.guest_processes import SUFFIX
from sriov_rt.host.root import Root
from sriov_rt.parse.pinning import MAX_VCPUS

#: The longest command line that is taken in, in bytes; QEMU's has a few
#: hundred for each device.
_MAX_COMMAND = 1024 * 1024

#: VIR_DOMAIN_PAUSED_STARTING_UP, from before QEMU is there until its threads
#: are pinned (qemuProcessInit in libvirt's src/qemu/qemu_process.c).
_STARTING = " reason='starting up'"
_VCPU = re.compile(r"<vcpu id='([0-9]{1,5})' pid='([0-9]{1,7})'/>")
_PARENT = re.compile(r"^PPid:\t([0-9]{1,7})$", re.MULTILINE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """One guest that runs.

    :param instance: its UUID, which is the instance's of Nova.
    :param process: QEMU's, or the one that keeps the container.
    :param vcpu_threads: vCPU to its thread.
    :param is_starting: whether libvirt still makes it what its domain says.
    """

    instance: str
    process: int
    domain: Domain
    vcpu_threads: Mapping[int, int] = dataclasses.field(default_factory=dict)
    is_starting: bool = False


def guests(root: Root, directory: str) -> tuple[Guest, ...] | Unknown:
    """Return the guests of one of libvirt's drivers, sorted by instance.

    A file that is none of libvirt's is passed over, and so is one that a
    libvirtd has left behind that was killed.

    :param directory: CONTAINERS or MACHINES.
    """
    names = root.list_dir(directory)
    if isinstance(names, Unknown):
        # That driver has run nothing since the host started.
        return () if root.exists(directory) is False else names
    found = []
    for name in names:
        if not name.endswith(SUFFIX):
            continue
        text = root.read_text(f"{directory}/{name}", MAX_DOCUMENT)
        if isinstance(text, Unknown):
            if root.exists(f"{directory}/{name}") is False:
                continue  # it has ended meanwhile
            return text
        guest = parse(text)
        if guest is not None and _runs(root, guest):
            found.append(guest)
    return tuple(sorted(found, key=lambda each: each.instance))


def every(root: Root) -> tuple[Guest, ...] | Unknown:
    """Return the machines and the containers that run."""
    machines = guests(root, MACHINES)
    containers = guests(root, CONTAINERS)
    if isinstance(machines, Unknown):
        return machines
    if isinstance(containers, Unknown):
        return containers
    return (*machines, *containers)


def below(root: Root, keepers: Mapping[int, str]) -> Mapping[int, str]:
    """Return each process that was started in containers, and its owner.

    :param keepers: the process that keeps a container, to its instance;
        without any, nothing is read.
    :returns: process to instance; the keepers are left out.
    """
    names = root.list_dir("proc") if keepers else ()
    if isinstance(names, Unknown):
        return {}
    parents: dict[int, int] = {}
    for name in names:
        if name.isascii() and name.isdigit():
            text = root.read_text(f"proc/{name}/status")
            parent = isinstance(text, str) and _PARENT.search(text)
            if parent:
                parents[int(name)] = int(parent[1])
    found = {}
    for process in parents:
        instance = _instance(process, parents, keepers)
        if instance is not None:
            found[process] = instance
    return found


def _instance(
    process: int, parents: Mapping[int, int], keepers: Mapping[int, str]
) -> str | None:
    # Read one after the other, the parents of processes that come and go
    # may make a ring.
    for _ in range(len(parents)):
        process = parents.get(process, 0)
        if process in keepers:
            return keepers[process]
        if process == 0:
            return None
    return None


def parse(text: str) -> Guest | None:
    """Return the guest of a status file of libvirt's; None if it is none."""
    header = STATUS.search(text)
    start, end = text.find("<domain "), text.rfind("</domain>")
    if header is None or not 0 <= start < end:
        return None
    try:
        domain = parse_domain(text[start : end + len("</domain>")])
    except DomainRejected:
        return None
    instance = text_of(domain.root.find("uuid"))
    if not _UUID.fullmatch(instance):
        return None
    threads = {
        int(each[1]): int(each[2])
        for each in itertools.islice(_VCPU.finditer(text, 0, start), MAX_VCPUS)
    }
    is_starting = _STARTING in header[0]
    return Guest(instance, int(header[1]), domain, threads, is_starting)


def _runs(root: Root, guest: Guest) -> bool:
    # A libvirtd that was killed leaves its files, and numbers come again.
    place = f"proc/{guest.process}"
    if guest.domain.is_container:
        text = root.read_text(f"{place}/comm")
        return isinstance(text, str) and text.strip() == KEEPER
    # QEMU has many names, and libvirt gives each its UUID.
    text = root.read_text(f"{place}/cmdline", _MAX_COMMAND)
    if isinstance(text, Unknown):
        return root.exists(place) is not False
    return guest.instance in text
