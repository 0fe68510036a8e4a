# SPDX-License-Identifier: Apache-2.0

"""CPUs, from ``/sys/devices/system/cpu`` and the kernel command line."""

import collections
import re
import sys

from sriov_rt.codec import Unknown
from sriov_rt.decide.realtime import MAX_WAKEUP_US
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import Governor
from sriov_rt.facts import GuestCgroup
from sriov_rt.facts import IdleState
from sriov_rt.facts import NumaNode
from sriov_rt.host import cgroup
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import kernel
from sriov_rt.parse import partition

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
COMMAND_LINE = "proc/cmdline"
SCHED_EXT = "sys/kernel/sched_ext/state"
WORKQUEUES = "sys/devices/virtual/workqueue/cpumask"

#: Device that programs (tuned's force_latency) hold open to bound the idle
#: states of all CPUs: a 32-bit number of µs (kernel/power/qos.c).
DMA_LATENCY = "dev/cpu_dma_latency"

#: No bound: PM_QOS_RESUME_LATENCY_NO_CONSTRAINT_NS is the longest time that
#: there is.
NO_BOUND_US = 2**31 - 1

_NODE_NAME = re.compile(r"node([0-9]{1,5})")
_POLICY_NAME = re.compile(r"policy[0-9]{1,5}")
_STATE_NAME = re.compile(r"state([0-9]{1,3})")


def observe(root: Root) -> CpuFacts:
    """Return the host's CPUs and what the kernel keeps off them.

    CPUs that a cpuset partition isolates count as ``isolated`` if libvirt's
    guests are in it: only they may use them.
    """
    online = _online(root)
    offline = offline_of(root, online)
    nohz_full = _nohz_full(root)
    guests = cgroup.observe(
        root, CpuSet() if isinstance(offline, Unknown) else offline
    )
    isolated = _isolated(root, guests)
    return CpuFacts(
        online=online,
        isolated=isolated,
        nohz_full=nohz_full,
        rcu_nocbs=_rcu_nocbs(root, nohz_full),
        isolcpus_flags=_isolcpus_flags(root),
        siblings=_siblings(root, online),
        numa=_numa(root, online),
        governors=_governors(root, online),
        idle_states=_idle_states(root, online, isolated),
        workqueues=values.cpu_mask(root, WORKQUEUES),
        offline=offline,
        smt=values.parsed(root, f"{CPU}/smt/control", str.strip),
        guest_cgroup=guests,
        sched_ext=_sched_ext(root),
    )


def _sched_ext(root: Root) -> str | None | Unknown:
    """Return whether a BPF scheduler runs; None before Linux 6.12."""
    found: str | None | Unknown = values.parsed(root, SCHED_EXT, str.strip)
    return values.unless_absent(
        root, SCHED_EXT, found, None, beside=f"{CPU}/online"
    )


def _isolated(
    root: Root, guests: GuestCgroup | None | Unknown
) -> CpuSet | Unknown:
    booted = values.cpu_set(root, f"{CPU}/isolated")
    if isinstance(booted, Unknown) or not isinstance(guests, GuestCgroup):
        return booted
    if guests.partition == partition.ISOLATED:
        return booted | guests.cpus
    return booted


def offline_of(root: Root, online: CpuSet | Unknown) -> CpuSet | Unknown:
    """Return the CPUs that are offline and can be brought online.

    A CPU that has to stay as it is has no ``online`` file (cpu_subsys of
    drivers/base/cpu.c).
    """
    present = values.cpu_set(root, f"{CPU}/present")
    if isinstance(present, Unknown):
        return present
    if isinstance(online, Unknown):
        return online
    return CpuSet(
        cpu
        for cpu in present - online
        if root.exists(f"{CPU}/cpu{cpu}/online") is True
    )


def _governors(
    root: Root, online: CpuSet | Unknown
) -> tuple[Governor, ...] | Unknown:
    """Return the governors in use; a policy without online CPUs has none."""
    directory = f"{CPU}/cpufreq"
    names = root.list_dir(directory)
    if isinstance(names, Unknown):
        return values.unless_absent(
            root, directory, names, (), f"{CPU}/online"
        )
    found: dict[str, CpuSet] = {}
    for name in filter(_POLICY_NAME.fullmatch, names):
        cpus = values.cpu_set(root, f"{directory}/{name}/affected_cpus")
        if isinstance(cpus, Unknown) and _is_offline(name, online):
            # EBUSY since Linux 6.0 (show in drivers/cpufreq/cpufreq.c).
            continue
        if not isinstance(cpus, Unknown) and not cpus:
            continue
        path = f"{directory}/{name}/scaling_governor"
        governor = values.parsed(root, path, str.strip)
        for each in (cpus, governor):
            if isinstance(each, Unknown):
                return each
        assert isinstance(governor, str)
        assert not isinstance(cpus, Unknown)
        found[governor] = found.get(governor, CpuSet()) | cpus
    return tuple(Governor(name, found[name]) for name in sorted(found))


def _is_offline(policy: str, online: CpuSet | Unknown) -> bool:
    """Return whether the CPU that a policy is named after is offline."""
    if isinstance(online, Unknown):
        return False
    return int(policy.removeprefix("policy")) not in online


def _idle_states(
    root: Root, online: CpuSet | Unknown, isolated: CpuSet | Unknown
) -> tuple[IdleState, ...] | Unknown:
    for each in (online, isolated):
        if isinstance(each, Unknown):
            return each
    assert not isinstance(online, Unknown)
    assert not isinstance(isolated, Unknown)
    bound = _dma_latency(root)
    found: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    for cpu in sorted(online & isolated if isolated else online):
        state = _deepest(root, f"{CPU}/cpu{cpu}", bound)
        if isinstance(state, Unknown):
            return state
        if state is not None:
            found[state].add(cpu)
    return tuple(
        IdleState(name, latency_us, CpuSet(cpus))
        for (name, latency_us), cpus in sorted(found.items())
    )


def _dma_latency(root: Root) -> int | Unknown:
    """Return the bound on all CPUs, µs; without the device there is none."""
    found = root.read_device(DMA_LATENCY, 4)
    if isinstance(found, Unknown):
        # Containers often have no such device: assume no bound.
        return found if root.exists(DMA_LATENCY) is True else NO_BOUND_US
    return int.from_bytes(found, sys.byteorder, signed=True)


def _bound(root: Root, directory: str) -> int | Unknown:
    """Return the bound on one CPU, µs.

    The file's ``n/a`` means no latency at all, and 0 means no bound
    (Documentation/ABI/testing/sysfs-devices-power).
    """
    path = f"{directory}/power/pm_qos_resume_latency_us"
    text = values.parsed(root, path, str.strip)
    if text == "n/a":
        return 0
    found = values.integer(root, path)
    found = values.unless_absent(root, path, found, 0, f"{CPU}/online")
    return found or NO_BOUND_US


def _deepest(
    root: Root, directory: str, most_us: int | Unknown
) -> tuple[str, int] | None | Unknown:
    """Return name and latency of the deepest idle state of a CPU.

    :param most_us: bound on all CPUs, µs.
    """
    names = root.list_dir(f"{directory}/cpuidle")
    if isinstance(names, Unknown):
        # No driver, or idle=poll: the CPU never has to wake up.
        absent = root.exists(f"{directory}/cpuidle") is False
        return None if absent else names
    bound = _bound(root, directory)
    if isinstance(bound, Unknown):
        return bound
    hidden = most_us
    if isinstance(most_us, Unknown):
        most_us = bound
    numbers = [int(m[1]) for m in map(_STATE_NAME.fullmatch, names) if m]
    for number in sorted(numbers, reverse=True):
        state = f"{directory}/cpuidle/state{number}"
        latency_us = values.integer(root, f"{state}/latency")
        if isinstance(latency_us, Unknown):
            return latency_us
        if latency_us > min(bound, most_us):
            continue
        disabled = values.integer(root, f"{state}/disable")
        if isinstance(disabled, Unknown):
            return disabled
        if not disabled:
            if isinstance(hidden, Unknown) and latency_us > MAX_WAKEUP_US:
                # A bound may keep the CPU out of this state.
                return hidden
            name = values.parsed(root, f"{state}/name", str.strip)
            return name if isinstance(name, Unknown) else (name, latency_us)
    return None


def _online(root: Root) -> CpuSet | Unknown:
    path = f"{CPU}/online"
    online = values.cpu_set(root, path)
    if not isinstance(online, Unknown) and not online:
        return Unknown(f"/{path}: names no CPU")
    return online


def _nohz_full(root: Root) -> CpuSet | Unknown:
    """Return the CPUs whose tick stops.

    Without nohz_full= the file may read ``(null)``, a mask that was never
    allocated (seen with Linux 6.1). A kernel without NO_HZ_FULL has
    ``isolated`` but not this file (drivers/base/cpu.c), and stops no CPU's
    tick.
    """
    path = f"{CPU}/nohz_full"
    found: CpuSet | Unknown = values.parsed(
        root,
        path,
        lambda text: cpulist.parse_cpu_list(
            "" if text.strip() == "(null)" else text
        ),
    )
    return values.unless_absent(
        root, path, found, CpuSet(), beside=f"{CPU}/isolated"
    )


def _command_line(root: Root) -> kernel.KernelCommandLine | Unknown:
    return values.parsed(root, COMMAND_LINE, kernel.parse_kernel_command_line)


def _possible(root: Root) -> int | None:
    """Return how many CPUs are possible, from the kernel's list 0-N."""
    possible = values.cpu_set(root, f"{CPU}/possible")
    if isinstance(possible, Unknown) or not possible:
        return None
    return max(possible) + 1


def _rcu_nocbs(root: Root, nohz_full: CpuSet | Unknown) -> CpuSet | Unknown:
    """Return rcu_nocbs= and nohz_full; no other file has them.

    A value that the kernel cannot parse, or with an impossible CPU, means all
    CPUs (rcu_nocb_setup in kernel/rcu/tree_nocb.h).
    """
    line = _command_line(root)
    if isinstance(line, Unknown):
        return line
    if isinstance(nohz_full, Unknown):
        return nohz_full
    possible = _possible(root)
    try:
        parsed = cpulist.parse_cpu_list(
            line.get("rcu_nocbs") or "", possible=possible
        )
    except errors.ParseError as error:
        if possible is None:
            return Unknown(f"/{COMMAND_LINE}: rcu_nocbs: {error}")
        return CpuSet(range(possible))
    return parsed | nohz_full


def _isolcpus_flags(root: Root) -> tuple[str, ...] | Unknown:
    """Return the flags of isolcpus= that apply to all its CPUs."""
    line = _command_line(root)
    if isinstance(line, Unknown):
        return line
    try:
        found = kernel.isolation(line, _possible(root))
    except errors.ParseError as error:
        return Unknown(f"/{COMMAND_LINE}: {error}")
    isolated = found.get("domain", CpuSet())
    return tuple(
        sorted(flag for flag, cpus in found.items() if isolated <= cpus)
    )


def _siblings(
    root: Root, online: CpuSet | Unknown
) -> tuple[CpuSet, ...] | Unknown:
    """Return the groups of online hyper-threads, in order."""
    if isinstance(online, Unknown):
        return online
    groups = []
    left = set(online)
    for cpu in sorted(online):
        if cpu not in left:
            continue
        group = _core(root, cpu)
        if isinstance(group, Unknown):
            return group
        groups.append(group)
        left -= group
    return tuple(groups)


def _core(root: Root, cpu: int) -> CpuSet | Unknown:
    # The file is named core_cpus_list since Linux 5.3.
    topology = f"{CPU}/cpu{cpu}/topology"
    path = f"{topology}/core_cpus_list"
    if root.exists(path) is False:
        path = f"{topology}/thread_siblings_list"
    group = values.cpu_set(root, path)
    if not isinstance(group, Unknown) and cpu not in group:
        return Unknown(f"/{path}: CPU {cpu} is not in it")
    return group


def _numa(
    root: Root, online: CpuSet | Unknown
) -> tuple[NumaNode, ...] | Unknown:
    """Return the nodes; a kernel without NUMA has one, as in libvirt."""
    names = root.list_dir(NODE)
    if isinstance(names, Unknown):
        if root.exists(NODE) is not False or isinstance(online, Unknown):
            return names
        return (NumaNode(0, online),)
    nodes = []
    for name in names:
        if match := _NODE_NAME.fullmatch(name):
            cpus = values.cpu_set(root, f"{NODE}/{name}/cpulist")
            if isinstance(cpus, Unknown):
                return cpus
            nodes.append(NumaNode(int(match[1]), cpus))
    return tuple(sorted(nodes, key=lambda node: node.id))
