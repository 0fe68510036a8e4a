# SPDX-License-Identifier: Apache-2.0

"""Occupancy: what else is on the CPUs for guests.

A thread of Open vSwitch that polls on a dedicated pCPU takes it from the guest
that Nova puts there. One pass of /proc finds the threads that may run on those
CPUs, and two passes what they take. Threads of guests are left out, and so are
those that the kernel has on each CPU.

An occupant counts once it is seen, until two looks have not seen it.
"""

import dataclasses
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
from sriov_rt.host import procfs
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import errors
from sriov_rt.parse import interrupts
from sriov_rt.parse import process
from sriov_rt.parse.process import Stat
from sriov_rt.parse.text import masked

THREAD, KERNEL_THREAD = "thread", "kernel_thread"
INTERRUPT, MASK = "interrupt", "mask"

#: States, worst first.
PINNED, RUNS, MAY = STATES = ("pinned", "runs", "may")

#: The most threads whose state is read; the others count as unread.
MAX_STATES = 16384

#: The most occupants that are published.
MAX_OCCUPANTS = 16

#: Share of a CPU from which a thread that is not pinned runs there, percent.
BUSY_PERCENT = 1

#: Looks without an occupant after which it is gone.
GONE_LOOKS = 2

#: Change of a share that is published, percentage points.
SHARE_STEP = 20

#: Seconds from the first look to the second.
FIRST_LOOK_S = 0.5

#: The longest chain of parents that is followed.
_MAX_PARENTS = 64

_INTERRUPTS = "proc/interrupts"
#: Kernel threads that work for one guest, named after its process: a vhost
#: worker before Linux 6.4, and the timer of a PIT.
_OF_GUEST = re.compile(r"(?:vhost-|kvm-pit/)([0-9]{1,7})")
#: Kernel threads of a NUMA node, which before Linux 6.14 set their own
#: affinity to all of its CPUs (kswapd() and kcompactd() in mm/).
_OF_NODE = ("kcompactd", "kswapd")
_IRQ = "irq/"
_SWITCH = "ovs-vswitchd"
_HZ = os.sysconf("SC_CLK_TCK")

#: Identity of a thread between looks: its id and its start.
Identity = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Thread:
    """A thread that may run on selected CPUs.

    :param process: process that the thread belongs to.
    :param allowed: CPUs that it may run on.
    """

    process: int
    allowed: CpuSet
    stat: Stat

    @property
    def identity(self) -> Identity:
        """Its id and its start, as ids are reused."""
        return self.stat.thread, self.stat.started


class Threads:
    """Threads of a host that may run on some CPUs, by one pass of /proc.

    :param matters: returns whether to read a thread's state, by the CPUs that
        it may run on.
    :param skipped: processes whose threads are left out.
    :ivar unread: number of threads that could not be inspected.
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
        processes = procfs.numbers(self._root, "proc", procfs.MAX_PROCESSES)
        for number in map(int, processes):
            if number in self._skipped:
                continue
            directory = f"proc/{number}/task"
            for thread in map(int, procfs.numbers(self._root, directory)):
                path = f"{directory}/{thread}"
                try:
                    allowed = allowed_of(path, thread)
                    if not self._matters(allowed):
                        continue
                    states += 1
                    text = _read(self._root, f"{path}/stat")
                    stat = process.parse_stat(text)
                except (ProcessLookupError, FileNotFoundError):
                    continue  # it has ended
                except (OSError, errors.ParseError):
                    self.unread += 1
                    continue
                if states > MAX_STATES:
                    self.unread += 1
                elif not (stat.is_kernel and stat.is_bound):
                    yield Thread(number, CpuSet(allowed), stat)


def _affinity(root: Root) -> Callable[[str, int], Collection[int]]:
    """Return a function that reads the CPUs that a thread may run on.

    The system call takes a hundredth of the time of a status file, but works
    only for the running kernel's threads, by their ids on the host.
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


def _pinned_or(
    dedicated: CpuSet, isolated: CpuSet
) -> Callable[[Collection[int]], bool]:
    """Return a test of whether a thread is pinned to CPUs for guests.

    Threads that may run on isolated CPUs count as well. On other CPUs anything
    may run, which another Reason reports.
    """
    pinned, quiet = frozenset(dedicated), frozenset(isolated)
    return lambda allowed: (
        pinned.issuperset(allowed) or not quiet.isdisjoint(allowed)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """Findings of one look at the host.

    :param threads: threads of no guest, each with its program and its unit.
    :param fired: name and counts by CPU of each interrupt.
    :param pmds: CPUs of Open vSwitch's PMD threads.
    """

    at: float
    threads: Mapping[Identity, tuple[Thread, str, str]]
    fired: Mapping[int, tuple[str, Mapping[int, int]]]
    pmds: CpuSet
    unread: int


class Guests:
    """Guests that libvirt or the kubelet runs.

    :param keepers: processes of guests; True for a container's keeper.
    :param pods: exclusive CPUs from the kubelet, by UID of the pod.
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

        :param cpus: CPUs for guests.
        """
        if thread.process in self.keepers or place.is_guest:
            return True
        stat = thread.stat
        if stat.is_kernel:
            # Not for a PIT: libvirt's keeper has vhost workers only.
            owner = _OF_GUEST.fullmatch(stat.name)
            is_pit = stat.name.startswith("kvm-pit")
            return bool(owner and not is_pit and int(owner[1]) in self.keepers)
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
    """Return why the host's processes cannot be seen; None if they can."""
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
    known: dict[int, tuple[process.Place, str]] = {}
    for each in passing:
        if each.process not in known:
            known[each.process] = _place(root, each), _program(root, each)
        place, program = known[each.process]
        if not guests.have(each, place, dedicated):
            threads[each.identity] = (each, program, place.unit)
    fired = values.parsed(
        root,
        _INTERRUPTS,
        lambda text: interrupts.parse_interrupts(text, dedicated),
        interrupts.MAX_TEXT,
    )
    if isinstance(fired, Unknown):
        fired = {}
    pmds = ovs.pmd_cpus(root)
    mask = pmds & dedicated if isinstance(pmds, CpuSet) else CpuSet()
    return _Look(at, threads, fired, mask, passing.unread)


def _place(root: Root, thread: Thread) -> process.Place:
    path = f"proc/{thread.process}/cgroup"
    found: process.Place | Unknown = process.Place()
    if not thread.stat.is_kernel:
        found = values.parsed(root, path, process.parse_place)
    return process.Place() if isinstance(found, Unknown) else found


def _program(root: Root, thread: Thread) -> str:
    """Return a thread's program, printable; empty for a kernel thread."""
    if thread.stat.is_kernel:
        return ""
    text = root.read_text(f"proc/{thread.process}/comm")
    if isinstance(text, Unknown):
        return thread.stat.name
    return masked(text.rstrip("\n")[: process.MAX_NAME])


def taken(
    root: Root, cpus: CpuSet, directory: str = kubelet.DIRECTORY
) -> OccupancyFacts:
    """Return everything that is pinned to CPUs, by one look.

    :param cpus: CPUs to look at.
    """
    look = _look(root, cpus, CpuSet(), directory, 0.0)
    if isinstance(look, Unknown):
        return OccupancyFacts(look)
    found = _occupants(cpus, CpuSet(), None, look)
    return OccupancyFacts(tuple(found.values()), look.unread)


def on_cpus(
    root: Root, owners: Mapping[int, str], cpus: CpuSet
) -> Iterator[OtherThread]:
    """Yield threads that may run on CPUs of guests, and last ran there.

    Of the kernel's threads, only those are yielded that work for a guest, on
    its own CPUs or not.

    :param owners: instance by process of a guest.
    """
    some = frozenset(cpus)
    every = Threads(root, lambda allowed: not some.isdisjoint(allowed))
    for each in every if cpus else ():
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
            names = (_program(root, each), _place(root, each).unit)
            owner = ", ".join(x for x in names if x and x != stat.name)
        yield OtherThread(stat.thread, stat.name, stat.cpu, instance, owner)


class Occupancy:
    """Occupancy of a host's CPUs for guests, look by look.

    :param kubelet_directory: directory of the kubelet's state.
    :param pause: waits between the first two looks, seconds.
    :param monotonic: returns the time, seconds.
    :param clock: returns Unix time, seconds.
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
        """Return what is on the CPUs for guests; ``irqs`` are the host's."""
        dedicated = for_guests(cpus, compute)
        if isinstance(dedicated, Unknown):
            return OccupancyFacts(dedicated)
        isolated = cpus.isolated
        quiet = CpuSet()
        if not isinstance(isolated, Unknown):
            quiet = dedicated & isolated
        if not isinstance(cpus.online, Unknown) and cpus.online <= dedicated:
            dedicated = CpuSet()  # the host has no other CPU
        look = self._look(dedicated, quiet)
        if isinstance(look, Unknown):
            return OccupancyFacts(look)
        if self._before is None and (look.threads or look.fired):
            self._before = look
            self._pause(FIRST_LOOK_S)
            look = self._look(dedicated, quiet)
            if isinstance(look, Unknown):
                return OccupancyFacts(look)
        found = _occupants(dedicated, quiet, self._before, look)
        if self._before is not None:
            found |= _interrupts(self._before, look, _managed(irqs))
        self._before = look
        return _bounded(self._steady(found), look.unread)

    def _look(self, dedicated: CpuSet, isolated: CpuSet) -> _Look | Unknown:
        if not dedicated:
            return _Look(self._monotonic(), {}, {}, CpuSet(), 0)
        return _look(
            self._root, dedicated, isolated, self._directory, self._monotonic()
        )

    def _steady(self, found: "Mapping[_Key, Occupant]") -> list[Occupant]:
        """Return the occupants, kept steady from look to look."""
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
    # A thread that has just begun has no known share yet.
    return now is None or (
        before is not None and abs(now - before) < SHARE_STEP
    )


def _managed(irqs: IrqFacts) -> frozenset[int]:
    """Return the interrupts whose affinity only the kernel sets."""
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


#: Identity of an occupant: kind, state, program and unit.
_Key = tuple[str, str, str, str]


def _occupants(
    dedicated: CpuSet, isolated: CpuSet, before: _Look | None, now: _Look
) -> dict[_Key, Occupant]:
    """Return threads by program and unit, and Open vSwitch's mask."""
    members: dict[_Key, list[Occupant]] = {}
    running = CpuSet()
    for each, program, unit in now.threads.values():
        stat = each.stat
        share, cpus = None, CpuSet((stat.cpu,))
        old = None if before is None else before.threads.get(each.identity)
        if before is not None and old is not None and now.at > before.at:
            ticks = (stat.ticks - old[0].stat.ticks) / (now.at - before.at)
            share = min(max(round(ticks * 100 / _HZ), 0), 100)
            cpus |= CpuSet((old[0].stat.cpu,))
        state = _state(each, share, cpus, dedicated, isolated)
        if stat.is_kernel and stat.name.startswith(_IRQ) and state == MAY:
            continue  # it follows its interrupt when that fires
        if state != RUNS:
            cpus = each.allowed & dedicated
        if program == _SWITCH:
            running |= cpus
        kind = KERNEL_THREAD if stat.is_kernel else THREAD
        name = program or stat.name.partition("/")[0]
        if (state, program) == (MAY, ""):
            # Kernel threads that may run anywhere are reported as one, and
            # those of NUMA nodes, which have another remedy, as another.
            name = _OF_NODE[0] if name.startswith(_OF_NODE) else ""
        key = (kind, state, name, unit)
        members.setdefault(key, []).append(
            Occupant(
                kind,
                state,
                stat.name,
                cpus & dedicated,
                program,
                unit,
                thread=stat.thread,
                share=share,
            )
        )
    found = {key: _as_one(rows) for key, rows in members.items()}
    if left := now.pmds - running:
        row = Occupant(MASK, PINNED, "pmd-cpu-mask", left, _SWITCH, threads=0)
        found[MASK, PINNED, _SWITCH, ""] = row
    return found


def _state(
    thread: Thread,
    share: int | None,
    seen: CpuSet,
    dedicated: CpuSet,
    isolated: CpuSet,
) -> str:
    is_pinned = thread.allowed <= dedicated
    if is_pinned and not thread.stat.is_kernel:
        return PINNED  # on purpose, even while it sleeps
    is_busy = share is not None and share >= BUSY_PERCENT
    return RUNS if is_busy and (is_pinned or seen <= isolated) else MAY


def _as_one(rows: list[Occupant]) -> Occupant:
    first = min(rows, key=lambda row: (min(row.cpus, default=0), row.thread))
    shares = [each.share for each in rows if each.share is not None]
    return dataclasses.replace(
        first,
        cpus=CpuSet().union(*(each.cpus for each in rows)),
        threads=len(rows),
        share=max(shares, default=None),
    )


def _interrupts(
    before: _Look, now: _Look, managed: Collection[int]
) -> dict[_Key, Occupant]:
    """Return the interrupts that have fired between two looks.

    :param managed: interrupts that nobody can move.
    """
    found: dict[_Key, Occupant] = {}
    for irq, (name, counts) in now.fired.items():
        _, old = before.fired.get(irq, ("", {}))
        cpus = CpuSet(
            x for x, count in counts.items() if count > old.get(x, count)
        )
        if cpus and irq not in managed:
            label = f"{irq} ({name})" if name else str(irq)
            row = Occupant(INTERRUPT, RUNS, label, cpus, threads=0)
            found[INTERRUPT, RUNS, label, ""] = row
    return found
