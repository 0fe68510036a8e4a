# SPDX-License-Identifier: Apache-2.0

"""Guests that libvirt runs on this host, from its own status files.

libvirt's drivers keep one file for each running domain: its state, its
process and the whole domain. Only root can write them, so nothing in a guest
can influence them.
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
from sriov_rt.host.guest_processes import CONTAINERS as CONTAINERS
from sriov_rt.host.guest_processes import KEEPER as KEEPER
from sriov_rt.host.guest_processes import MACHINES as MACHINES
from sriov_rt.host.guest_processes import STATUS
from sriov_rt.host.guest_processes import SUFFIX
from sriov_rt.host.root import Root
from sriov_rt.parse.pinning import MAX_VCPUS

#: The longest command line that is accepted, bytes; QEMU's has a few hundred
#: for each device.
_MAX_COMMAND = 1024 * 1024

#: VIR_DOMAIN_PAUSED_STARTING_UP, from before QEMU starts until its threads
#: are pinned (qemuProcessInit in libvirt's src/qemu/qemu_process.c).
_STARTING = " reason='starting up'"
_VCPU = re.compile(r"<vcpu id='([0-9]{1,5})' pid='([0-9]{1,7})'/>")
_PARENT = re.compile(r"^PPid:\t([0-9]{1,7})$", re.MULTILINE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """One running guest.

    :param instance: its UUID, which is that of Nova's instance.
    :param process: process of QEMU, or the container's controller.
    :param vcpu_threads: vCPU to its thread.
    :param is_starting: whether libvirt is still setting it up.
    """

    instance: str
    process: int
    domain: Domain
    vcpu_threads: Mapping[int, int] = dataclasses.field(default_factory=dict)
    is_starting: bool = False


def guests(root: Root, directory: str) -> tuple[Guest, ...] | Unknown:
    """Return the guests of one of libvirt's drivers, sorted by instance.

    Files that are not libvirt's are skipped, as are stale files of a libvirtd
    that was killed.

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
                continue  # the guest has just ended
            return text
        guest = parse(text)
        if guest is not None and _runs(root, guest):
            found.append(guest)
    return tuple(sorted(found, key=lambda each: each.instance))


def every(root: Root) -> tuple[Guest, ...] | Unknown:
    """Return the running machines and containers."""
    machines = guests(root, MACHINES)
    containers = guests(root, CONTAINERS)
    if isinstance(machines, Unknown):
        return machines
    if isinstance(containers, Unknown):
        return containers
    return (*machines, *containers)


def below(root: Root, keepers: Mapping[int, str]) -> Mapping[int, str]:
    """Return the processes in containers, each with its owner.

    :param keepers: process of a container's controller to its instance; if
        empty, nothing is read.
    :returns: process to instance; the controllers are left out.
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
    # Parents are read one by one while processes come and go, so they may
    # form a loop.
    for _ in range(len(parents)):
        process = parents.get(process, 0)
        if process in keepers:
            return keepers[process]
        if process == 0:
            return None
    return None


def parse(text: str) -> Guest | None:
    """Return the guest in a status file of libvirt; None if invalid."""
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
    # A killed libvirtd leaves its files behind, and PIDs are reused.
    place = f"proc/{guest.process}"
    if guest.domain.is_container:
        text = root.read_text(f"{place}/comm")
        return isinstance(text, str) and text.strip() == KEEPER
    # QEMU's program has many names, but its command line has the UUID.
    text = root.read_text(f"{place}/cmdline", _MAX_COMMAND)
    if isinstance(text, Unknown):
        return root.exists(place) is not False
    return guest.instance in text
