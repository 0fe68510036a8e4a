# SPDX-License-Identifier: Apache-2.0

"""Processes and their threads, as /proc shows them."""

import dataclasses
import re

from sriov_rt.parse import errors
from sriov_rt.parse.text import masked

#: The longest accepted text of a file, in characters.
MAX_TEXT = 8192

#: The longest name of a unit that is kept, in characters.
MAX_NAME = 64

#: SCHED_* of include/uapi/linux/sched.h.
POLICIES = ("other", "fifo", "rr", "batch", "", "idle", "deadline", "ext")

#: PF_KTHREAD and PF_NO_SETAFFINITY of include/linux/sched.h.
_KERNEL_THREAD = 0x00200000
_NO_SETAFFINITY = 0x04000000

#: A container's id in its cgroup's name: 64 hex digits, of which people use
#: the first 12.
_CONTAINER_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")
#: Cgroups that libvirt makes for a guest, with systemd and without
#: (src/util/virsystemd.c, src/util/vircgroup.c). Not inside a container,
#: whose root can choose the names of its cgroups.
_GUEST = re.compile(
    r"(?:/[^/]+\.slice)*/machine-(?:qemu|lxc)\\x2d"
    r"|(?:/machine|/[^/]+\.partition)*/[^/]+\.libvirt-(?:qemu|lxc)(?:/|$)"
)
#: The cgroup that a kubelet makes for a pod, with its UID.
_POD = re.compile(
    r"/kubepods.{0,200}?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})"
)
#: Names of a systemd unit, or of an LXC container.
_UNIT = re.compile(r".+\.(?:service|scope)|lxc\.payload.+")
_FIELD = re.compile(r"^(\w{1,32}):[ \t]*(.{0,4000})$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    """A line of proc_pid_stat(5).

    :param cpu: the CPU that the thread ran on last.
    :param is_bound: whether the kernel keeps it on its CPUs, as it does with
        per-CPU threads.
    :param ticks: CPU time that it has used, in units of 1/100 s (USER_HZ).
    :param started: when it started, in the same units since the boot.
    """

    thread: int
    name: str
    is_kernel: bool
    cpu: int
    priority: int
    policy: str
    parent: int = 0
    is_bound: bool = False
    ticks: int = 0
    started: int = 0


def parse_stat(text: str) -> Stat:
    """Return a thread's ``stat`` file as a :class:`Stat`.

    :raises ParseError: for another text.
    """
    errors.check_length("stat of a thread", text, MAX_TEXT)
    # A name may contain any characters, but no later field has a ")".
    front, _, behind = text.rpartition(") ")
    number, _, name = front.partition(" (")
    # Numbered from 3 in proc_pid_stat(5): the state is the first one here.
    fields = behind.split()
    try:
        policy, flags = int(fields[38]), int(fields[6])
        return Stat(
            thread=int(number),
            name=masked(name),
            is_kernel=bool(flags & _KERNEL_THREAD),
            cpu=int(fields[36]),
            priority=int(fields[37]),
            policy=POLICIES[policy]
            if 0 <= policy < len(POLICIES)
            else "unknown",
            parent=int(fields[1]),
            is_bound=bool(flags & _NO_SETAFFINITY),
            ticks=int(fields[11]) + int(fields[12]),
            started=int(fields[19]),
        )
    except (ValueError, IndexError):
        raise errors.ParseError(
            "stat of a thread", text, "40 fields expected"
        ) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Owner of a process, from its cgroup.

    :param unit: its systemd unit or container, printable; empty for none.
    :param pod: UID of its pod; empty for none.
    :param is_guest: whether libvirt made the cgroup for a guest.
    """

    unit: str = ""
    pod: str = ""
    is_guest: bool = False


def parse_place(text: str) -> Place:
    """Return the owner from a ``cgroup`` file; see cgroups(7).

    :raises ParseError: for a text that is too long.
    """
    errors.check_length("cgroup of a process", text, MAX_TEXT)
    # The deepest path, whether of cgroup v2, systemd's or another hierarchy.
    paths = [line.split(":", 2)[-1] for line in text.splitlines()]
    path = max(paths, key=lambda each: each.count("/"), default="")
    pod = _POD.match(path)
    parts = [each for each in path.split("/") if each]
    unit = next((x for x in reversed(parts) if _UNIT.fullmatch(x)), "")
    if not unit and parts and _CONTAINER_ID.search(parts[-1]):
        unit = parts[-1]
    unit = _CONTAINER_ID.sub(r"\1", unit)[:MAX_NAME]
    return Place(
        masked(unit),
        pod[1].replace("_", "-") if pod else "",
        _GUEST.match(path) is not None,
    )


def parse_status(text: str) -> dict[str, str]:
    """Return the fields of a ``status`` file and their values.

    :raises ParseError: for a text that is too long.
    """
    errors.check_length("status of a process", text, MAX_TEXT)
    return {each[1]: each[2].strip() for each in _FIELD.finditer(text)}


def kib(fields: dict[str, str], name: str) -> int:
    """Return a memory field, KiB; 0 if it is missing.

    A kernel thread has no such fields, and a kernel without huge pages has
    only some.
    """
    number, _, unit = fields.get(name, "").partition(" ")
    if unit != "kB" or not (number.isascii() and number.isdigit()):
        return 0
    return int(number[:18])
