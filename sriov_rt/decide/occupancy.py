# SPDX-License-Identifier: Apache-2.0

"""Occupancy: what else uses dedicated pCPUs, and how to move it away."""

import re
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.decide.unknown_facts import unread
from sriov_rt.facts import CpuSet
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import OccupancyFacts
from sriov_rt.facts import Occupant
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

_MAY = "may"
_KERNEL_THREAD = "kernel_thread"

#: Remedy for other kernel threads where nohz_full has the CPUs already.
_IN_SPITE_OF_NOHZ = (
    "move it in tuned's section [scheduler], since it runs there in spite of "
    "nohz_full={cpus}"
)

#: Verb of a sentence by state.
_VERBS = {"pinned": "is pinned to", "runs": "runs on", _MAY: "may run on"}

_PMD = "run 'ovs-vsctl set Open_vSwitch . other_config:pmd-cpu-mask=0x{mask}'"

#: Remedies by kind, and by pattern of a thread's, program's or unit's name;
#: the first match is used. ``{wanted}`` are housekeeping CPUs and ``{mask}``
#: their mask.
OWNERS: Mapping[str, Mapping[str, str]] = {
    "interrupt": {
        "": "write {wanted} to /proc/irq/{irq}/smp_affinity_list, or give the "
        "NIC fewer queues with 'ethtool -L'"
    },
    _KERNEL_THREAD: {
        "kvm-pit": "run the guest without a PIT (<timer name='pit' "
        "present='no'/>), or move it with 'taskset -pc {wanted} {thread}'",
        "irq/": "write {wanted} to the smp_affinity_list of its interrupt",
        "k(?:compact|swap)d": 'run \'pgrep "^k(compact|swap)d" | xargs -n1 '
        "taskset -pc {wanted}' after each boot, as the kernel lets it run on "
        "all CPUs of its NUMA node in spite of nohz_full",
        "": "boot with nohz_full={cpus}, which keeps such threads off, or "
        "move it in tuned's section [scheduler]",
    },
    "mask": {"": _PMD},
    "thread": {
        "pmd-c": _PMD,
        "vpp_": "set corelist-workers in section cpu of VPP's startup.conf",
        "(?:lcore|dpdk|rte)[-_]": "give it other CPUs by DPDK's option -l",
        r".*\.service\Z": "set CPUAffinity={wanted} in a drop-in of {unit}",
        r"(?:[a-z-]+-)?[0-9a-f]{12}(?:\.scope)?\Z|lxc\.payload": (
            "give the container other CPUs (--cpuset-cpus={wanted})"
        ),
        "": "move it with 'taskset -apc {wanted} {thread}'",
    },
}


def taken(found: OccupancyFacts) -> CpuSet:
    """Return the CPUs that no guest should get."""
    occupants = found.occupants
    return CpuSet().union(
        *(
            each.cpus
            for each in (() if isinstance(occupants, Unknown) else occupants)
            if each.state != _MAY
        )
    )


def names_of_interrupts(found: OccupancyFacts) -> dict[str, str]:
    """Return each firing interrupt's number and name, by its number."""
    occupants = found.occupants
    return {
        each.name.partition(" ")[0]: each.name
        for each in (() if isinstance(occupants, Unknown) else occupants)
        if each.kind == "interrupt"
    }


def reasons(facts: DecisiveFacts, dedicated: CpuSet) -> Iterator[Reason]:
    """Yield a Reason for each occupant of pCPUs that Nova hands out."""
    occupants = facts.occupancy.occupants
    if isinstance(occupants, Unknown):
        yield from unread("occupancy.occupants", occupants)
        return
    routed = _routed(facts)
    for each in occupants:
        is_interrupt = each.kind == "interrupt" or each.name.startswith("irq/")
        if is_interrupt and each.cpus <= routed:
            continue  # reported as irqs_on_dedicated
        if each.state != _MAY and each.cpus & dedicated:
            yield _reason("pcpus_occupied", each, facts, dedicated)


def advice(
    facts: DecisiveFacts, dedicated: CpuSet, *, placed_by_nova: bool
) -> Iterator[Reason]:
    """Yield advice about what may run on CPUs for guests.

    :param placed_by_nova: whether Nova picks the pCPUs. If not, guests don't
        get occupied CPUs, and their occupants are advice as well.
    """
    occupants = facts.occupancy.occupants
    if isinstance(occupants, Unknown):
        return  # reported by reasons()
    for each in occupants:
        if each.cpus & dedicated:
            if each.state == _MAY:
                yield _reason("pcpus_exposed", each, facts, dedicated)
            elif not placed_by_nova:
                yield _reason("pcpus_left_out", each, facts, dedicated)
    count = facts.occupancy.unread
    if count and not isinstance(count, Unknown):
        yield reason("threads_unread", count=count)


def _routed(facts: DecisiveFacts) -> CpuSet:
    """Return the CPUs that interrupts are routed to."""
    known = known_or(facts.irqs.for_guests, ())
    return CpuSet().union(*(each.effective for each in known))


def _reason(
    code: str, found: Occupant, facts: DecisiveFacts, dedicated: CpuSet
) -> Reason:
    online = facts.cpus.online
    others = CpuSet() if isinstance(online, Unknown) else online - dedicated
    cpus = format_cpu_list(found.cpus & dedicated)
    fields = {
        "cpus": cpus,
        "wanted": format_cpu_list(others) or "N",
        "mask": f"{others.bits:x}",
        "thread": found.thread,
        "unit": found.unit,
        "irq": found.name.partition(" ")[0],
    }
    share = "" if found.share is None else f" ({found.share} % of a CPU)"
    return reason(
        code,
        who=who(found),
        does="fires on"
        if found.kind == "interrupt"
        else _VERBS.get(found.state, _VERBS[_MAY]),
        share=share,
        owner=_remedy(found, facts).format(**fields),
        kind=found.kind,
        name=found.name,
        process=found.process,
        since=found.since,
        **fields,
    )


def _remedy(found: Occupant, facts: DecisiveFacts) -> str:
    names = (found.name, found.process, found.unit)
    # A newer agent may know of other kinds.
    remedies = OWNERS.get(found.kind, OWNERS["thread"])
    remedy = next(
        remedy
        for pattern, remedy in remedies.items()
        if any(re.match(pattern, name) for name in names)
    )
    tick_free = facts.cpus.nohz_full
    is_booted = not isinstance(tick_free, Unknown) and found.cpus <= tick_free
    if is_booted and remedy == OWNERS[_KERNEL_THREAD][""]:
        return _IN_SPITE_OF_NOHZ
    return remedy


def who(found: Occupant) -> str:
    """Return an occupant as the subject of a sentence."""
    if found.kind == "interrupt":
        return f"interrupt {found.name}"
    if found.kind == "mask":
        return "Open vSwitch's pmd-cpu-mask"
    kernel = "kernel " if found.kind == _KERNEL_THREAD else ""
    more = f" and {found.threads - 1} more" if found.threads > 1 else ""
    of = f" of {found.process}" if found.process else ""
    unit = f" ({found.unit})" if found.unit else ""
    return f"{kernel}thread '{found.name}'{more}{of}{unit}"
