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

"""Plan of the settings that make a host realtime: all remedies in one.

Each setting is in one place only: on the kernel's command line what has to
hold from the start, in sysctl.d what is a sysctl, and in a tuned profile
what is a file of sysfs. Nova's configuration is named where its CPU set has
to change with them.
"""

import dataclasses
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
from sriov_rt.host.table import printable
from sriov_rt.parse import kernel
from sriov_rt.parse import partition
from sriov_rt.parse.cpulist import format_cpu_list
from sriov_rt.parse.cpulist import format_cpu_mask
from sriov_rt.reason import Reason

SYSCTL_FILE = "/etc/sysctl.d/90-sriov-rt.conf"
TUNED_FILE = "/etc/tuned/sriov-rt/tuned.conf"

#: Where tuned looks since 2.23, but in RHEL 9 (user_profiles_dir of its
#: tuned.spec). Its own profiles moved likewise, to the second.
LATER_TUNED_FILE = "/etc/tuned/profiles/sriov-rt/tuned.conf"
_LATER_TUNED = "usr/lib/tuned/profiles"

#: The codes whose remedy is in a plan. What else keeps a host from being
#: ready is named beside it.
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
    }
)

#: Arguments that undo a plan's, and are taken away for it.
CONTRARY = frozenset({"nohz=off", "notsc"})

Sections = Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class FixPlan:
    """Settings that make a host realtime after its next boot.

    :param dedicated: the CPUs for guests; empty where none can be, and then
        nothing is planned.
    :param arguments: for the kernel, as they are to be on its command line.
    :param removed: those on today's command line that they replace.
    :param command_line: today's with the arguments in their place.
    :param sysctls: key to value.
    :param cgroup: file to value, of the isolated partition of guests; empty
        on a host that isolates by its command line.
    :param tuned: section to option to value, a profile of tuned.
    :param nova: likewise, for nova.conf; empty where it can stay.
    :param by_hand: what keeps the host from being ready and no such setting
        can mend.
    :param tuned_path: the file that tuned reads the profile from.
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

    def to_plain(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return {
            "dedicated": format_cpu_list(self.dedicated),
            "kernel": {
                "arguments": list(self.arguments),
                "removed": list(self.removed),
                "command_line": self.command_line,
            },
            "sysctl": {"path": SYSCTL_FILE, "text": _sysctl(self.sysctls)},
            "cgroup": dict(self.cgroup),
            "tuned": {"path": self.tuned_path, "text": _ini(self.tuned)},
            "nova": {"text": _ini(self.nova)},
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
            yield from _sysctl(self.sysctls).splitlines()
            yield ""
            if self.cgroup:
                yield "# Cgroup of guests, after each boot, in this order"
                for path, value in self.cgroup.items():
                    yield f"echo {value} > {path}"
                yield ""
            yield (
                f"# {self.tuned_path}; then run 'tuned-adm profile sriov-rt'"
            )
            yield from _ini(self.tuned).splitlines()
            if self.nova:
                yield ""
                yield "# nova.conf of nova-compute"
                yield from _ini(self.nova).splitlines()
            yield ""
            yield "# Then boot the host."
        if self.by_hand:
            yield "# To be done by hand:"
            for each in self.by_hand:
                yield f"# {each.code}: {printable(each.message)}"


def _sysctl(sysctls: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in sysctls.items())


def _ini(sections: Sections) -> str:
    return "\n".join(
        f"[{name}]\n"
        + "".join(f"{key}={value}\n" for key, value in options.items())
        for name, options in sections.items()
    )


def profile_path(root: Root) -> str:
    """Return the file from which a host's tuned reads the plan's profile.

    :param root: of the host.
    """
    later = root.exists(_LATER_TUNED) is True
    return LATER_TUNED_FILE if later else TUNED_FILE


def make(
    facts: HostFacts,
    must: Iterable[Reason],
    *,
    placed_by_nova: bool,
    tuned_path: str = TUNED_FILE,
) -> FixPlan:
    """Return the plan for a host.

    :param must: what keeps the host from being ready.
    :param placed_by_nova: as with :func:`sriov_rt.decide.realtime.reasons`.
    :param tuned_path: as :func:`profile_path` gives it.
    """
    by_hand = tuple(each for each in must if each.code not in PLANNED)
    dedicated = realtime.to_dedicate(decisive(facts))
    online = facts.cpus.online
    if isinstance(online, Unknown) or not dedicated:
        return FixPlan(CpuSet(), by_hand=by_hand)
    housekeeping = online - dedicated
    arguments = _arguments(facts, dedicated, housekeeping)
    removed, command_line = _replaced(facts.kernel.command_line, arguments)
    return FixPlan(
        dedicated,
        tuple(arguments),
        removed,
        command_line,
        _sysctls(facts, housekeeping),
        _cgroup(facts, dedicated, housekeeping),
        _tuned(facts, dedicated, housekeeping),
        _nova(facts, dedicated) if placed_by_nova else {},
        by_hand,
        tuned_path,
    )


def _arguments(
    facts: HostFacts, dedicated: CpuSet, housekeeping: CpuSet
) -> list[str]:
    cpus = format_cpu_list(dedicated)
    # An isolated partition does what the flag domain would.
    by_partition = bool(_cgroup(facts, dedicated, housekeeping))
    flags = "managed_irq" if by_partition else "managed_irq,domain"
    found = [
        f"isolcpus={flags},{cpus}",
        f"nohz_full={cpus}",
        f"rcu_nocbs={cpus}",
        f"irqaffinity={format_cpu_list(housekeeping)}",
        "transparent_hugepage=never",
        # The sysctl can't be written where there is no such watchdog, as in
        # most virtual machines (proc_nmi_watchdog in kernel/watchdog.c).
        "nmi_watchdog=0",
    ]
    if facts.kernel.clock_source in realtime.SLOW_CLOCKS:
        found += ["clocksource=tsc", "tsc=reliable"]
    if _some(facts.memory.swap):
        # The generators of systemd then make no unit for fstab's swap.
        found.append("systemd.swap=0")
    return found


def _some(fact: object) -> bool:
    """Return whether a fact is known, and not empty."""
    return bool(fact) and not isinstance(fact, Unknown)


def _replaced(
    line: str | Unknown, arguments: list[str]
) -> tuple[tuple[str, ...], str | None]:
    """Return what arguments replace on a command line, and the new line."""
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
    """Return the partition of a host that has one for guests already.

    Emulator threads need a CPU in it, and the host one outside it.
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
    facts: HostFacts, dedicated: CpuSet, housekeeping: CpuSet
) -> Sections:
    sections = {
        "main": {"summary": "CPUs for realtime guests, by sriov-rt"},
        "sysfs": {
            "/sys/devices/virtual/workqueue/cpumask": format_cpu_mask(
                housekeeping
            ),
            "/sys/kernel/mm/ksm/run": "2",
        },
    }
    cpu: dict[str, str] = {}
    # Of those that Nova gives a governor, it does so by itself.
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
