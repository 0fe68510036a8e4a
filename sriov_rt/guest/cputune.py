# SPDX-License-Identifier: Apache-2.0

"""Reading, writing and reporting of ``<cputune>``."""

from collections.abc import Mapping

from sriov_rt.guest.domain import Domain
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.xml import Element
from sriov_rt.guest.xml import attributes
from sriov_rt.guest.xml import cpusets
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.request.words import Request

#: The schedulers of realtime threads (sched(7)).
REALTIME = frozenset({"fifo", "rr"})


def realtime_vcpus(domain: Domain, request: Request) -> CpuSet:
    """Return the vCPUs that are realtime once the Request is met.

    These have a ``<vcpusched>`` of ``fifo`` or ``rr``, which Nova writes for
    ``hw:cpu_realtime_mask``. If none has, it is all or none, as the Request
    says, whatever other scheduler the domain sets for them.
    """
    found = CpuSet()
    for each, vcpus in cpusets(domain.tunes("vcpusched"), "vcpus"):
        if is_realtime(each):
            found |= vcpus
    if found or not (request.realtime_cpus or request.vcpu_sched):
        return found & domain.vcpus
    return domain.vcpus


def is_realtime(sched: Element) -> bool:
    """Return whether an element sets a realtime scheduler."""
    return sched.get("scheduler") in REALTIME


def add(
    domain: Domain,
    tag: str,
    given: Mapping[str, str],
    why: str,
    report: Recorder,
) -> None:
    """Add an element to ``<cputune>`` and report it."""
    domain.add_tune(tag, given)
    report.changed("added", tag, given, why)


def alter(
    element: Element, given: Mapping[str, str], why: str, report: Recorder
) -> None:
    """Set attributes of an element; report it if that changes any."""
    if all(element.get(name) == text for name, text in given.items()):
        return
    for name, text in given.items():
        element.set(name, text)
    report.changed("set", element.tag, attributes(element), why)
