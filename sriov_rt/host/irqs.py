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

"""Where interrupts fire, from ``/proc/irq``."""

import collections

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import IrqFacts
from sriov_rt.facts import IrqGroup
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors

IRQ = "proc/irq"

#: The longest IRQ number taken, in digits: the kernel's is a 32-bit int.
MAX_DIGITS = 10


def observe(root: Root) -> IrqFacts:
    """Return the default affinity and the interrupts grouped by theirs."""
    return IrqFacts(
        default_affinity=values.parsed(
            root, f"{IRQ}/default_smp_affinity", cpulist.parse_cpu_mask
        ),
        groups=_groups(root),
    )


class _Lists:
    """Cpu lists of files, each text parsed once: most IRQs share a few."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, CpuSet] = {}

    def read(self, path: str) -> CpuSet | Unknown:
        text = self._root.read_text(path)
        if isinstance(text, Unknown):
            return text
        if text not in self._known:
            try:
                self._known[text] = cpulist.parse_cpu_list(text)
            except errors.ParseError as error:
                return values.garbled(path, error)
        return self._known[text]


def _groups(root: Root) -> tuple[IrqGroup, ...] | Unknown:
    names = root.list_dir(IRQ)
    if isinstance(names, Unknown):
        return names
    lists = _Lists(root)
    members = collections.defaultdict(list)
    for name in names:
        if not (name.isascii() and name.isdigit()) or len(name) > MAX_DIGITS:
            continue
        found = _affinity(root, lists, f"{IRQ}/{name}")
        if isinstance(found, Unknown):
            return found
        if found is not None:
            members[found].append(int(name))
    groups = [
        IrqGroup(allowed, effective, tuple(sorted(irqs)))
        for (allowed, effective), irqs in members.items()
    ]
    return tuple(sorted(groups, key=lambda group: group.irqs))


def _affinity(
    root: Root, lists: _Lists, directory: str
) -> tuple[CpuSet, CpuSet] | None | Unknown:
    """Return the CPUs that an IRQ may and does fire on; None if it is gone."""
    allowed = lists.read(f"{directory}/smp_affinity_list")
    if isinstance(allowed, Unknown):
        # Freed since its directory was listed.
        return None if root.exists(directory) is False else allowed
    path = f"{directory}/effective_affinity_list"
    effective = lists.read(path)
    if isinstance(effective, Unknown):
        # Not every architecture tells (GENERIC_IRQ_EFFECTIVE_AFF_MASK).
        if root.exists(path) is not False:
            return effective
        return allowed, allowed
    if not effective and _has_handler(root, directory):
        # An interrupt chip that does not keep the mask up to date
        # (irq_validate_effective_affinity in kernel/irq/manage.c).
        return allowed, allowed
    return allowed, effective


def _has_handler(root: Root, directory: str) -> bool:
    """Tell whether the IRQ is in use: each handler has a directory there."""
    names = root.list_dir(directory)
    return isinstance(names, Unknown) or any(
        not isinstance(root.list_dir(f"{directory}/{name}"), Unknown)
        for name in names
    )
