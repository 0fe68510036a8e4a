# SPDX-License-Identifier: Apache-2.0

"""Guest hook that sets the schedulers of a guest's threads."""

from collections.abc import Iterable

from sriov_rt.guest import cputune
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import cpusets
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.request.words import Request
from sriov_rt.request.words import Scheduling

#: Default schedule of realtime vCPUs, which is also Nova's
#: ([libvirt] realtime_scheduler_priority).
DEFAULT = Scheduling("fifo", 1)


class Schedule:
    """Sets the schedulers of vCPUs, I/O threads and emulator threads.

    Nova chooses which vCPUs are realtime (hw:cpu_realtime_mask); by default
    all of them are.
    """

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Write the schedulers of the Request."""
        request = context.request
        if domain.is_container:
            if _is_requested(request):
                report.note(
                    "no thread was scheduled: libvirt has no schedulers for "
                    "containers; their processes set their own"
                )
            return
        if request.vcpu_sched or request.realtime_cpus:
            _vcpus(domain, request, report)
        if request.iothread_sched:
            _iothreads(domain, request.iothread_sched, report)
        if request.emulator_sched:
            _emulator(domain, request.emulator_sched, report)


def _is_requested(request: Request) -> bool:
    return bool(
        request.realtime_cpus
        or request.vcpu_sched
        or request.iothread_sched
        or request.emulator_sched
    )


def _attributes(sched: Scheduling) -> dict[str, str]:
    return {"scheduler": sched.scheduler, "priority": str(sched.priority)}


def _vcpus(domain: Domain, request: Request, report: Recorder) -> None:
    sched = request.vcpu_sched
    named = cpusets(domain.tunes("vcpusched"), "vcpus")
    beyond = CpuSet().union(*(vcpus for _, vcpus in named)) - domain.vcpus
    if beyond:
        report.refuse(
            reason(
                "vcpusched_beyond",
                vcpus=format_cpu_list(beyond),
                count=len(domain.vcpus),
            )
        )
        return
    scheduled = list(filter(cputune.is_realtime, domain.tunes("vcpusched")))
    if scheduled:
        for each in scheduled if sched else ():
            why = "sriov_rt:vcpu_sched says so"
            cputune.alter(each, _attributes(sched or DEFAULT), why, report)
        return
    if domain.vcpus - domain.pins.keys():
        # An unpinned FIFO vCPU would starve other threads on any pCPU.
        report.note("no vcpusched was added: vCPUs are not pinned")
        return
    _complete(
        "vcpus",
        domain.vcpus,
        sched or DEFAULT,
        "all vCPUs are realtime",
        domain,
        report,
    )


def _iothreads(domain: Domain, sched: Scheduling, report: Recorder) -> None:
    if not domain.iothreads:
        report.note("no iothreadsched was added: there are no I/O threads")
        return
    why = "sriov_rt:iothread_sched says so"
    _complete("iothreads", domain.iothreads, sched, why, domain, report)


def _complete(
    kind: str,
    every: Iterable[int],
    sched: Scheduling,
    why: str,
    domain: Domain,
    report: Recorder,
) -> None:
    """Give every thread of a kind the requested scheduler.

    :param kind: the attribute that names them: ``vcpus``, ``iothreads``.
    :param every: numbers of the threads.
    """
    tag = f"{kind[:-1]}sched"
    left = set(every)
    for each, threads in cpusets(domain.tunes(tag), kind):
        left.difference_update(threads)
        cputune.alter(each, _attributes(sched), why, report)
    if left:
        given = {kind: format_cpu_list(left), **_attributes(sched)}
        cputune.add(domain, tag, given, why, report)


def _emulator(domain: Domain, sched: Scheduling, report: Recorder) -> None:
    found = domain.tunes("emulatorsched")
    why = "sriov_rt:emulator_sched says so"
    if found:
        cputune.alter(found[0], _attributes(sched), why, report)
    else:
        cputune.add(domain, "emulatorsched", _attributes(sched), why, report)
