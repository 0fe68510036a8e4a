# SPDX-License-Identifier: Apache-2.0

"""Guest hook that checks, but never changes, the pins of a realtime VMI."""

from sriov_rt.guest import cpu_placement
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Context
from sriov_rt.guest.pin import shared_pcpus
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.sentences import reason
from sriov_rt.guest.xml import cpusets
from sriov_rt.kubevirt.vmi import Vmi
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.cpulist import format_cpu_list


class Pins:
    """Refuses a realtime VMI whose threads are on the wrong pCPUs.

    virt-launcher pins within the pod's cpuset, which kubelet has chosen, so
    threads cannot be moved elsewhere. Schedulers and memory locks are not
    checked, because virt-handler sets them once the guest runs.
    """

    def __init__(self, vmi: Vmi) -> None:
        self._vmi = vmi

    def apply(
        self, domain: Domain, context: Context, report: Recorder
    ) -> None:
        """Compare the pins with the node's isolated CPUs."""
        if not context.request.realtime:
            return
        if not self._vmi.is_realtime:
            report.refuse(reason("realtime_unset"))
        mask = self._vmi.mask
        realtime = domain.vcpus if mask is None else mask & domain.vcpus
        pins = domain.pins
        checked = {vcpu: pins[vcpu] for vcpu in realtime if vcpu in pins}
        if unpinned := realtime - checked.keys():
            report.refuse(
                reason("vcpus_unpinned", vcpus=format_cpu_list(unpinned))
            )
            return
        if shared := shared_pcpus(checked, pins):
            report.refuse(
                reason("vcpus_share_pcpus", cpus=format_cpu_list(shared))
            )
        if context.facts is not None:
            cpu_placement.check(checked, context.facts, report)
        _check_others(CpuSet().union(*checked.values()), domain, report)


def _check_others(taken: CpuSet, domain: Domain, report: Recorder) -> None:
    """Refuse emulator and I/O threads on pCPUs of realtime vCPUs."""
    placed = [
        cpus for _, cpus in cpusets(domain.tunes("emulatorpin"), "cpuset")
    ]
    # Without pins these threads are on all CPUs of the pod.
    if on := taken if not placed else taken & CpuSet().union(*placed):
        report.refuse(reason("emulator_on_vcpus", cpus=format_cpu_list(on)))
    where = {
        pin.get("iothread"): cpus
        for pin, cpus in cpusets(domain.tunes("iothreadpin"), "cpuset")
    }
    astray = {
        each: taken & where.get(str(each), taken) for each in domain.iothreads
    }
    if on := CpuSet().union(*astray.values()):
        report.refuse(
            reason(
                "iothreads_on_vcpus",
                threads=format_cpu_list(n for n, at in astray.items() if at),
                cpus=format_cpu_list(on),
            )
        )
