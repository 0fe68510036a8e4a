# SPDX-License-Identifier: Apache-2.0

"""Plan of the settings that make a host realtime: all remedies together.

Each setting is in one place only: on the kernel's command line if it has to
hold from the start, in sysctl.d if it is a sysctl, and in a tuned profile if
it is a file of sysfs. Nova's configuration is named if its CPU set has to
change with them.
"""

import dataclasses
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.codec import Unknown
from sriov_rt.decide import cgroup
from sriov_rt.decide import power
from sriov_rt.decide import realtime
from sriov_rt.facts import CpuSet
from sriov_rt.facts import GuestCgroup
from sriov_rt.facts import HostFacts
from sriov_rt.facts import PowerManagement
from sriov_rt.facts import decisive
from sriov_rt.host.root import Root
from sriov_rt.parse import kernel
from sriov_rt.parse import partition
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import format_cpu_mask
from sriov_rt.parse.cpulist import format_short_cpu_list
from sriov_rt.parse.text import printable
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

SYSCTL_FILE = "/etc/sysctl.d/90-sriov-rt.conf"
TUNED_FILE = "/etc/tuned/sriov-rt/tuned.conf"

#: Profile path of tuned since 2.23, except in RHEL 9 (user_profiles_dir of its
#: tuned.spec). Tuned's own profiles moved to the second directory likewise.
LATER_TUNED_FILE = "/etc/tuned/profiles/sriov-rt/tuned.conf"
_LATER_TUNED = "usr/lib/tuned/profiles"
_TUNED_ADM = "usr/sbin/tuned-adm"

#: Codes of Reasons that a plan remedies. Others that keep a host from being
#: ready are named beside it.
PLANNED = frozenset(
    {
        "all_isolated",
        "clock_slow",
        "cpus_not_isolated",
        "cpus_not_rcu_free",
        "cpus_not_tick_free",
        "dedicated_unset",
        "frequency_varies",
        "governor_high_varies",
        "governor_missing",
        "idle_too_deep",
        "irqs_on_dedicated",
        "ksm_running",
        "nmi_watchdog_on",
        "no_housekeeping",
        "nothing_isolated",
        "rt_throttled",
        "siblings_shared",
        "swap_on",
        "thp_always",
        "timers_migrate",
        "watchdog_on_dedicated",
        "workqueues_on_dedicated",
        "zram_on",
    }
)

#: Those of them that only nova.conf can remedy.
BY_NOVA = frozenset(
    {
        "all_isolated",
        "dedicated_unset",
        "governor_high_varies",
        "governor_missing",
        "no_housekeeping",
        "siblings_shared",
    }
)

#: Codes that the kernel's command line remedies, advice included.
BY_COMMAND_LINE = frozenset(
    {
        "clock_slow",
        "cpus_not_isolated",
        "cpus_not_rcu_free",
        "cpus_not_tick_free",
        "irqs_default_on_dedicated",
        "irqs_on_dedicated",
        "nmi_watchdog_on",
        "nothing_isolated",
        "swap_on",
        "thp_always",
        "thp_madvise",
        "zram_on",
    }
)

#: Arguments that would undo a plan's, and are removed.
CONTRARY = frozenset({"nohz=off", "notsc"})

#: The longest command line that x86 and arm64 accept; the rest is lost
#: (COMMAND_LINE_SIZE in arch/*/include/uapi/asm/setup.h, with its NUL).
MAX_COMMAND_LINE = 2047

#: Names of the active profiles (ACTIVE_PROFILE_FILE in tuned/consts.py).
_ACTIVE_PROFILE = "etc/tuned/active_profile"
_OWN_PROFILE = "sriov-rt"
_PROFILES = re.compile(r"[\w.-]{1,64}(?:[ ,;]+[\w.-]{1,64}){0,15}", re.ASCII)
_INCLUDE = re.compile(r"^include *= *(.+?) *$", re.MULTILINE)

Sections = Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class FixPlan:
    """Settings that make a host realtime after its next boot.

    :param dedicated: CPUs for guests; if there can be none, this is empty and
        nothing is planned.
    :param arguments: arguments to put on the kernel's command line.
    :param removed: arguments of today's command line that they replace.
    :param command_line: today's command line with the new arguments.
    :param sysctls: values by key.
    :param cgroup: values by file, of the guests' isolated partition; empty on
        a host that isolates by its command line.
    :param tuned: a tuned profile: values by section and option.
    :param nova: the same for nova.conf; empty if it can stay as it is.
    :param by_hand: Reasons that the host is not ready, which no such setting
        remedies.
    :param tuned_path: file that tuned reads the profile from.
    :param has_tuned: whether tuned may be installed.
    """

    dedicated: CpuSet
    arguments: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    command_line: str | None = None
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cgroup: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tuned: Sections = dataclasses.field(default_factory=dict)
    nova: Sections = dataclasses.field(default_factory=dict)
    by_hand: tuple[Reason, ...] = ()
    tuned_path: str = TUNED_FILE
    has_tuned: bool = True

    def to_plain(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return {
            "dedicated": format_cpu_list(self.dedicated),
            "kernel": {
                "arguments": list(self.arguments),
                "removed": list(self.removed),
                "command_line": self.command_line,
            },
            "sysctl": {"path": SYSCTL_FILE, "text": sysctl_text(self.sysctls)},
            "cgroup": dict(self.cgroup),
            "tuned": {"path": self.tuned_path, "text": ini_text(self.tuned)},
            "nova": {"text": ini_text(self.nova)},
            "by_hand": [each.to_plain() for each in self.by_hand],
        }

    def lines(self) -> Iterator[str]:
        """Yield the plan as text."""
        if not self.dedicated:
            yield "# No plan: no core is left for guests"
        else:
            yield "# Kernel command line: add"
            yield " ".join(self.arguments)
            if self.removed:
                yield "# and take away"
                yield printable(" ".join(self.removed))
            yield ""
            yield f"# {SYSCTL_FILE}"
            yield from sysctl_text(self.sysctls).splitlines()
            yield ""
            if self.cgroup:
                yield "# Cgroup of guests, after each boot, in this order"
                for path, value in self.cgroup.items():
                    yield f"echo {value} > {path}"
                yield ""
            if not self.has_tuned:
                yield (
                    "# There is no tuned here: install it, and make this plan "
                    "again, as its release decides on the path"
                )
            yield (
                f"# {self.tuned_path}; then run 'tuned-adm profile sriov-rt'"
            )
            yield from ini_text(self.tuned).splitlines()
            if self.nova:
                yield ""
                yield "# nova.conf of nova-compute"
                yield from ini_text(self.nova).splitlines()
            yield ""
            yield "# Then reboot the host."
        if self.by_hand:
            yield "# To be done by hand:"
            for each in self.by_hand:
                yield f"# {each.code}: {printable(each.message)}"


def sysctl_text(sysctls: Mapping[str, str]) -> str:
    """Return a fragment of sysctl.d(5)."""
    return "".join(f"{key} = {value}\n" for key, value in sysctls.items())


def ini_text(sections: Sections) -> str:
    """Return sections in the syntax of tuned and oslo.config."""
    return "\n".join(
        f"[{name}]\n"
        + "".join(f"{key}={value}\n" for key, value in options.items())
        for name, options in sections.items()
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Tuned:
    """Tuned on a host.

    :param path: file that it reads the plan's profile from.
    :param included: active profiles, which the plan's profile includes; empty
        for none.
    :param installed: False if its command is known to be missing.
    """

    path: str = TUNED_FILE
    included: str = ""
    installed: bool = True


NO_TUNED = Tuned()


def tuned_of(root: Root) -> Tuned:
    """Return the state of tuned on a host."""
    later = root.exists(_LATER_TUNED) is True
    path = LATER_TUNED_FILE if later else TUNED_FILE
    active = root.read_text(_ACTIVE_PROFILE, may_be_empty=True)
    names = "" if isinstance(active, Unknown) else active.strip()
    if names == _OWN_PROFILE:
        # The plan is in effect already: include what it included.
        text = root.read_text(path.lstrip("/"))
        own = None if isinstance(text, Unknown) else _INCLUDE.search(text)
        names = "" if own is None else own[1]
    if not _PROFILES.fullmatch(names):
        names = ""
    return Tuned(
        path,
        ",".join(re.split("[ ,;]+", names)),
        root.exists(_TUNED_ADM) is not False,
    )


def make(
    facts: HostFacts,
    must: Iterable[Reason],
    *,
    placed_by_nova: bool,
    tuned: Tuned = NO_TUNED,
) -> FixPlan:
    """Return the plan for a host.

    :param must: Reasons that keep the host from being ready.
    :param placed_by_nova: see :func:`sriov_rt.decide.realtime.reasons`.
    :param tuned: result of :func:`tuned_of`.
    """
    by_hand = tuple(each for each in must if each.code not in PLANNED)
    dedicated = realtime.to_dedicate(decisive(facts))
    online = facts.cpus.online
    if isinstance(online, Unknown) or not dedicated:
        return FixPlan(CpuSet(), by_hand=by_hand)
    housekeeping = online - dedicated
    arguments, removed, command_line = _boot(facts, dedicated, housekeeping)
    if len(command_line or "") > MAX_COMMAND_LINE:
        too_long = reason(
            "command_line_too_long",
            length=len(command_line or ""),
            limit=MAX_COMMAND_LINE,
        )
        by_hand = (*by_hand, too_long)
    return FixPlan(
        dedicated,
        tuple(arguments),
        removed,
        command_line,
        _sysctls(facts, housekeeping),
        _cgroup(facts, dedicated, housekeeping),
        _tuned(facts, dedicated, housekeeping, tuned.included),
        _nova(facts, dedicated) if placed_by_nova else {},
        by_hand,
        tuned.path,
        tuned.installed,
    )


def _boot(
    facts: HostFacts, dedicated: CpuSet, housekeeping: CpuSet
) -> tuple[list[str], tuple[str, ...], str | None]:
    """Return the arguments, those that they replace, and the new line.

    Lists of CPUs are shortened if the line would be too long.
    """
    arguments: list[str] = []
    removed: tuple[str, ...] = ()
    line: str | None = None
    for listed in (format_cpu_list, format_short_cpu_list):
        arguments = _arguments(facts, dedicated, housekeeping, listed)
        removed, line = _replaced(facts.kernel.command_line, arguments)
        if len(line or " ".join(arguments)) <= MAX_COMMAND_LINE:
            break
    return arguments, removed, line


def _arguments(
    facts: HostFacts,
    dedicated: CpuSet,
    housekeeping: CpuSet,
    listed: Callable[[CpuSet], str],
) -> list[str]:
    cpus = listed(dedicated)
    # An isolated partition replaces the flag domain.
    by_partition = bool(_cgroup(facts, dedicated, housekeeping))
    flags = "managed_irq" if by_partition else "managed_irq,domain"
    found = [
        f"isolcpus={flags},{cpus}",
        f"nohz_full={cpus}",
        f"rcu_nocbs={cpus}",
        f"irqaffinity={listed(housekeeping)}",
        "transparent_hugepage=never",
        # The sysctl cannot be written without such a watchdog, as in most
        # virtual machines (proc_nmi_watchdog in kernel/watchdog.c).
        "nmi_watchdog=0",
    ]
    if facts.kernel.clock_source in realtime.SLOW_CLOCKS:
        found += ["clocksource=tsc", "tsc=reliable"]
    memory = facts.memory
    if not isinstance(memory.swap, Unknown):
        if {*memory.swap} - {*memory.on_zram}:
            # systemd's generators then make no unit for swap in fstab.
            found.append("systemd.swap=0")
        if memory.on_zram and memory.zram_generator is True:
            found.append("systemd.zram=0")
    return found


def _some(fact: object) -> bool:
    """Return whether a fact is known and not empty."""
    return bool(fact) and not isinstance(fact, Unknown)


def _replaced(
    line: str | Unknown, arguments: list[str]
) -> tuple[tuple[str, ...], str | None]:
    """Return the arguments that are replaced, and the new command line."""
    if isinstance(line, Unknown):
        return (), None
    keys = {_key(each) for each in arguments}
    before, after = kernel.split_command_line(line)
    replaced = [
        each for each in before if _key(each) in keys or each in CONTRARY
    ]
    kept = [each for each in before if each not in replaced]
    removed = tuple(each for each in replaced if each not in arguments)
    return removed, " ".join((*kept, *arguments, *after))


def _key(argument: str) -> str:
    return argument.partition("=")[0].replace("-", "_")


def _sysctls(facts: HostFacts, housekeeping: CpuSet) -> Mapping[str, str]:
    found = {
        "kernel.sched_rt_runtime_us": "-1",
        "kernel.timer_migration": "0",
    }
    if _some(facts.kernel.watchdog):
        found["kernel.watchdog_cpumask"] = format_cpu_list(housekeeping)
    return found


def _cgroup(
    facts: HostFacts, dedicated: CpuSet, housekeeping: CpuSet
) -> Mapping[str, str]:
    """Return the new settings of a partition that guests already have.

    Emulator threads need a CPU inside it, and the host one outside.
    """
    found = facts.cpus.guest_cgroup
    if not isinstance(found, GuestCgroup) or not cgroup.isolates(facts.cpus):
        return {}
    beside = found.cpus & housekeeping or CpuSet(sorted(housekeeping)[-1:])
    if not housekeeping - beside:
        return {}
    return {
        f"{found.path}/cpuset.cpus": format_cpu_list(dedicated | beside),
        f"{found.path}/cpuset.cpus.partition": partition.ISOLATED,
    }


def _tuned(
    facts: HostFacts, dedicated: CpuSet, housekeeping: CpuSet, included: str
) -> Sections:
    main = {"summary": "CPUs for realtime guests, by sriov-rt"}
    if included:
        # Otherwise the settings of that profile would be undone.
        main["include"] = included
    sections = {
        "main": main,
        "sysfs": {
            "/sys/devices/virtual/workqueue/cpumask": format_cpu_mask(
                housekeeping
            ),
            "/sys/kernel/mm/ksm/run": "2",
        },
    }
    cpu: dict[str, str] = {}
    # Nova itself sets the governors of the CPUs that it manages.
    if _some(facts.cpus.governors) and not power.managed(
        facts.compute, power.GOVERNOR
    ):
        cpu["governor"] = "performance"
    if _some(facts.cpus.idle_states):
        cpu["pm_qos_resume_latency_us"] = "n/a"
    if cpu:
        sections["cpu_dedicated"] = {
            "type": "cpu",
            "devices": ",".join(f"cpu{each}" for each in sorted(dedicated)),
            **cpu,
        }
    return sections


def _nova(facts: HostFacts, dedicated: CpuSet) -> Sections:
    found: dict[str, Mapping[str, str]] = {}
    if facts.compute.dedicated != dedicated:
        found["compute"] = {"cpu_dedicated_set": format_cpu_list(dedicated)}
    managed = facts.compute.power_management
    if isinstance(managed, PowerManagement) and (
        managed.strategy == power.GOVERNOR
    ):
        if facts.cpus.governors == ():
            found["libvirt"] = {
                "cpu_power_management_strategy": power.CPU_STATE
            }
        elif managed.governor_high != power.STEADY:
            found["libvirt"] = {"cpu_power_governor_high": power.STEADY}
    return found
