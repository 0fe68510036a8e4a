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

    :param fact: name of the fact, such as ``cpus.isolated``.
    """
    if isinstance(value, Unknown):
        report.refuse(reason("fact_unknown", fact=fact, why=value.reason))
        return _NONE
    return value


def check(pins: Pins, facts: HostFacts, report: Recorder) -> None:
    """Refuse realtime vCPUs on pCPUs that are not isolated and nohz_full.

    :param pins: pins of the realtime vCPUs only.
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
    """Return the pCPUs for the other threads of a realtime guest.

    Nova's ``cpu_shared_set`` if any of it is usable, else the online pCPUs
    that are neither isolated nor dedicated. All are in the cgroup of guests;
    if that is an isolated partition, they are isolated with it.

    :param taken: pCPUs of the guest's realtime vCPUs.
    :returns: None, after a refusal, if there are none or they are unknown.
    """
    refused = len(report.refusals)
    online = known("cpus.online", facts.cpus.online, report)
    isolated = known("cpus.isolated", facts.cpus.isolated, report)
    if len(report.refusals) > refused:
        return None
    shared, dedicated = facts.compute.shared, facts.compute.dedicated
    cgroup = facts.cpus.guest_cgroup
    if isinstance(cgroup, GuestCgroup):
        # libvirt cannot put a guest's thread outside its cgroup's CPUs.
        online &= cgroup.cpus
        if cgroup.partition == ISOLATED:
            # The partition isolates all its CPUs; nohz_full marks those
            # that are for vCPUs.
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
    """Refuse pins of vCPUs that do not exist; return whether there are any."""
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

    Excluded are pCPUs reserved for Nova's guests (``cpu_dedicated_set``) and
    those outside the domain's cpuset or the NUMA nodes of its memory. The
    lowest node with enough pCPUs is used, and its lowest pCPUs.

    :param taken: pCPUs of other guests.
    :returns: the node and a pCPU for each vCPU; None, after a refusal, if
        no node has enough.
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
