# SPDX-License-Identifier: Apache-2.0

"""Realtime: why a host's dedicated pCPUs are not realtime."""

from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.decide import cgroup
from sriov_rt.decide import occupancy
from sriov_rt.decide import power
from sriov_rt.decide.unknown_facts import unknown
from sriov_rt.decide.unknown_facts import unread
from sriov_rt.facts import NOT_REPORTED
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import IrqGroup
from sriov_rt.facts import MemoryFacts
from sriov_rt.facts import for_guests
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import format_cpu_mask
from sriov_rt.reason import Reason
from sriov_rt.reason import first_of
from sriov_rt.reason import reason

#: Clock sources that take microseconds to read, by one CPU at a time.
SLOW_CLOCKS = frozenset(
    {"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"}
)

#: The longest time that a dedicated pCPU may take to wake up, µs: the limit
#: in tuned's profiles for realtime hosts and guests.
MAX_WAKEUP_US = 3

#: Swap devices that a sentence names.
_NAMED_SWAPS = 4


def reasons(facts: DecisiveFacts, *, placed_by_nova: bool) -> Iterator[Reason]:
    """Yield the Reasons why the host cannot serve realtime guests.

    :param placed_by_nova: whether pCPUs come from ``cpu_dedicated_set`` only;
        if not, isolated CPUs are taken for pCPUs where it is unset.
    """
    isolated = facts.cpus.isolated
    if isinstance(isolated, Unknown):
        yield unknown("cpus.isolated", isolated)
        return
    dedicated = _dedicated(facts, placed_by_nova)
    if isinstance(dedicated, Unknown):
        yield unknown("compute.dedicated", dedicated)
        return
    if not dedicated:
        yield from _nothing_to_pin_on(facts, isolated, placed_by_nova)
    else:
        yield from _cpus(facts, isolated, dedicated)
        yield from cgroup.reasons(
            facts.cpus, dedicated, placed_by_nova=placed_by_nova
        )
        yield from _scheduler(facts.cpus, dedicated)
        yield from _power(facts, dedicated)
        yield from _background(facts, dedicated)
        yield from _interrupts(facts, dedicated)
        if placed_by_nova:
            # Nova may choose any of them.
            yield from occupancy.reasons(facts, dedicated)
    yield from _kernel(facts)
    yield from _memory(facts)


def advice(facts: DecisiveFacts, *, placed_by_nova: bool) -> Iterator[Reason]:
    """Yield advice that keeps no guest from the host.

    :param placed_by_nova: as with :func:`reasons`.
    """
    dedicated = _dedicated(facts, placed_by_nova)
    if isinstance(facts.cpus.isolated, Unknown) or isinstance(
        dedicated, Unknown
    ):
        return  # reported by reasons()
    if dedicated:
        yield from _next_interrupts(facts, dedicated)
        yield from _threads(facts, dedicated)
        yield from cgroup.advice(facts.cpus, dedicated)
        yield from occupancy.advice(
            facts, dedicated, placed_by_nova=placed_by_nova
        )
    if facts.memory.thp == "madvise":
        yield reason("thp_madvise")


def _dedicated(
    facts: DecisiveFacts, placed_by_nova: bool
) -> CpuSet | None | Unknown:
    """Return the pCPUs of guests; for Nova only its ``cpu_dedicated_set``.

    :param placed_by_nova: as with :func:`reasons`.
    """
    if placed_by_nova:
        return facts.compute.dedicated
    return for_guests(facts.cpus, facts.compute)


def whole_cores(facts: DecisiveFacts, cpus: CpuSet) -> CpuSet:
    """Return the CPUs to dedicate instead, so that no core is split.

    :returns: all CPUs of their cores if that leaves the host a CPU. Otherwise
        these without the core that the host keeps; may be empty.
    """
    online, siblings = facts.cpus.online, facts.cpus.siblings
    if isinstance(siblings, Unknown) or isinstance(online, Unknown):
        return cpus
    if not online:
        return cpus
    whole = cpus.union(*(group for group in siblings if group & cpus))
    if online - whole:
        return whole
    # The host keeps the core of its first CPU.
    return whole - core(facts, min(online - cpus or online))


def to_dedicate(facts: DecisiveFacts) -> CpuSet:
    """Return the CPUs that a realtime host with these facts should dedicate.

    These are the CPUs that it dedicates or isolates now, as whole cores; if
    it does neither, all but the first core. Empty if that is impossible.
    """
    for chosen in (facts.compute.dedicated, facts.cpus.isolated):
        if chosen and not isinstance(chosen, Unknown):
            return whole_cores(facts, chosen)
    online = facts.cpus.online
    if isinstance(online, Unknown) or not online:
        return CpuSet()
    # The first CPU boots the machine and keeps the time, so its core stays
    # with the host.
    return whole_cores(facts, online - core(facts, min(online)))


def core(facts: DecisiveFacts, cpu: int) -> CpuSet:
    """Return a CPU and its known siblings on the same core."""
    siblings = facts.cpus.siblings
    if isinstance(siblings, Unknown):
        return CpuSet((cpu,))
    return CpuSet((cpu,)).union(*(g for g in siblings if cpu in g))


def _nothing_to_pin_on(
    facts: DecisiveFacts, isolated: CpuSet, placed_by_nova: bool
) -> Iterator[Reason]:
    cpus = isolated
    if not isolated:
        online = facts.cpus.online
        if isinstance(online, Unknown):
            yield unknown("cpus.online", online)
            return
        cpus = to_dedicate(facts)
        yield reason("nothing_isolated", cpus=format_cpu_list(cpus) or "N")
    if placed_by_nova:
        yield reason("dedicated_unset", isolated=format_cpu_list(cpus) or "N")


def _cpus(
    facts: DecisiveFacts, isolated: CpuSet, dedicated: CpuSet
) -> Iterator[Reason]:
    expected = format_cpu_list(dedicated)
    if left := dedicated - isolated:
        yield reason(
            "cpus_not_isolated",
            cpus=format_cpu_list(left),
            wanted=expected,
            cgroup=cgroup.of_guests(facts.cpus),
        )
    tick_free = facts.cpus.nohz_full
    if isinstance(tick_free, Unknown):
        yield unknown("cpus.nohz_full", tick_free)
        tick_free = dedicated
    elif left := dedicated - tick_free:
        yield reason(
            "cpus_not_tick_free", cpus=format_cpu_list(left), wanted=expected
        )
    nocbs = facts.cpus.rcu_nocbs
    if isinstance(nocbs, Unknown):
        yield unknown("cpus.rcu_nocbs", nocbs)
    elif left := dedicated - nocbs - tick_free:
        yield reason(
            "cpus_not_rcu_free", cpus=format_cpu_list(left), wanted=expected
        )
    yield from _housekeeping(facts, dedicated)


def _housekeeping(facts: DecisiveFacts, dedicated: CpuSet) -> Iterator[Reason]:
    online = facts.cpus.online
    if isinstance(online, Unknown):
        yield unknown("cpus.online", online)
    else:
        yield from power.offline(facts.cpus, facts.compute, dedicated, online)
        if online <= dedicated:
            # Where no CPU is dedicated, the isolated ones are used instead.
            named = facts.compute.dedicated is not None
            yield reason("no_housekeeping" if named else "all_isolated")
    siblings = facts.cpus.siblings
    if isinstance(siblings, Unknown):
        yield unknown("cpus.siblings", siblings)
        return
    split = [group for group in siblings if group & dedicated < group]
    if shared := CpuSet().union(*split) & dedicated:
        yield reason(
            "siblings_shared",
            cpus=format_cpu_list(shared),
            wanted=format_cpu_list(whole_cores(facts, dedicated)) or "N",
        )


def _scheduler(cpus: CpuFacts, dedicated: CpuSet) -> Iterator[Reason]:
    # A loaded BPF scheduler has all CPUs. The kernel loads none together with
    # isolcpus=domain (scx_enable in kernel/sched/ext.c).
    if isinstance(cpus.sched_ext, Unknown):
        yield from unread("cpus.sched_ext", cpus.sched_ext)
    elif cpus.sched_ext not in (None, "disabled"):
        yield reason("sched_ext_on", cpus=format_cpu_list(dedicated))


def _power(facts: DecisiveFacts, dedicated: CpuSet) -> Iterator[Reason]:
    states = facts.cpus.idle_states
    yield from power.governors(facts.cpus, facts.compute, dedicated)
    if isinstance(states, Unknown):
        yield from unread("cpus.idle_states", states)
        return
    for state in states:
        asleep = state.cpus & dedicated
        if asleep and state.latency_us > MAX_WAKEUP_US:
            yield reason(
                "idle_too_deep",
                cpus=format_cpu_list(asleep),
                state=state.name,
                latency_us=state.latency_us,
                limit_us=MAX_WAKEUP_US,
            )


def _background(facts: DecisiveFacts, dedicated: CpuSet) -> Iterator[Reason]:
    """Yield a Reason for each task that the kernel runs on dedicated pCPUs."""
    online = facts.cpus.online
    if isinstance(online, Unknown) or online <= dedicated:
        return  # reported by _housekeeping()
    housekeeping = online - dedicated
    for fact, code, cpus in (
        ("cpus.workqueues", "workqueues_on_dedicated", facts.cpus.workqueues),
        ("kernel.watchdog", "watchdog_on_dedicated", facts.kernel.watchdog),
    ):
        if isinstance(cpus, Unknown):
            yield from unread(fact, cpus)
        elif astray := cpus & dedicated:
            yield reason(
                code,
                cpus=format_cpu_list(astray),
                wanted=format_cpu_list(housekeeping),
                mask=format_cpu_mask(housekeeping),
            )


def _next_interrupts(
    facts: DecisiveFacts, dedicated: CpuSet
) -> Iterator[Reason]:
    default, online = facts.irqs.default_affinity, facts.cpus.online
    if isinstance(default, Unknown):
        yield unknown("irqs.default_affinity", default)
    elif isinstance(online, Unknown) or online <= dedicated:
        return  # reported by _housekeeping()
    elif default & dedicated:
        yield reason(
            "irqs_default_on_dedicated",
            cpus=format_cpu_list(default & dedicated),
            wanted=format_cpu_list(online - dedicated),
        )


def _threads(facts: DecisiveFacts, dedicated: CpuSet) -> Iterator[Reason]:
    siblings = facts.cpus.siblings
    if isinstance(siblings, Unknown):
        return  # reported by reasons()
    if any(len(group) > 1 and group <= dedicated for group in siblings):
        yield reason("smt_on")


def _interrupts(facts: DecisiveFacts, dedicated: CpuSet) -> Iterator[Reason]:
    groups, online = facts.irqs.for_guests, facts.cpus.online
    if isinstance(groups, Unknown):
        yield unknown("irqs.groups", groups)
        return
    if isinstance(online, Unknown) or online <= dedicated:
        return  # reported by _housekeeping()
    flags = facts.cpus.isolcpus_flags
    managed_apart = not isinstance(flags, Unknown) and "managed_irq" in flags
    astray = [
        group
        for group in groups
        if group.effective & dedicated
        and not (managed_apart and _managed(group, dedicated))
    ]
    if astray:
        numbers = sorted({n for group in astray for n in group.irqs})
        names = occupancy.names_of_interrupts(facts.occupancy)
        listed = ", ".join(names.get(str(x), str(x)) for x in numbers[:8])
        more = ", …" if len(numbers) > 8 else ""
        cpus = CpuSet().union(*(g.effective for g in astray)) & dedicated
        yield reason(
            "irqs_on_dedicated",
            irqs=f" {listed}{more}" if numbers else "",
            cpus=format_cpu_list(cpus),
            wanted=format_cpu_list(online - dedicated),
        )


def _managed(group: IrqGroup, dedicated: CpuSet) -> bool:
    # The kernel sets a managed interrupt's affinity, which can't be written
    # (EIO). With isolcpus=managed_irq, one that may fire on isolated CPUs
    # only serves those CPUs' queue, and is silent unless they do I/O
    # themselves (Documentation/admin-guide/kernel-parameters.txt).
    if not group.allowed <= dedicated:
        return False
    if isinstance(group.managed, Unknown):
        # Somebody may have moved it there, but a silent interrupt disturbs
        # nobody. An agent older than this fact does not report it.
        return group.managed == NOT_REPORTED or group.fired is False
    return group.managed is True


def _kernel(facts: DecisiveFacts) -> Iterator[Reason]:
    kernel = facts.kernel
    if isinstance(kernel.clock_source, Unknown):
        yield from unread("kernel.clock_source", kernel.clock_source)
    elif kernel.clock_source in SLOW_CLOCKS:
        yield reason("clock_slow", clock=kernel.clock_source)
    if isinstance(kernel.rt_runtime_us, Unknown):
        yield unknown("kernel.rt_runtime_us", kernel.rt_runtime_us)
    elif kernel.rt_runtime_us != -1:
        period = kernel.rt_period_us
        yield reason(
            "rt_throttled",
            runtime_us=kernel.rt_runtime_us,
            period_us="?" if isinstance(period, Unknown) else period,
        )
    if isinstance(kernel.timer_migration, Unknown):
        yield unknown("kernel.timer_migration", kernel.timer_migration)
    elif kernel.timer_migration:
        yield reason("timers_migrate")
    if isinstance(kernel.nmi_watchdog, Unknown):
        yield unknown("kernel.nmi_watchdog", kernel.nmi_watchdog)
    elif kernel.nmi_watchdog:
        yield reason("nmi_watchdog_on")


def _memory(facts: DecisiveFacts) -> Iterator[Reason]:
    memory = facts.memory
    if isinstance(memory.ksm_run, Unknown):
        yield unknown("memory.ksm_run", memory.ksm_run)
    elif memory.ksm_run == 1:
        yield reason("ksm_running")
    if isinstance(memory.thp, Unknown):
        yield unknown("memory.thp", memory.thp)
    elif memory.thp == "always":
        yield reason("thp_always")
    if isinstance(memory.swap, Unknown):
        yield from unread("memory.swap", memory.swap)
    else:
        yield from _swap(memory, memory.swap)


def _swap(memory: MemoryFacts, swap: Sequence[str]) -> Iterator[Reason]:
    """Yield a Reason for swap on disk, and one for swap on zram."""
    others = [each for each in swap if each not in memory.on_zram]
    zram = "zram_on" if memory.zram_generator is True else "zram_unmanaged"
    for code, devices in (("swap_on", others), (zram, memory.on_zram)):
        if devices:
            yield reason(code, devices=first_of(devices, _NAMED_SWAPS))
