# SPDX-License-Identifier: Apache-2.0

"""Placement of realtime vCPUs and of other threads on pCPUs."""

from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.decide import occupancy
from sriov_rt.facts import CpuSet
from sriov_rt.facts import GuestCgroup
from sriov_rt.facts import HostFacts
from sriov_rt.guest.domain import Domain
from sriov_rt.guest.hook import Pinning
from sriov_rt.guest.report import Recorder
from sriov_rt.guest.sentences import reason
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.partition import ISOLATED

Pins = Mapping[int, CpuSet]

_NONE = CpuSet()


def known(fact: str, value: CpuSet | Unknown, report: Recorder) -> CpuSet:
    """Return a set of CPUs; refuse, and return none, if it is unknown.

    :param fact: its name, such as ``cpus.isolated``.
    """
    if isinstance(value, Unknown):
        report.refuse(reason("fact_unknown", fact=fact, why=value.reason))
        return _NONE
    return value


def check(pins: Pins, facts: HostFacts, report: Recorder) -> None:
    """Refuse realtime vCPUs on pCPUs that are not isolated and nohz_full.

    :param pins: of the realtime vCPUs alone.
    """
    isolated, tick_free = facts.cpus.isolated, facts.cpus.nohz_full
    for code, fact, good in (
        ("vcpus_not_isolated", "cpus.isolated", isolated),
        ("vcpus_not_tick_free", "cpus.nohz_full", tick_free),
    ):
        if isinstance(good, Unknown):
            known(fact, good, report)
        elif bad := [vcpu for vcpu, cpus in pins.items() if cpus - good]:
            cpus = _NONE.union(*(pins[vcpu] for vcpu in bad)) - good
            report.refuse(
                reason(
                    code,
                    vcpus=format_cpu_list(bad),
                    cpus=format_cpu_list(cpus),
                )
            )


def housekeeping(
    facts: HostFacts, taken: CpuSet, report: Recorder
) -> CpuSet | None:
    """Return the pCPUs where a realtime guest's other threads go.

    Nova's ``cpu_shared_set`` if it has any that serve, else those that are
    online and neither isolated nor dedicated. They are in the cgroup of
    guests; where that is an isolated partition, they are isolated with it.

    :param taken: pCPUs of the guest's realtime vCPUs.
    :returns: None, and a refusal, if there is none or it is unknown.
    """
    refused = len(report.refusals)
    online = known("cpus.online", facts.cpus.online, report)
    isolated = known("cpus.isolated", facts.cpus.isolated, report)
    if len(report.refusals) > refused:
        return None
    shared, dedicated = facts.compute.shared, facts.compute.dedicated
    cgroup = facts.cpus.guest_cgroup
    if isinstance(cgroup, GuestCgroup):
        # libvirt can put no thread of a guest on another CPU.
        online &= cgroup.cpus
        if cgroup.partition == ISOLATED:
            # It isolates all that it has: the tick tells what is for vCPUs.
            isolated &= known("cpus.nohz_full", facts.cpus.nohz_full, report)
    free = online - isolated - taken
    if isinstance(shared, CpuSet) and shared & free:
        return shared & free
    if isinstance(dedicated, CpuSet):
        free -= dedicated
    if not free:
        report.refuse(
            reason("no_cpu_for_emulator", cpus=format_cpu_list(online))
        )
        return None
    return free


def beyond(pinning: Pinning, vcpus: CpuSet, report: Recorder) -> bool:
    """Refuse a pinning of vCPUs that are not there; return whether it was."""
    missing = {vcpu for vcpu, _ in pinning} - vcpus
    if missing:
        report.refuse(
            reason(
                "pinning_beyond",
                vcpus=format_cpu_list(missing),
                count=len(vcpus),
            )
        )
    return bool(missing)


def choose(
    domain: Domain,
    facts: HostFacts,
    report: Recorder,
    taken: CpuSet = _NONE,
) -> tuple[int, list[int]] | None:
    """Return a NUMA node and quiet pCPUs of it, for a guest not from Nova.

    Those that Nova has for its own guests (``cpu_dedicated_set``) are left
    to it, and so are those that the domain's own cpuset or the NUMA nodes of
    its memory leave out. The lowest node that has enough is taken, and its
    lowest pCPUs.

    :param taken: pCPUs that other guests have.
    :returns: a pCPU for each vCPU; None, and a refusal, if no node has as
        many.
    """
    refused = len(report.refusals)
    serving = (
        known("cpus.isolated", facts.cpus.isolated, report)
        & known("cpus.nohz_full", facts.cpus.nohz_full, report)
        & known("cpus.online", facts.cpus.online, report)
    )
    nodes = facts.cpus.numa
    if isinstance(nodes, Unknown):
        report.refuse(
            reason("fact_unknown", fact="cpus.numa", why=nodes.reason)
        )
        return None
    if len(report.refusals) > refused:
        return None
    if isinstance(facts.cpus.guest_cgroup, GuestCgroup):
        serving &= facts.cpus.guest_cgroup.cpus
    if isinstance(facts.compute.dedicated, CpuSet):
        serving -= facts.compute.dedicated
    serving -= taken | occupancy.taken(facts.occupancy)
    within, kept_to = domain.cpuset, domain.memory_nodes
    if within is not None:
        serving &= within
    if kept_to is not None:
        nodes = tuple(each for each in nodes if each.id in kept_to)
    count = len(domain.vcpus)
    most = 0
    for node in sorted(nodes, key=lambda each: each.id):
        of_node = sorted(node.cpus & serving)
        if len(of_node) >= count:
            return node.id, of_node[:count]
        most = max(most, len(of_node))
    bound = within is not None or kept_to is not None
    code = "too_few_in_cpuset" if bound else "too_few_isolated"
    report.refuse(reason(code, wanted=count, found=most))
    return None
