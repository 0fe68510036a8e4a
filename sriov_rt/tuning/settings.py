# SPDX-License-Identifier: Apache-2.0

"""Settings of a fix plan: their files, and the CPUs that a change disturbs.

:data:`RULES` has the settings of a running kernel in the order in which they
are written: the least dangerous one comes first.
"""

import dataclasses
import enum
import re
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.host import values
from sriov_rt.host.fix_plan import FixPlan
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import format_cpu_mask
from sriov_rt.parse.cpulist import parse_cpu_list
from sriov_rt.parse.cpulist import parse_cpu_mask

_CPU = "/sys/devices/system/cpu"
_IRQ = "/proc/irq"
_NETWORK = "sys/class/net"


class Kind(enum.StrEnum):
    """Ways to change a setting.

    A file of the kernel is written in place; a reboot discards the change. A
    file on disk is replaced and takes effect at the next boot, as do the
    files that a program generates for the boot loader.
    """

    KERNEL = "kernel"
    FILE = "file"
    PROGRAM = "program"


class Reach(enum.Enum):
    """The CPUs that a change disturbs."""

    NONE = 0
    OWN = 1
    ALL = 2


def _chosen(text: str) -> str:
    """Return the word in brackets of a file that lists all choices."""
    found = re.search(r"\[(\S+)\]", text)
    return text.strip() if found is None else found[1]


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Files of a running kernel whose change has the same effect.

    :param change: the CPUs that setting it disturbs.
    :param undo: the CPUs that undoing it disturbs.
    :param why: how it disturbs them, a clause.
    :param parse: returns the meaning of a text, to compare two texts.
    :param lost: what an undo does not restore, a clause.
    """

    pattern: str
    change: Reach
    undo: Reach
    why: str
    parse: Callable[[str], Any] = _chosen
    lost: str = ""

    def same(self, one: str, other: str) -> bool:
        """Return whether two texts of such a file mean the same."""
        try:
            return bool(self.parse(one.strip()) == self.parse(other.strip()))
        except errors.ParseError:
            return one.strip() == other.strip()


#: From the least to the most dangerous one.
RULES = (
    Rule(
        "/proc/sys/kernel/sched_rt_runtime_us",
        Reach.NONE,
        Reach.ALL,
        "it throttles realtime threads",
    ),
    Rule(
        "/sys/kernel/mm/transparent_hugepage/enabled",
        Reach.NONE,
        Reach.ALL,
        "khugepaged stalls whoever uses the pages that it collapses",
    ),
    Rule(
        rf"{_CPU}/cpu\d+/power/pm_qos_resume_latency_us",
        Reach.NONE,
        Reach.OWN,
        "its CPU then takes longer to wake up",
    ),
    Rule(
        f"{_IRQ}/default_smp_affinity",
        Reach.NONE,
        Reach.OWN,
        "new interrupts fire there",
        parse_cpu_mask,
    ),
    Rule(
        rf"{_IRQ}/\d+/smp_affinity_list",
        Reach.NONE,
        Reach.OWN,
        "the interrupt fires there",
        parse_cpu_list,
    ),
    # softlockup_stop_all() of kernel/watchdog.c waits for a worker on each
    # CPU of the mask; the worker never runs if a realtime thread is busy.
    Rule(
        "/proc/sys/kernel/(watchdog_cpumask|nmi_watchdog)",
        Reach.OWN,
        Reach.OWN,
        "a kernel worker on each of its CPUs restarts the watchdog",
        lambda text: parse_cpu_list(text) if text else text,
    ),
    # A static key (timers_update_migration() in kernel/time/timer.c): the
    # kernel patches its code and interrupts each CPU to do so.
    Rule(
        "/proc/sys/kernel/timer_migration",
        Reach.ALL,
        Reach.ALL,
        "the kernel patches its code and interrupts every CPU",
    ),
    # unmerge_and_remove_all_rmap_items() of mm/ksm.c locks the memory of
    # each process that has merged pages.
    Rule(
        "/sys/kernel/mm/ksm/run",
        Reach.ALL,
        Reach.ALL,
        "merged pages are split under the processes that use them",
        lost="pages that were split are merged again as ksmd finds them",
    ),
    # apply_workqueue_attrs() makes new workers under locks that others
    # wait for; on hosts with busy CPUs this took seconds.
    Rule(
        "/sys/devices/virtual/workqueue/cpumask",
        Reach.ALL,
        Reach.ALL,
        "kernel workers change their CPUs",
        parse_cpu_mask,
    ),
    Rule(
        rf"{_CPU}/cpufreq/policy\d+/scaling_governor",
        Reach.OWN,
        Reach.OWN,
        "its CPUs change their frequency",
    ),
    Rule(
        r"/sys/fs/cgroup/.*/cpuset\.cpus(\.partition)?",
        Reach.ALL,
        Reach.ALL,
        "threads of guests are given other CPUs",
    ),
)
_OTHER = Rule("", Reach.ALL, Reach.ALL, "its effect is not known")


def rule_of(path: str) -> Rule:
    """Return the rule for a file of the kernel."""
    return next((x for x in RULES if re.fullmatch(x.pattern, path)), _OTHER)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A setting to be applied.

    :param path: absolute path in the host; for a program its command line.
    :param value: the text to write; for a program the kernel arguments.
    :param change: the CPUs that setting it disturbs.
    :param undo: the CPUs that undoing it disturbs.
    :param why: how it disturbs them, a clause.
    :param lost: what an undo does not restore, a clause.
    :param command: command of a program.
    :param undo_command: makes a program's files again after an undo.
    :param files: those that a program changes, absolute.
    :param booted: those of them that have the kernel's arguments afterwards.
    """

    kind: Kind
    path: str
    value: str
    change: CpuSet = dataclasses.field(default_factory=CpuSet)
    undo: CpuSet = dataclasses.field(default_factory=CpuSet)
    why: str = ""
    lost: str = ""
    command: tuple[str, ...] = ()
    undo_command: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    booted: tuple[str, ...] = ()


def of_kernel(
    facts: HostFacts, plan: FixPlan, root: Root
) -> Iterator[Setting]:
    """Yield the settings that a running kernel lacks and can still take.

    The least dangerous one comes first. Settings that need a reboot are left
    out, as are swap and the clock source: changing these stops all CPUs, or
    reads back swapped pages.

    :param plan: plan for the host of these facts.
    """
    if isinstance(facts.cpus.online, Unknown) or not plan.dedicated:
        return
    chosen = {
        path: value
        for path, value in _values(facts, plan, root)
        if root.exists(path.lstrip("/")) is True
        and not rule_of(path).same(_text(root, path), value)
    }
    cards = _interrupts_of_cards(root)
    for rule in (*RULES, _OTHER):
        for path, value in chosen.items():
            if rule_of(path) is rule:
                yield _setting(facts, plan, root, path, value, cards)


def _values(
    facts: HostFacts, plan: FixPlan, root: Root
) -> Iterator[tuple[str, str]]:
    """Yield the files of a plan and their new values."""
    for key, value in plan.sysctls.items():
        yield f"/proc/sys/{key.replace('.', '/')}", value
    if "transparent_hugepage=never" in plan.arguments:
        yield "/sys/kernel/mm/transparent_hugepage/enabled", "never"
    if facts.kernel.nmi_watchdog is True:
        yield "/proc/sys/kernel/nmi_watchdog", "0"
    for path, value in plan.tuned.get("sysfs", {}).items():
        # A KSM that merges nothing has nothing to split.
        if not path.endswith("/ksm/run") or facts.memory.ksm_run == 1:
            yield path, value
    yield from _of_cpus(plan, root)
    yield from _of_interrupts(facts, plan)
    yield from plan.cgroup.items()


def _of_cpus(plan: FixPlan, root: Root) -> Iterator[tuple[str, str]]:
    cpu = plan.tuned.get("cpu_dedicated", {})
    if latency := cpu.get("pm_qos_resume_latency_us"):
        for each in sorted(plan.dedicated):
            yield f"{_CPU}/cpu{each}/power/pm_qos_resume_latency_us", latency
    if governor := cpu.get("governor"):
        for policy in _names(root, f"{_CPU[1:]}/cpufreq"):
            if _of_policy(root, policy) & plan.dedicated:
                yield f"{_CPU}/cpufreq/{policy}/scaling_governor", governor


def _of_interrupts(
    facts: HostFacts, plan: FixPlan
) -> Iterator[tuple[str, str]]:
    assert not isinstance(facts.cpus.online, Unknown)
    housekeeping = facts.cpus.online - plan.dedicated
    default = facts.irqs.default_affinity
    if not isinstance(default, Unknown) and default & plan.dedicated:
        yield f"{_IRQ}/default_smp_affinity", format_cpu_mask(housekeeping)
    for group in known_or(facts.irqs.groups, ()):
        # Managed interrupts are moved by the kernel only; writing gives EIO.
        if group.effective & plan.dedicated and group.managed is not True:
            left = group.allowed - plan.dedicated or housekeeping
            for irq in group.irqs:
                path = f"{_IRQ}/{irq}/smp_affinity_list"
                yield path, format_cpu_list(left)


def _setting(
    facts: HostFacts,
    plan: FixPlan,
    root: Root,
    path: str,
    value: str,
    cards: frozenset[str],
) -> Setting:
    rule = rule_of(path)
    online = facts.cpus.online
    assert not isinstance(online, Unknown)
    own = _own(facts, root, path) or plan.dedicated
    reach = {Reach.NONE: CpuSet(), Reach.OWN: own, Reach.ALL: online}
    change, undo, why = reach[rule.change], reach[rule.undo], rule.why
    if path in cards:
        # A guest may have a port of the NIC.
        change, undo = online, online
        why = "it is the interrupt of a NIC"
    return Setting(Kind.KERNEL, path, value, change, undo, why, rule.lost)


def _own(facts: HostFacts, root: Root, path: str) -> CpuSet:
    """Return the CPUs of a setting; empty stands for the dedicated ones."""
    if found := re.search(r"/cpu(\d+)/", path):
        return CpuSet((int(found[1]),))
    if found := re.search(r"/(policy\d+)/", path):
        return _of_policy(root, found[1])
    watchdog = facts.kernel.watchdog
    if "watchdog" not in path or isinstance(watchdog, Unknown):
        return CpuSet()
    return watchdog


def _of_policy(root: Root, policy: str) -> CpuSet:
    path = f"{_CPU[1:]}/cpufreq/{policy}/affected_cpus"
    return known_or(values.cpu_set(root, path), CpuSet())


def _interrupts_of_cards(root: Root) -> frozenset[str]:
    return frozenset(
        f"{_IRQ}/{irq}/smp_affinity_list"
        for name in _names(root, _NETWORK)
        for irq in _names(root, f"{_NETWORK}/{name}/device/msi_irqs")
    )


def _names(root: Root, directory: str) -> tuple[str, ...]:
    return known_or(root.list_dir(directory), ())


def _text(root: Root, path: str) -> str:
    return known_or(root.read_text(path.lstrip("/"), may_be_empty=True), "")
