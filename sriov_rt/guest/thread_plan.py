# SPDX-License-Identifier: Apache-2.0

"""Repair of the CPUs and schedules of a running guest's threads.

Nothing else in sriov-rt changes a running guest; it is done only on request.
"""

import dataclasses
import os
from collections.abc import Iterable
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sriov_rt import exceptions
from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts.guests import GuestThread
from sriov_rt.facts.guests import Schedule
from sriov_rt.guest import running
from sriov_rt.guest import state
from sriov_rt.guest.running import Guest
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import format_cpu_list

_POLICIES: Mapping[str, int] = MappingProxyType(
    {
        "other": os.SCHED_OTHER,
        "fifo": os.SCHED_FIFO,
        "rr": os.SCHED_RR,
        "batch": os.SCHED_BATCH,
        "idle": os.SCHED_IDLE,
    }
)


class GuestNotFound(exceptions.SriovRtError):
    """No such guest runs on this host."""

    def __init__(self, instance: str) -> None:
        super().__init__(
            f"no guest {instance} runs on this host; 'openstack server "
            "show' names the host of an instance"
        )


class RepinFailed(exceptions.SriovRtError):
    """The kernel refused a change, or the threads differ after it."""

    def __init__(self, role: str, thread: int, why: str) -> None:
        super().__init__(
            f"thread {thread} ({role}) is not as its domain has it ({why}); "
            "check the cpuset of the guest's cgroup, or hard-reboot the "
            "instance"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A change of one thread.

    :param cpus: CPUs to run on; None to leave them.
    :param schedule: schedule to set; None to leave it.
    """

    thread: int
    role: str
    cpus: CpuSet | None
    schedule: Schedule | None

    def to_plain(self) -> dict[str, Any]:
        """Return the step as a JSON object."""
        cpus = None if self.cpus is None else format_cpu_list(self.cpus)
        schedule = None if self.schedule is None else str(self.schedule)
        return {
            "thread": self.thread,
            "role": self.role,
            "cpus": cpus,
            "schedule": schedule,
        }

    def row(self) -> tuple[str, ...]:
        """Return the step as a row of a table."""
        plain = self.to_plain()
        return tuple(str(each or "") for each in plain.values())


def find(root: Root, instance: str) -> Guest:
    """Return a running guest.

    :raises GuestNotFound: if no guest of that UUID runs.
    :raises SriovRtError: if the guests cannot be listed.
    """
    found = running.every(root)
    if isinstance(found, Unknown):
        raise exceptions.SriovRtError(
            f"cannot read the running guests ({found.reason}); be root"
        )
    for each in found:
        if each.instance == instance:
            return each
    raise GuestNotFound(instance)


def plan(threads: Iterable[GuestThread]) -> tuple[Step, ...]:
    """Return the changes for threads that differ from their domain."""
    steps = []
    for each in threads:
        cpus, schedule = each.promised_cpus, each.promised
        if cpus is None or each.cpus <= cpus:
            cpus = None
        if each.schedule == schedule:
            schedule = None
        if cpus is not None or schedule is not None:
            steps.append(Step(each.thread, each.role, cpus, schedule))
    return tuple(steps)


def observe(root: Root, guest: Guest) -> tuple[GuestThread, ...]:
    """Return the threads of a guest, including its vhost workers.

    :raises DomainRejected: for a domain that contradicts itself.
    """
    inside: Iterable[int] = ()
    if guest.domain.is_container:
        inside = running.below(root, {guest.process: guest.instance})
    workers = state.vhost_workers(root, {guest.process: guest})
    return (
        *state.threads(root, guest, inside),
        *(thread for _, thread in workers),
    )


def apply(root: Root, guest: Guest, steps: Iterable[Step]) -> None:
    """Carry out a plan, and read back the result.

    A thread that has ended is skipped.

    :raises RepinFailed: at the first thread that is not as planned.
    """
    for each in steps:
        try:
            if each.cpus is not None:
                os.sched_setaffinity(each.thread, each.cpus)
            if each.schedule is not None:
                os.sched_setscheduler(
                    each.thread,
                    _POLICIES[each.schedule.policy],
                    os.sched_param(each.schedule.priority),
                )
        except ProcessLookupError:
            continue
        except OSError as error:
            why = error.strerror or str(error)
            raise RepinFailed(each.role, each.thread, why) from error
    for left in plan(observe(root, guest)):
        raise RepinFailed(
            left.role, left.thread, "it differs after the change"
        )
