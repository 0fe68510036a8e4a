# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Realtime: why a host's dedicated pCPUs are not."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_TOLD
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.facts import IrqGroup
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import format_cpu_mask
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Clock sources that take microseconds to read, one CPU at a time.
SLOW_CLOCKS = frozenset(
    {"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"}
)

#: The longest time that a dedicated pCPU may take to wake up, µs: what
#: tuned's profiles for realtime hosts and guests allow.
MAX_WAKEUP_US = 3


def unknown(fact: str, value: Unknown) -> Reason:
    """Return the Reason for a fact that could not be read."""
    return reason("fact_unknown", fact=fact, why=value.reason)


def reasons(facts: HostFacts, *, placed_by_nova: bool) -> Iterator[Reason]:
    """Yield what keeps the host from serving realtime guests.

    :param placed_by_nova: pCPUs come from ``cpu_dedicated_set``; otherwise
        every isolated CPU is taken for one.
    """
    isolated = facts.cpus.isolated
    if isinstance(isolated, Unknown):
        yield unknown("cpus.isolated", isolated)
        return
    dedicated = facts.compute.dedicated
    if isinstance(dedicated, Unknown):
        yield unknown("compute.dedicated", dedicated)
        return
    if dedicated is None and not placed_by_nova:
        dedicated = isolated
    if not dedicated:
        yield from _nothing_to_pin_on(facts, isolated, placed_by_nova)
    else:
        yield from _cpus(facts, isolated, dedicated)
        yield from _power(facts, dedicated)
        yield from _background(facts, dedicated)
        yield from _interrupts(facts, dedicated)
    yield from _kernel(facts)
    yield from _memory(facts)


def advice(facts: HostFacts, *, placed_by_nova: bool) -> Iterator[Reason]:
    """Yield what would make a host better, and keeps no guest from it.

    :param placed_by_nova: as with :func:`reasons`.
    """
    isolated, dedicated = facts.cpus.isolated, facts.compute.dedicated
    if isinstance(isolated, Unknown) or isinstance(dedicated, Unknown):
        return  # reasons() says so
    if dedicated is None and not placed_by_nova:
        dedicated = isolated
    if dedicated:
        yield from _next_interrupts(facts, dedicated)
        yield from _threads(facts, dedicated)
    if facts.memory.thp == "madvise":
        yield reason("thp_madvise")


def whole_cores(facts: HostFacts, cpus: CpuSet) -> CpuSet:
    """Return the CPUs to dedicate in place of some, so that no core is split.

    :returns: their cores whole where that leaves the host a CPU; else their
        cores without the host's own, which may be none.
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


def to_dedicate(facts: HostFacts) -> CpuSet:
    """Return the CPUs that a realtime host of these facts dedicates.

    They are those that it dedicates or isolates today, of whole cores; where
    it does neither, all but the first core. Empty where none can be.
    """
    for chosen in (facts.compute.dedicated, facts.cpus.isolated):
        if chosen and not isinstance(chosen, Unknown):
            return whole_cores(facts, chosen)
    online = facts.cpus.online
    if isinstance(online, Unknown) or not online:
        return CpuSet()
    # The first CPU boots the machine and keeps the time: it stays for the
    # host, and so does its core.
    return whole_cores(facts, online - core(facts, min(online)))


def core(facts: HostFacts, cpu: int) -> CpuSet:
    """Return a CPU and those that share its core, as far as is known."""
    siblings = facts.cpus.siblings
    if isinstance(siblings, Unknown):
        return CpuSet((cpu,))
    return CpuSet((cpu,)).union(*(g for g in siblings if cpu in g))


def _nothing_to_pin_on(
    facts: HostFacts, isolated: CpuSet, placed_by_nova: bool
) -> Iterator[Reason]:
    if isolated and placed_by_nova:
        yield reason("dedicated_unset", isolated=format_cpu_list(isolated))
        return
    online = facts.cpus.online
    if isinstance(online, Unknown):
        yield unknown("cpus.online", online)
        return
    cpus = to_dedicate(facts)
    yield reason("nothing_isolated", cpus=format_cpu_list(cpus) or "N")


def _cpus(
    facts: HostFacts, isolated: CpuSet, dedicated: CpuSet
) -> Iterator[Reason]:
    wanted = format_cpu_list(dedicated)
    if left := dedicated - isolated:
        yield reason(
            "cpus_not_isolated", cpus=format_cpu_list(left), wanted=wanted
        )
    tick_free = facts.cpus.nohz_full
    if isinstance(tick_free, Unknown):
        yield unknown("cpus.nohz_full", tick_free)
        tick_free = dedicated
    elif left := dedicated - tick_free:
        yield reason(
            "cpus_not_tick_free", cpus=format_cpu_list(left), wanted=wanted
        )
    nocbs = facts.cpus.rcu_nocbs
    if isinstance(nocbs, Unknown):
        yield unknown("cpus.rcu_nocbs", nocbs)
    elif left := dedicated - nocbs - tick_free:
        yield reason(
            "cpus_not_rcu_free", cpus=format_cpu_list(left), wanted=wanted
        )
    yield from _housekeeping(facts, dedicated)


def _housekeeping(facts: HostFacts, dedicated: CpuSet) -> Iterator[Reason]:
    online = facts.cpus.online
    if isinstance(online, Unknown):
        yield unknown("cpus.online", online)
    else:
        if left := dedicated - online:
            yield reason("cpus_offline", cpus=format_cpu_list(left))
        if online <= dedicated:
            yield reason("no_housekeeping")
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


def _power(facts: HostFacts, dedicated: CpuSet) -> Iterator[Reason]:
    governors, states = facts.cpus.governors, facts.cpus.idle_states
    if isinstance(governors, Unknown):
        yield from _unread("cpus.governors", governors)
    else:
        for governor in governors:
            slow = governor.cpus & dedicated
            if slow and governor.name != "performance":
                yield reason(
                    "frequency_varies",
                    cpus=format_cpu_list(slow),
                    governor=governor.name,
                )
    if isinstance(states, Unknown):
        yield from _unread("cpus.idle_states", states)
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


def _unread(fact: str, value: Unknown) -> Iterator[Reason]:
    # An agent of before this fact was judged without it.
    if value != NOT_TOLD:
        yield unknown(fact, value)


def _background(facts: HostFacts, dedicated: CpuSet) -> Iterator[Reason]:
    """Yield what the kernel itself runs on dedicated pCPUs."""
    online = facts.cpus.online
    if isinstance(online, Unknown) or online <= dedicated:
        return  # _housekeeping() says so
    rest = online - dedicated
    for fact, code, cpus in (
        ("cpus.workqueues", "workqueues_on_dedicated", facts.cpus.workqueues),
        ("kernel.watchdog", "watchdog_on_dedicated", facts.kernel.watchdog),
    ):
        if isinstance(cpus, Unknown):
            yield from _unread(fact, cpus)
        elif astray := cpus & dedicated:
            yield reason(
                code,
                cpus=format_cpu_list(astray),
                wanted=format_cpu_list(rest),
                mask=format_cpu_mask(rest),
            )


def _next_interrupts(facts: HostFacts, dedicated: CpuSet) -> Iterator[Reason]:
    default, online = facts.irqs.default_affinity, facts.cpus.online
    if isinstance(default, Unknown):
        yield unknown("irqs.default_affinity", default)
    elif not isinstance(online, Unknown) and default & dedicated:
        yield reason(
            "irqs_default_on_dedicated",
            cpus=format_cpu_list(default & dedicated),
            wanted=format_cpu_list(online - dedicated),
        )


def _threads(facts: HostFacts, dedicated: CpuSet) -> Iterator[Reason]:
    siblings = facts.cpus.siblings
    if isinstance(siblings, Unknown):
        return  # reasons() says so
    if any(len(group) > 1 and group <= dedicated for group in siblings):
        yield reason("smt_on")


def _interrupts(facts: HostFacts, dedicated: CpuSet) -> Iterator[Reason]:
    groups, online = facts.irqs.groups, facts.cpus.online
    if isinstance(groups, Unknown):
        yield unknown("irqs.groups", groups)
        return
    if isinstance(online, Unknown):
        return
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
        listed = ", ".join(map(str, numbers[:8]))
        more = ", …" if len(numbers) > 8 else ""
        cpus = CpuSet().union(*(g.effective for g in astray)) & dedicated
        yield reason(
            "irqs_on_dedicated",
            irqs=f" {listed}{more}" if numbers else "",
            cpus=format_cpu_list(cpus),
            wanted=format_cpu_list(online - dedicated),
        )


def _managed(group: IrqGroup, dedicated: CpuSet) -> bool:
    # A managed interrupt's affinity is the kernel's own and can't be written
    # (EIO). With isolcpus=managed_irq one that may only fire on isolated
    # CPUs is the queue of those CPUs, and silent unless they do I/O
    # themselves (Documentation/admin-guide/kernel-parameters.txt).
    if not group.allowed <= dedicated:
        return False
    if isinstance(group.managed, Unknown):
        # Somebody may have put it there. What is silent disturbs nobody; an
        # agent of before this fact does not report it.
        return group.managed == NOT_TOLD or group.fired is False
    return group.managed is True


def _kernel(facts: HostFacts) -> Iterator[Reason]:
    kernel = facts.kernel
    if isinstance(kernel.clock_source, Unknown):
        yield from _unread("kernel.clock_source", kernel.clock_source)
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


def _memory(facts: HostFacts) -> Iterator[Reason]:
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
        yield from _unread("memory.swap", memory.swap)
    elif memory.swap:
        more = ", …" if len(memory.swap) > 4 else ""
        yield reason("swap_on", devices=", ".join(memory.swap[:4]) + more)
