# SPDX-License-Identifier: Apache-2.0

"""Interrupts and the CPUs that they fire on, from ``/proc/irq``.

The kernel spreads the interrupts of some drivers' queues (NVMe, virtio-blk)
over all CPUs by itself, and nobody can move them. debugfs shows which, or
since Linux 6.12 a read-only ``smp_affinity``. Otherwise it is unknown whether
the kernel or somebody else put an interrupt on an isolated CPU; then it
matters whether it fires there.
"""

import collections
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import IrqFacts
from sriov_rt.facts import IrqGroup
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors

IRQ = "proc/irq"

ISOLATED = "sys/devices/system/cpu/isolated"

#: Counts of an interrupt on each possible CPU, separated by commas.
COUNTS = "sys/kernel/irq/{irq}/per_cpu_count"

#: Description of an interrupt in a kernel with GENERIC_IRQ_DEBUGFS, and its
#: flag of a managed one (kernel/irq/debugfs.c).
DEBUG = "sys/kernel/debug/irq/irqs"
MANAGED = "IRQD_AFFINITY_MANAGED"

#: The longest IRQ number, in digits: the kernel's is a 32-bit int.
MAX_DIGITS = 10

#: Seconds from the first look at a counter to the second.
FIRST_LOOK_S = 0.5

#: Seconds for which an interrupt that fired counts as firing, so that the
#: verdict on the host is stable.
FIRED_S = 600.0

NOT_SHOWN = Unknown(
    f"this kernel does not show in /{IRQ} which interrupts it manages"
)

#: An interrupt, the CPUs that it may fire on, and those that it does.
Routed = tuple[int, CpuSet, CpuSet]


class Counters:
    """Which interrupts fire, by their counters at two observations.

    :param pause: waits between the first two looks, seconds.
    :param monotonic: returns the time, seconds.
    """

    def __init__(
        self,
        pause: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pause = pause
        self._monotonic = monotonic
        self._counts: dict[Routed, int] = {}
        self._fired_at: dict[Routed, float] = {}

    def fired(
        self, root: Root, interrupts: Iterable[Routed]
    ) -> Mapping[Routed, bool]:
        """Return whether each interrupt fired recently on its CPUs.

        An interrupt that cannot be read is left out. One that is new here, or
        was moved, is read twice.
        """
        looked_at = frozenset(interrupts)
        first = {**_counts(root, looked_at - self._counts.keys())}
        if first:
            self._pause(FIRST_LOOK_S)
        before = {**first, **self._counts}
        now = self._monotonic()
        self._counts = _counts(root, looked_at)
        self._fired_at = {
            each: at
            for each, at in self._fired_at.items()
            if each in looked_at and now - at < FIRED_S
        }
        for each, count in self._counts.items():
            if each in before and count != before[each]:
                self._fired_at[each] = now
        return {
            each: each in self._fired_at
            for each in self._counts
            if each in before
        }


def _counts(root: Root, interrupts: Iterable[Routed]) -> dict[Routed, int]:
    found = {}
    for each in interrupts:
        irq, _allowed, effective = each
        text = root.read_text(COUNTS.format(irq=irq))
        if isinstance(text, Unknown):
            continue
        numbers = text.strip().split(",")
        if all(one.isascii() and one.isdigit() for one in numbers) and (
            max(effective, default=0) < len(numbers)
        ):
            found[each] = sum(int(numbers[cpu][:18]) for cpu in effective)
    return found


def observe(root: Root, counters: Counters | None = None) -> IrqFacts:
    """Return the default affinity, and the interrupts by their affinity.

    :param counters: counters of earlier observations; without them it is
        unknown which interrupts fire.
    """
    return IrqFacts(
        default_affinity=values.cpu_mask(root, f"{IRQ}/default_smp_affinity"),
        groups=_groups(root, counters),
    )


class _Lists:
    """Parsed CPU lists of files, each text once: most IRQs share a few."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._known: dict[str, CpuSet] = {}

    def read(self, path: str) -> CpuSet | Unknown:
        text = self._root.read_text(path)
        if isinstance(text, Unknown):
            return text
        if text not in self._known:
            try:
                self._known[text] = cpulist.parse_cpu_list(text.strip("\0\n"))
            except errors.ParseError as error:
                return values.garbled(path, error)
        return self._known[text]


def _groups(
    root: Root, counters: Counters | None
) -> tuple[IrqGroup, ...] | Unknown:
    names = root.list_dir(IRQ)
    if isinstance(names, Unknown):
        return names
    lists = _Lists(root)
    routed: list[Routed] = []
    for name in names:
        if not (name.isascii() and name.isdigit()) or len(name) > MAX_DIGITS:
            continue
        found = _affinity(root, lists, f"{IRQ}/{name}")
        if isinstance(found, Unknown):
            return found
        if found is not None:
            routed.append((int(name), *found))
    evidence = _Evidence(root, routed, counters)
    members = collections.defaultdict(list)
    for each in routed:
        irq, allowed, effective = each
        members[allowed, effective, *evidence.of(each)].append(irq)
    groups = [
        IrqGroup(allowed, effective, tuple(sorted(irqs)), managed, fired)
        for (allowed, effective, managed, fired), irqs in members.items()
    ]
    return tuple(sorted(groups, key=lambda group: group.irqs))


class _Evidence:
    """Origin of interrupts on isolated CPUs, and whether they fire there.

    :param routed: all interrupts. Only those are checked that may fire on
        isolated CPUs alone: the kernel puts no others there.
    """

    def __init__(
        self, root: Root, routed: list[Routed], counters: Counters | None
    ) -> None:
        self._root = root
        self._routed = routed
        isolated = values.cpu_set(root, ISOLATED)
        self._managed: dict[Routed, bool | Unknown] = {
            each: self._is_managed(each[0])
            for each in routed
            if not isinstance(isolated, Unknown)
            and each[2]
            and each[1] <= isolated
        }
        self._fired: Mapping[Routed, bool] = {}
        if counters is not None:
            self._fired = counters.fired(
                root,
                [
                    each
                    for each, managed in self._managed.items()
                    if isinstance(managed, Unknown)
                ],
            )

    def of(
        self, interrupt: Routed
    ) -> tuple[bool | None | Unknown, bool | None]:
        """Return whether it is managed, and whether it fired."""
        return self._managed.get(interrupt), self._fired.get(interrupt)

    def _is_managed(self, irq: int) -> bool | Unknown:
        text = self._root.read_text(f"{DEBUG}/{irq}")
        if not isinstance(text, Unknown):
            return MANAGED in text
        writable = self._root.may_write(f"{IRQ}/{irq}/smp_affinity")
        if writable is False:
            return True
        if writable is True and self._modes_differ():
            return False
        return NOT_SHOWN

    def _modes_differ(self) -> bool:
        # Before 6.12 all are writable, but the kernel rejects some writes.
        return any(
            self._root.may_write(f"{IRQ}/{irq}/smp_affinity") is False
            for irq, _allowed, _effective in self._routed
        )


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
        # Not every architecture has it (GENERIC_IRQ_EFFECTIVE_AFF_MASK).
        if root.exists(path) is not False:
            return effective
        return allowed, allowed
    if not effective and _has_handler(root, directory):
        # The interrupt chip does not keep the mask up to date
        # (irq_validate_effective_affinity in kernel/irq/manage.c).
        return allowed, allowed
    return allowed, effective


def _has_handler(root: Root, directory: str) -> bool:
    """Return whether the IRQ is in use: each handler has a directory there."""
    names = root.list_dir(directory)
    return isinstance(names, Unknown) or any(
        not isinstance(root.list_dir(f"{directory}/{name}"), Unknown)
        for name in names
    )
