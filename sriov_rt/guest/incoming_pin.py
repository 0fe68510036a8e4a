# SPDX-License-Identifier: Apache-2.0

"""Guest hook for the pins of an incoming migration, or of a restore."""

from sriov_rt.guest import cpu_placement
from sriov_rt.guest import cputune
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.pin import Pin
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.xml import cpusets
from sriov_rt.parse.cpulist import CpuSet

#: Pins of threads for housekeeping CPUs, which differ from host to host.
_OTHERS = ("emulatorpin", "iothreadpin")

_WHY = "it names pCPUs of another host"


class IncomingPin:
    """Pins a realtime guest that is migrated here or restored.

    Nothing that the guest can see is changed. Pins that also work on this
    host are kept.
    """

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Replace pins that do not work here, and check the new ones."""
        if domain.is_container or context.facts is None:
            return
        if not cputune.realtime_vcpus(domain, context.request):
            return
        if domain.pins and not _serve(domain, context):
            _drop(domain, "vcpupin", report)
        for tag in _OTHERS:
            if not _others_serve(domain, tag, context):
                _drop(domain, tag, report)
        Pin().apply(domain, context, report)


def _serve(domain: Domain, context: Context) -> bool:
    """Return whether a domain's pins work on this host."""
    assert context.facts is not None
    pins = domain.pins
    scratch = Recorder("pin")
    realtime = cputune.realtime_vcpus(domain, context.request)
    checked = {vcpu: pins[vcpu] for vcpu in realtime if vcpu in pins}
    cpu_placement.check(checked, context.facts, scratch)
    every = CpuSet().union(*pins.values())
    online = context.facts.cpus.online
    return (
        not scratch.refusals
        and not every & context.taken
        and isinstance(online, CpuSet)
        and every <= online
    )


def _others_serve(domain: Domain, tag: str, context: Context) -> bool:
    """Return whether the pins of a guest's other threads work on this host.

    They are among the housekeeping CPUs, or those of the guest's own vCPUs
    that are not realtime, where Nova puts them.
    """
    assert context.facts is not None
    pins = domain.pins
    vcpus = cputune.realtime_vcpus(domain, context.request)
    realtime = CpuSet().union(*(pins[v] for v in vcpus if v in pins))
    taken = realtime | context.taken
    free = cpu_placement.housekeeping(context.facts, taken, Recorder("pin"))
    if free is None:
        return False
    place = free | (CpuSet().union(*pins.values()) - taken)
    return all(
        cpus <= place for _, cpus in cpusets(domain.tunes(tag), "cpuset")
    )


def _drop(domain: Domain, tag: str, report: Recorder) -> None:
    gone = domain.remove_tunes(tag)
    if gone:
        report.removed(gone, _WHY)
