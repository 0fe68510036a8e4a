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

"""What keeps a host's dedicated pCPUs from being realtime."""

from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.facts import IrqGroup
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.reason import Reason
from sriov_rt.reason import reason


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
        yield from _interrupts(facts, dedicated)
    yield from _kernel(facts)
    yield from _memory(facts)


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
    # CPU 0 boots the machine and keeps the time: it stays for the host.
    rest = format_cpu_list(online - {0}) or "N"
    yield reason("nothing_isolated", cpus=rest)


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
    if shared := frozenset().union(*split) & dedicated:
        whole = dedicated.union(*(g for g in split if g & dedicated))
        yield reason(
            "siblings_shared",
            cpus=format_cpu_list(shared),
            wanted=format_cpu_list(whole),
        )


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
        cpus = frozenset().union(*(g.effective for g in astray)) & dedicated
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
    return group.allowed <= dedicated


def _kernel(facts: HostFacts) -> Iterator[Reason]:
    kernel = facts.kernel
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
