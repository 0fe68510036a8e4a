# SPDX-License-Identifier: Apache-2.0

"""vCPU hotplug of another guest, as a load for ``sriov-rt verify latency``.

Plugging a vCPU starts a thread, makes a control group and keeps the emulator
busy. A guest that the operator names gets a vCPU, or loses one if it has its
maximum, and returns to its number two seconds later, again and again.

libvirt's driver for QEMU unplugs no vCPU that a guest was started with:
qemuDomainSelectHotplugVcpuEntities() of its qemu_hotplug.c. So a guest that
can take another vCPU gets one first.
"""

import contextlib
import dataclasses
import logging
import math
import re
import time
from collections.abc import Callable
from collections.abc import Iterator

from sriov_rt import exceptions
from sriov_rt.parse import cpulist
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.text import printable
from sriov_rt.verify import process
from sriov_rt.verify.errors import HotplugRefused
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed

LOG = logging.getLogger(__name__)

TOOL = "virsh"
PACKAGE = "libvirt-clients"

#: A guest's name or UUID that virsh cannot take for an option.
DOMAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,254}")

#: Seconds between two changes of the number of vCPUs.
PAUSE_S = 2

#: Seconds that virsh may take: libvirt waits 30 s for other jobs of the guest
#: (QEMU_JOB_WAIT_TIME), and 5 s for the guest to release a vCPU.
_LIMIT_S = 60

#: The longest output and the longest error that are read, in bytes.
_MAX_OUTPUT = 4096
_MAX_ERROR = 200

#: Shell script for a guest, its number of vCPUs and the other number. Whenever
#: it exits, it restores the guest's number of vCPUs.
_ROUNDS = f"""
domain=$1 vcpus=$2 other=$3
set_vcpus() {{
    timeout {_LIMIT_S} {TOOL} setvcpus "$domain" "$1" --live
}}
trap 'set_vcpus "$vcpus"' EXIT
trap 'exit 1' TERM
while sleep {PAUSE_S} && set_vcpus "$other" &&
    sleep {PAUSE_S} && set_vcpus "$vcpus"
do
    :
done
exit 1
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Hotplug:
    """A guest and its numbers of vCPUs.

    :param domain: its name or UUID.
    :param vcpus: its number of vCPUs, which is restored at the end.
    :param other: its number for two seconds out of every four.
    """

    domain: str
    vcpus: int
    other: int


def plan(domain: str) -> Hotplug:
    """Return the plan for a guest; change nothing yet.

    :raises HotplugRefused: if it does not run, or cannot have a second vCPU.
    :raises OutputInvalid: if virsh does not print a number.
    """
    try:
        vcpus = _count(domain, "--active")
        maximum = _count(domain, "--maximum")
    except RunFailed as error:
        raise HotplugRefused(
            domain, f"{error.problem}; name a running one of 'virsh list'"
        ) from None
    if maximum < 2:
        raise HotplugRefused(
            domain, "it can't have two vCPUs; name one that can"
        )
    return Hotplug(domain, vcpus, vcpus + 1 if vcpus < maximum else vcpus - 1)


def command(
    planned: Hotplug, housekeeping: CpuSet, limit_s: float
) -> tuple[str, ...]:
    """Return the command line, which runs until it is stopped.

    :param housekeeping: the CPUs that it stays on.
    :param limit_s: seconds after which it ends by itself.
    """
    return (
        # It ends if the measurement is killed.
        *("setpriv", "--pdeathsig", "TERM"),
        # The same as for stress-ng.
        *("nice", "--adjustment=10"),
        *("taskset", "--cpu-list", cpulist.format_cpu_list(housekeeping)),
        # --foreground: virsh finishes what it is doing.
        *("timeout", "--foreground", f"{math.ceil(limit_s)}s"),
        *("sh", "-c", _ROUNDS, "sriov-rt-hotplug"),
        *(planned.domain, str(planned.vcpus), str(planned.other)),
    )


@contextlib.contextmanager
def running(
    domain: str, housekeeping: CpuSet, limit_s: float
) -> Iterator[Callable[[], str]]:
    """Keep plugging and unplugging a vCPU of a guest.

    It is tried once on entry. At the end the guest has as many as before, or
    a warning names the command to restore them.

    :param limit_s: seconds after which it ends by itself.
    :returns: a function that returns a sentence once it has ended.
    :raises HotplugRefused: if the guest can't be hot-plugged.
    """
    planned = plan(domain)
    ended = f"the load (hotplug of guest '{domain}') ended before it did"
    try:
        _set(domain, planned.other)
        # The guest's kernel has to accept the vCPU before it can release it.
        time.sleep(PAUSE_S)
        _set(domain, planned.vcpus)
        with process.beside(command(planned, housekeeping, limit_s)) as runs:
            yield lambda: "" if runs() else ended
    finally:
        _restore(planned)


def _restore(planned: Hotplug) -> None:
    """Restore a guest's number of vCPUs if it has another one."""
    try:
        if _count(planned.domain, "--active") != planned.vcpus:
            _set(planned.domain, planned.vcpus)
    except exceptions.SriovRtError as error:
        LOG.warning(
            "guest '%s' had %d vCPUs, and may have %d now (%s); run 'virsh "
            "setvcpus %s %d --live'",
            planned.domain,
            planned.vcpus,
            planned.other,
            error,
            planned.domain,
            planned.vcpus,
        )


def _set(domain: str, vcpus: int) -> None:
    """Set a guest's number of vCPUs and read it back.

    :raises HotplugRefused: if the guest then has another number.
    """
    try:
        _virsh("setvcpus", domain, str(vcpus), "--live")
        found = _count(domain, "--active")
        problem = "" if found == vcpus else f"it has {found} vCPUs"
    except RunFailed as error:
        problem = error.problem
    if problem:
        raise HotplugRefused(
            domain,
            f"it can't have {vcpus} vCPUs: {problem}; name one that has fewer "
            "than its maximum, and unplugs what was plugged",
        )


def _count(domain: str, which: str) -> int:
    """Return how many vCPUs a running guest has or may have.

    :param which: ``--active`` or ``--maximum``.
    """
    found = _virsh("vcpucount", domain, which, "--live").strip()
    if not re.fullmatch(rb"[1-9][0-9]{0,4}", found):
        raise OutputInvalid(TOOL, "a number of vCPUs expected")
    return int(found)


def _virsh(*arguments: str) -> bytes:
    """Return the output of virsh.

    :raises RunFailed: with libvirt's message.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    lines = process.Lines(_MAX_OUTPUT)
    ended = process.run((TOOL, *arguments), _LIMIT_S, lines.feed)
    if ended.interrupted:
        raise KeyboardInterrupt
    if ended.code != 0:
        line = ended.last_line().removeprefix("error: ")
        raise RunFailed(TOOL, printable(line[:_MAX_ERROR]))
    return lines.whole()
