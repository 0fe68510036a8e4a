# SPDX-License-Identifier: Apache-2.0

"""Occupancy: who is on the CPUs for guests, beside the guests.

A thread of Open vSwitch's that polls on a dedicated pCPU takes it from the
guest that Nova puts there. One pass of /proc finds the threads that may run on
those CPUs, and two passes what they take. The threads of guests are left out,
and so are those that the kernel has on each CPU.

What is seen once counts; it is gone once two looks have not seen it.
"""

import dataclasses
import itertools
import os
import re
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import IrqFacts
from sriov_rt.facts import OccupancyFacts
from sriov_rt.facts import Occupant
from sriov_rt.facts import for_guests
from sriov_rt.facts.guests import OtherThread
from sriov_rt.host import container
from sriov_rt.host import guest_processes
from sriov_rt.host import kubelet
from sriov_rt.host import ovs
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import interrupts
from sriov_rt.parse import process
from sriov_rt.parse.process import Stat

THREAD, KERNEL_THREAD = "thread", "kernel_thread"
INTERRUPT, MASK = "interrupt", "mask"

#: States, the worst first.
PINNED, RUNS, MAY = STATES = ("pinned", "runs", "may")

#: Processes of a host, threads of one process, and threads in all whose state
#: is read; those beyond count as unread.
MAX_PROCESSES = 65536
MAX_THREADS = 4096
MAX_STATES = 16384

#: Occupants that are published.
MAX_OCCUPANTS = 16

#: Percent of a CPU from which a thread that may be elsewhere runs here.
BUSY_PERCENT = 1

#: Looks without an occupant until it is gone.
GONE_LOOKS = 2

#: Percent points by which a share has to change to be published.
SHARE_STEP = 20

#: Seconds from the first look to the second.
FIRST_LOOK_S = 0.5

#: The longest chain of parents that is followed.
_MAX_PARENTS = 64

_INTERRUPTS = "proc/interrupts"
#: Kernel threads that work for one guest: a vhost worker before Linux 6.4 and
#: the timer of a PIT, each named after the guest's process.
_OF_GUEST = re.compile(r"(?:vhost-|kvm-pit/)([0-9]{1,7})")
_IRQ = "irq/"
_SWITCH = "ovs-vswitchd"
_HZ = os.sysconf("SC_CLK_TCK")

#: A thread that is the same one at two looks: its id and when it began.
Identity = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Thread:
    """A thread that may run on CPUs that matter.

    :param process: that it is of.
    :param allowed: the CPUs that it may run on.
    """

    process: int
    allowed: CpuSet
    stat: Stat

    @property
    def identity(self) -> Identity:
        """Its id and its start, for ids are given to others later."""
        return self.stat.thread, self.stat.started


class Threads:
    """Threads of a host that may run on some CPUs: one pass of /proc.

    :param matters: whether to read the state of a thread, by the CPUs that it
        may run on.
    :param skipped: processes whose threads are left out.
    :ivar unread: threads that could not be inspected.
    """

    def __init__(
        self,
        root: Root,
        matters: Callable[[Collection[int]], bool],
        skipped: Collection[int] = (),
    ) -> None:
        self._root = root
        self._matters = matters
        self._skipped = skipped
        self.unread = 0

    def __iter__(self) -> Iterator[Thread]:
        allowed_of = _affinity(self._root)
        states = 0
        for number in _numbers(self._root, "proc", MAX_PROCESSES):
            if number in self._skipped:
                continue
            directory = f"proc/{number}/task"
            for thread in _numbers(self._root, directory, MAX_THREADS):
                path = f"{directory}/{thread}"
                try:
                    allowed = allowed_of(path, thread)
                    if not self._matters(allowed):
                        continue
                    states += 1
                    text = _read(self._root, f"{path}/stat")
                    stat = process.parse_stat(text)
                except (ProcessLookupError, FileNotFoundError):
                    continue  # it has ended meanwhile
                except (OSError, errors.ParseError):
                    self.unread += 1
                    continue
                if states > MAX_STATES:
                    self.unread += 1
                elif not (stat.is_kernel and stat.is_bound):
                    yield Thread(number, CpuSet(allowed), stat)


def _affinity(root: Root) -> Callable[[str, int], Collection[int]]:
    """Return what reads the CPUs that a thread may run on.

    The kernel's call takes a hundredth of the time of a status file, and is
    for threads of the kernel that runs, by their ids on the host.
    """
    if root.is_running() and container.sees_host_processes():
        return lambda _, thread: os.sched_getaffinity(thread)

    def read(path: str, _: int) -> Collection[int]:
        fields = process.parse_status(_read(root, f"{path}/status"))
        return cpulist.parse_cpu_list(fields.get("Cpus_allowed_list", ""))

    return read


def _read(root: Root, path: str) -> str:
    """Return the text of a file.

    :raises OSError: if it cannot be read.
    """
    text = root.read_text(path)
    if isinstance(text, Unknown):
        if root.exists(path) is False:
            raise FileNotFoundError(path)
        raise OSError(text.reason)
    return text.strip("\0\n")


def _numbers(root: Root, directory: str, most: int) -> list[int]:
    names = root.list_dir(directory)
    if isinstance(names, Unknown):
        return []
    found = (int(x) for x in names if x.isascii() and x.isdigit())
    return list(itertools.islice(found, most))


def overlapping(cpus: CpuSet) -> Callable[[Collection[int]], bool]:
    """Return a test of whether a thread may run on some CPUs."""
    known = frozenset(cpus)
    return lambda allowed: not known.isdisjoint(allowed)


def _pinned_or(
    dedicated: CpuSet, isolated: CpuSet
) -> Callable[[Collection[int]], bool]:
    """Return a test of whether a thread is pinned to CPUs for guests.

    Those that may run on isolated ones count as well. On CPUs that are not
    isolated anything may run, and a Reason of their own says so.
    """
    pinned, quiet = frozenset(dedicated), frozenset(isolated)
    return lambda allowed: (
        pinned.issuperset(allowed) or not quiet.isdisjoint(allowed)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """Findings of one look.

    :param threads: those of no guest, with whom each belongs to.
    :param fired: interrupt to its name, and CPU to count.
    """

    at: float
    threads: Mapping[Identity, tuple[Thread, process.Place]]
    fired: Mapping[int, tuple[str, Mapping[int, int]]]
    unread: int


class Guests:
    """Guests that libvirt or the kubelet runs.

    :param keepers: processes of guests; True for one that keeps a container.
    :param pods: UID of a pod to the CPUs that the kubelet gave it alone.
    """

    def __init__(
        self,
        root: Root,
        keepers: Mapping[int, bool],
        pods: Mapping[str, CpuSet],
    ) -> None:
        self._root = root
        self.keepers = keepers
        self._pods = pods

    def have(self, thread: Thread, place: process.Place, cpus: CpuSet) -> bool:
        """Return whether a thread is a guest's.

        :param cpus: those for guests.
        """
        if thread.process in self.keepers or place.is_guest:
            return True
        stat = thread.stat
        if stat.is_kernel:
            # A PIT's is another's: libvirt keeps vhost workers alone.
            owner = _OF_GUEST.fullmatch(stat.name)
            is_vhost = not stat.name.startswith("kvm-pit")
            return (
                is_vhost
                and owner is not None
                and (int(owner[1]) in self.keepers)
            )
        own = self._pods.get(place.pod)
        if own is not None and thread.allowed & cpus <= own:
            return True
        return any(self.keepers.values()) and self._is_below(stat.parent)

    def _is_below(self, number: int) -> bool:
        for _ in range(_MAX_PARENTS):
            if self.keepers.get(number):
                return True
            stat = values.parsed(
                self._root, f"proc/{number}/stat", process.parse_stat
            )
            if isinstance(stat, Unknown):
                return False
            number = stat.parent
        return False


def _guests(root: Root, directory: str) -> Guests | Unknown:
    keepers = guest_processes.observe(root)
    if isinstance(keepers, Unknown):
        return keepers
    found = kubelet.observe(root, directory)
    if isinstance(found, Unknown):
        return found
    pods: dict[str, CpuSet] = {}
    for each in found.pods:
        pods[each.pod] = pods.get(each.pod, CpuSet()) | each.cpus
    return Guests(root, keepers, pods)


def _unseen(root: Root) -> Unknown | None:
    """Return why the processes of the host cannot be seen."""
    if not container.sees_host_processes(f"{root.path}/proc"):
        return Unknown(
            "/proc has the processes of a container alone; run it with the "
            "host's process ids (hostPID, pid: host)"
        )
    names = root.list_dir("proc")
    if isinstance(names, Unknown):
        return names
    if "1" not in names:
        return Unknown("/proc shows no process 1; see its option hidepid")
    return None


def _look(
    root: Root, dedicated: CpuSet, isolated: CpuSet, directory: str, at: float
) -> _Look | Unknown:
    guests = _unseen(root) or _guests(root, directory)
    if isinstance(guests, Unknown):
        return guests
    passing = Threads(root, _pinned_or(dedicated, isolated), guests.keepers)
    threads = {}
    places: dict[int, process.Place] = {}
    for each in passing:
        if each.process not in places:
            places[each.process] = _place(root, each)
        place = places[each.process]
        if not guests.have(each, place, dedicated):
            threads[each.identity] = (each, place)
    fired = values.parsed(
        root,
        _INTERRUPTS,
        lambda text: interrupts.parse_interrupts(text, dedicated),
        interrupts.MAX_TEXT,
    )
    known = {} if isinstance(fired, Unknown) else fired
    return _Look(at, threads, known, passing.unread)


def _place(root: Root, thread: Thread) -> process.Place:
    path = f"proc/{thread.process}/cgroup"
    found: process.Place | Unknown = process.Place()
    if not thread.stat.is_kernel:
        found = values.parsed(root, path, process.parse_place)
    return process.Place() if isinstance(found, Unknown) else found


def taken(
    root: Root, cpus: CpuSet, directory: str = kubelet.DIRECTORY
) -> OccupancyFacts:
    """Return what is pinned to CPUs, by one look.

    :param cpus: to look at.
    """
    look = _look(root, cpus, CpuSet(), directory, 0.0)
    if isinstance(look, Unknown):
        return OccupancyFacts(look)
    rows = _Rows(root, cpus, CpuSet(), None, look)
    return _bounded(rows.found().values(), look.unread)


def on_cpus(
    root: Root, owners: Mapping[int, str], cpus: CpuSet
) -> Iterator[OtherThread]:
    """Yield threads that may run on CPUs of guests, and ran there last.

    Of the kernel's those that work for a guest, whose CPUs they are or not.

    :param owners: each process of a guest, to its instance.
    """
    for each in Threads(root, overlapping(cpus)) if cpus else ():
        stat, number = each.stat, each.process
        if stat.cpu not in cpus:
            continue
        if stat.is_kernel:
            kept = _OF_GUEST.fullmatch(stat.name)
            if kept is None:
                continue
            number = int(kept[1])
        instance = owners.get(number, "")
        owner = ""
        if not instance:
            program = "" if stat.is_kernel else _program(root, each)
            names = (program, _place(root, each).unit)
            owner = ", ".join(x for x in names if x and x != stat.name)
        yield OtherThread(stat.thread, stat.name, stat.cpu, instance, owner)


class Occupancy:
    """Occupancy of a host's CPUs for guests, look by look.

    :param kubelet_directory: where the kubelet keeps its state.
    :param pause: waits between the first two looks, seconds.
    :param monotonic: the clock, seconds.
    :param clock: gives Unix time, seconds.
    """

    def __init__(
        self,
        root: Root,
        kubelet_directory: str = kubelet.DIRECTORY,
        *,
        pause: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._directory = kubelet_directory
        self._pause = pause
        self._monotonic = monotonic
        self._clock = clock
        self._before: _Look | None = None
        self._rows: dict[_Key, tuple[Occupant, int]] = {}

    def observe(
        self, cpus: CpuFacts, compute: ComputeFacts, irqs: IrqFacts
    ) -> OccupancyFacts:
        """Return who is on the CPUs for guests; ``irqs`` are of the host."""
        dedicated = for_guests(cpus, compute)
        if isinstance(dedicated, Unknown):
            return OccupancyFacts(dedicated)
        isolated = cpus.isolated
        quiet = CpuSet()
        if not isinstance(isolated, Unknown):
            quiet = dedicated & isolated
        if not isinstance(cpus.online, Unknown) and cpus.online <= dedicated:
            dedicated = CpuSet()  # the host has no CPU to put anything on
        look = self._look(dedicated, quiet)
        if isinstance(look, Unknown):
            return OccupancyFacts(look)
        if self._before is None and (look.threads or look.fired):
            self._before = look
            self._pause(FIRST_LOOK_S)
            look = self._look(dedicated, quiet)
            if isinstance(look, Unknown):
                return OccupancyFacts(look)
        rows = _Rows(self._root, dedicated, quiet, self._before, look)
        self._before = look
        found = {**rows.found(), **rows.interrupts(_managed(irqs))}
        return _bounded(self._steady(found), look.unread)

    def _look(self, dedicated: CpuSet, isolated: CpuSet) -> _Look | Unknown:
        if not dedicated:
            return _Look(self._monotonic(), {}, {}, 0)
        return _look(
            self._root, dedicated, isolated, self._directory, self._monotonic()
        )

    def _steady(self, found: "Mapping[_Key, Occupant]") -> list[Occupant]:
        """Return occupants that do not come and go with each look."""
        steady: dict[_Key, tuple[Occupant, int]] = {}
        for key, row in found.items():
            old, _ = self._rows.get(key, (None, 0))
            since = float(int(self._clock())) if old is None else old.since
            share = row.share
            if old is not None and _is_near(old.share, share):
                share = old.share
            changed = dataclasses.replace(row, since=since, share=share)
            steady[key] = (changed, 0)
        for key, (row, missed) in self._rows.items():
            if key not in steady and missed + 1 < GONE_LOOKS:
                steady[key] = (row, missed + 1)
        self._rows = steady
        return [row for row, _ in steady.values()]


def _is_near(before: int | None, now: int | None) -> bool:
    # One that has just begun has taken nothing that is known.
    return now is None or (
        before is not None and abs(now - before) < SHARE_STEP
    )


def _managed(irqs: IrqFacts) -> frozenset[int]:
    """Return the interrupts whose affinity is the kernel's alone."""
    if isinstance(irqs.groups, Unknown):
        return frozenset()
    return frozenset(
        irq
        for each in irqs.groups
        if each.managed is True
        for irq in each.irqs
    )


def _bounded(rows: Iterable[Occupant], unread: int) -> OccupancyFacts:
    ordered = sorted(
        rows,
        key=lambda row: (
            STATES.index(row.state),
            min(row.cpus, default=0),
            *(row.kind, row.process, row.name),
        ),
    )
    more = max(len(ordered) - MAX_OCCUPANTS, 0)
    return OccupancyFacts(tuple(ordered[:MAX_OCCUPANTS]), unread, more)


#: Kind, state, program and unit: what is one occupant.
_Key = tuple[str, str, str, str]


class _Rows:
    """Occupants of a look, and what they took since the one before."""

    def __init__(
        self,
        root: Root,
        dedicated: CpuSet,
        isolated: CpuSet,
        before: _Look | None,
        now: _Look,
    ) -> None:
        self._root = root
        self._dedicated = dedicated
        self._isolated = isolated
        self._before = before
        self._now = now

    def found(self) -> dict[_Key, Occupant]:
        """Return the threads by program and unit, and a mask of PMDs."""
        members: dict[_Key, list[tuple[Thread, int | None]]] = {}
        names: dict[int, str] = {}
        for each, place in self._now.threads.values():
            share = self._share(each)
            state = self._state(each, share)
            if state == MAY and each.stat.name.startswith(_IRQ):
                continue  # it goes where its interrupt goes, when that fires
            if each.stat.is_kernel:
                program = each.stat.name.partition("/")[0]
                # What may run anywhere is the same remark for all of them.
                program = "" if state == MAY else program
                key = (KERNEL_THREAD, state, program, "")
            else:
                number = each.process
                if number not in names:
                    names[number] = _program(self._root, each)
                key = (THREAD, state, names[number], place.unit)
            members.setdefault(key, []).append((each, share))
        rows = {
            key: self._occupant(key, threads)
            for key, threads in members.items()
        }
        return {**rows, **self._mask(rows.values())}

    def _occupant(
        self, key: _Key, threads: list[tuple[Thread, int | None]]
    ) -> Occupant:
        kind, state, program, unit = key
        cpus = CpuSet().union(*(self._cpus(x, state) for x, _ in threads))
        first, _ = min(
            threads, key=lambda x: (min(x[0].allowed), x[0].stat.thread)
        )
        shares = [share for _, share in threads if share is not None]
        return Occupant(
            *(kind, state, first.stat.name, cpus),
            "" if kind == KERNEL_THREAD else program,
            unit,
            first.stat.thread,
            len(threads),
            max(shares, default=None),
        )

    def _cpus(self, thread: Thread, state: str) -> CpuSet:
        if state == RUNS:
            return CpuSet((thread.stat.cpu,))
        return thread.allowed & self._dedicated

    def _share(self, thread: Thread) -> int | None:
        """Return the share of a CPU since the look before, percent."""
        if self._before is None:
            return None
        old = self._before.threads.get(thread.identity)
        passed = self._now.at - self._before.at
        if old is None or passed <= 0:
            return None
        ticks = thread.stat.ticks - old[0].stat.ticks
        return min(max(round(ticks * 100 / _HZ / passed), 0), 100)

    def _state(self, thread: Thread, share: int | None) -> str:
        is_pinned = thread.allowed <= self._dedicated
        if is_pinned and not thread.stat.is_kernel:
            return PINNED  # by somebody's design, while it sleeps too
        seen = [thread.stat.cpu]
        if self._before is not None:
            old = self._before.threads.get(thread.identity)
            seen += [] if old is None else [old[0].stat.cpu]
        is_there = is_pinned or CpuSet(seen) <= self._isolated
        is_busy = share is not None and share >= BUSY_PERCENT
        return RUNS if is_there and is_busy else MAY

    def _mask(self, rows: Iterable[Occupant]) -> dict[_Key, Occupant]:
        """Return Open vSwitch's mask, for CPUs that no PMD thread has yet."""
        mask = ovs.pmd_cpus(self._root)
        if mask is None or isinstance(mask, Unknown):
            return {}
        running = CpuSet().union(
            *(each.cpus for each in rows if each.process == _SWITCH)
        )
        left = mask & self._dedicated - running
        key = (MASK, PINNED, _SWITCH, "")
        row = Occupant(MASK, PINNED, "pmd-cpu-mask", left, _SWITCH, threads=0)
        return {key: row} if left else {}

    def interrupts(self, managed: Collection[int]) -> dict[_Key, Occupant]:
        """Return the interrupts that have fired since the look before.

        :param managed: those that nobody can move.
        """
        found = {}
        before = {} if self._before is None else self._before.fired
        for irq, (name, counts) in self._now.fired.items():
            _, old = before.get(irq, ("", {}))
            cpus = CpuSet(
                cpu
                for cpu, count in counts.items()
                if count > old.get(cpu, count)
            )
            if cpus and irq not in managed:
                label = f"{irq} ({name})" if name else str(irq)
                key = (INTERRUPT, RUNS, label, "")
                found[key] = Occupant(INTERRUPT, RUNS, label, cpus, threads=0)
        return found


def _program(root: Root, thread: Thread) -> str:
    """Return the name of a thread's program, printable."""
    text = root.read_text(f"proc/{thread.process}/comm")
    if isinstance(text, Unknown):
        return thread.stat.name
    name = text.rstrip("\n")[: process.MAX_NAME]
    return "".join(c if c.isprintable() else "?" for c in name)
