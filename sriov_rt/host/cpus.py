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

"""CPUs, from ``/sys/devices/system/cpu`` and the kernel command line."""

import re

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import NumaNode
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import kernel

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
COMMAND_LINE = "proc/cmdline"

_NODE_NAME = re.compile(r"node([0-9]{1,5})")


def observe(root: Root) -> CpuFacts:
    """Return the host's CPUs and what the kernel keeps away from them.

    CPUs that cpuset partitions isolate are not among ``isolated``: their
    cgroup alone may use them, and libvirt's guests are not in it.
    """
    online = _online(root)
    nohz_full = _nohz_full(root)
    return CpuFacts(
        online=online,
        isolated=values.cpu_set(root, f"{CPU}/isolated"),
        nohz_full=nohz_full,
        rcu_nocbs=_rcu_nocbs(root, nohz_full),
        isolcpus_flags=_isolcpus_flags(root),
        siblings=_siblings(root, online),
        numa=_numa(root, online),
    )


def _online(root: Root) -> CpuSet | Unknown:
    path = f"{CPU}/online"
    online = values.cpu_set(root, path)
    if not isinstance(online, Unknown) and not online:
        return Unknown(f"/{path}: names no CPU")
    return online


def _nohz_full(root: Root) -> CpuSet | Unknown:
    """Return the CPUs whose tick stops.

    Without nohz_full= the file may read ``(null)``, a mask that was never
    allocated (seen with Linux 6.1). Built without NO_HZ_FULL, a kernel has
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
        root, path, found, frozenset(), beside=f"{CPU}/isolated"
    )


def _parameter(root: Root, key: str) -> str | None | Unknown:
    """Return the value of a kernel parameter; None if there is none."""
    found = values.parsed(root, COMMAND_LINE, kernel.parse_kernel_command_line)
    return found if isinstance(found, Unknown) else found.get(key)


def _possible(root: Root) -> int | None:
    """Return how many CPUs there can be, which the kernel calls N + 1."""
    possible = values.cpu_set(root, f"{CPU}/possible")
    if isinstance(possible, Unknown) or not possible:
        return None
    return max(possible) + 1


def _rcu_nocbs(root: Root, nohz_full: CpuSet | Unknown) -> CpuSet | Unknown:
    """Return rcu_nocbs= and nohz_full, for which there is no other file."""
    text = _parameter(root, "rcu_nocbs")
    if isinstance(text, Unknown):
        return text
    if isinstance(nohz_full, Unknown):
        return nohz_full
    try:
        asked = cpulist.parse_cpu_list(text or "", possible=_possible(root))
    except errors.ParseError as error:
        return Unknown(f"/{COMMAND_LINE}: rcu_nocbs: {error}")
    return asked | nohz_full


def _isolcpus_flags(root: Root) -> tuple[str, ...] | Unknown:
    text = _parameter(root, "isolcpus")
    if isinstance(text, Unknown):
        return text
    if text is None:
        return ()
    try:
        asked = kernel.parse_isolcpus(text, possible=_possible(root))
    except errors.ParseError as error:
        return Unknown(f"/{COMMAND_LINE}: {error}")
    return tuple(sorted(asked.flags))


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
    # core_cpus_list is the name since Linux 5.3.
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
    """Return the nodes; a kernel without NUMA is one node, as in libvirt."""
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
