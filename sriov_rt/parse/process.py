# SPDX-License-Identifier: Apache-2.0

"""Processes and their threads, as /proc shows them."""

import dataclasses
import re

from sriov_rt.parse import errors

#: The longest text of a file that is taken, in characters.
MAX_TEXT = 8192

#: SCHED_* of include/uapi/linux/sched.h.
POLICIES = ("other", "fifo", "rr", "batch", "", "idle", "deadline", "ext")

#: PF_KTHREAD of include/linux/sched.h.
_KERNEL_THREAD = 0x00200000

_STAT = re.compile(
    r"([0-9]{1,10}) \((.{0,64})\) (\S(?: -?[0-9]{1,20}){38,60})\s*", re.DOTALL
)
_FIELD = re.compile(r"^(\w{1,32}):[ \t]*(.{0,4000})$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    """A line of proc_pid_stat(5).

    :param cpu: the CPU that the thread ran on last.
    """

    thread: int
    name: str
    is_kernel: bool
    cpu: int
    priority: int
    policy: str


def parse_stat(text: str) -> Stat:
    """Return what a ``stat`` file says of a thread.

    :raises ParseError: for another text.
    """
    errors.check_length("stat of a thread", text, MAX_TEXT)
    found = _STAT.fullmatch(text)
    if found is None:
        raise errors.ParseError("stat of a thread", text, "40 fields expected")
    # Numbered from 3 in proc_pid_stat(5): the state is the first one here.
    fields = found[3].split(" ")
    policy = int(fields[38])
    return Stat(
        thread=int(found[1]),
        name="".join(c if c.isprintable() else "?" for c in found[2]),
        is_kernel=bool(int(fields[6]) & _KERNEL_THREAD),
        cpu=int(fields[36]),
        priority=int(fields[37]),
        policy=POLICIES[policy] if 0 <= policy < len(POLICIES) else "unknown",
    )


def parse_status(text: str) -> dict[str, str]:
    """Return field to value of a ``status`` file.

    :raises ParseError: for a text that is too long.
    """
    errors.check_length("status of a process", text, MAX_TEXT)
    return {each[1]: each[2].strip() for each in _FIELD.finditer(text)}


def kib(fields: dict[str, str], name: str) -> int:
    """Return a field of memory, KiB; 0 if it is not there.

    A kernel thread has none, and a kernel without huge pages not all.
    """
    number, _, unit = fields.get(name, "").partition(" ")
    if unit != "kB" or not (number.isascii() and number.isdigit()):
        return 0
    return int(number[:18])
