# SPDX-License-Identifier: Apache-2.0

"""State of Onload, from processes in /proc and its driver's counts."""

import dataclasses
import enum
import re
import types
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.onload import plan
from sriov_rt.onload import rootfs
from sriov_rt.onload.elf import Elf

#: Name of Onload's library: libonload.so, libonload.so.9.
_LIBRARY = re.compile(r"libonload\.so(?:\.[0-9]+)*", re.ASCII)

#: A line of /proc/PID/maps: addresses, rights, offset, device, inode, path
#: (show_map_vma of fs/proc/task_mmu.c).
_MAP = re.compile(
    r"[0-9a-f]+-[0-9a-f]+ [-rwxsp]{4} [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ [0-9]+"
    r" *(?P<path>/.*)",
    re.ASCII,
)

#: A line of /proc/driver/onload/stacks_ul: a stack, the process that created
#: it, its user, and counters (efab_stacks_seq_show of Onload's
#: src/driver/linux_onload/linux_stats.c).
_STACK = re.compile(r"(?P<id>[0-9]{1,10}): (?P<pid>[0-9]{1,10}) ", re.ASCII)

#: Part of a library's soname that marks it as a substitute for Onload's,
#: compiled for tests.
STAND_IN = "stand-in"


class State(enum.StrEnum):
    """State of Onload in a process."""

    REQUESTED = "asked"
    INJECTED = "injected"
    ACCELERATED = "accelerated"


_WORDS: Mapping[State, str] = types.MappingProxyType(
    {
        State.REQUESTED: "requested, not injected",
        State.INJECTED: "injected, not accelerated",
        State.ACCELERATED: "accelerated",
    }
)
_STANDS_IN = " (the library is a stand-in for Onload's)"


@dataclasses.dataclass(frozen=True, slots=True)
class Driver:
    """State of Onload's driver.

    :param is_loaded: whether the module onload is loaded.
    :param stacks: process to the number of stacks that it created.
    """

    is_loaded: bool | Unknown
    stacks: Mapping[int, int] | Unknown


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc shows it.

    :param variables: LD_PRELOAD and Onload's variables at its start.
    :param library: path of Onload's library that it has mapped.
    :param soname: soname of that file, None if it can't be read.
    :param why_not: why a preload can't have worked, a clause; else None.
    """

    pid: int
    name: str
    variables: Mapping[str, str]
    library: str | None
    soname: str | None = None
    why_not: str | None = None

    @property
    def is_requested(self) -> bool:
        """Whether it was started with Onload's library as a preload."""
        named = re.split("[ :]", self.variables.get(plan.PRELOAD, ""))
        return any(is_library(each) for each in named)


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """State of Onload in one process.

    :param why: the state's reason, a clause.
    :param is_stand_in: whether the library is a test substitute.
    """

    process: Process
    state: State
    why: str
    is_stand_in: bool

    @property
    def sentence(self) -> str:
        """The state and its reason."""
        return f"{_WORDS[self.state]}: {self.why}{self.note}"

    @property
    def note(self) -> str:
        """Note to show with any state; may be empty."""
        return _STANDS_IN if self.is_stand_in else ""


def is_library(path: str) -> bool:
    """Return whether a path has the name of Onload's library."""
    return _LIBRARY.fullmatch(path.rpartition("/")[2]) is not None


def variables(environ: bytes) -> Mapping[str, str]:
    """Return LD_PRELOAD and Onload's variables in /proc/PID/environ."""
    found: dict[str, str] = {}
    for each in environ.split(b"\0"):
        name, equals, value = each.partition(b"=")
        ours = name == plan.PRELOAD.encode() or name.startswith(
            plan.PREFIX.encode()
        )
        if equals and ours:
            # As with getenv(), the first value of a name counts.
            found.setdefault(_text(name), _text(value))
    return types.MappingProxyType(found)


def mapped(maps: bytes) -> str | None:
    """Return the path of Onload's library in /proc/PID/maps."""
    for line in maps.split(b"\n"):
        if b"libonload.so" not in line:
            continue
        found = _MAP.fullmatch(_text(line))
        if found is None:
            continue
        path = found["path"].removesuffix(" (deleted)")
        if is_library(path):
            return path
    return None


def stacks(text: str) -> Mapping[int, int]:
    """Return process to its stacks in /proc/driver/onload/stacks_ul.

    Lines of another form are ignored.
    """
    found: dict[int, int] = {}
    for line in text.split("\n"):
        match = _STACK.match(line)
        if match is not None:
            pid = int(match["pid"])
            found[pid] = found.get(pid, 0) + 1
    return types.MappingProxyType(found)


def judge(process: Process, driver: Driver) -> Effect | None:
    """Return the state of a process; None without Onload."""
    if process.library is None and not process.is_requested:
        return None
    stand_in = STAND_IN in (process.soname or "")
    if process.library is None:
        why = process.why_not or "its library is not mapped"
        return Effect(process, State.REQUESTED, why, stand_in)
    state, why = _injected(process.pid, driver)
    return Effect(process, state, why, stand_in)


def _injected(pid: int, driver: Driver) -> tuple[State, str]:
    if isinstance(driver.is_loaded, Unknown):
        why = "whether there is an onload module is unknown"
        return State.INJECTED, f"{why} ({driver.is_loaded.reason})"
    if not driver.is_loaded:
        return State.INJECTED, "no onload module"
    if isinstance(driver.stacks, Unknown):
        why = f"its stacks are unknown ({driver.stacks.reason})"
        return State.INJECTED, why
    count = driver.stacks.get(pid, 0)
    if not count:
        return State.INJECTED, "the driver counts no stack of this process"
    return State.ACCELERATED, f"the driver counts {count} of its stacks"


def all_of(processes: Iterable[Process], driver: Driver) -> Iterator[Effect]:
    """Yield the state of each process that has Onload."""
    for each in processes:
        effect = judge(each, driver)
        if effect is not None:
            yield effect


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


#: The most bytes read of /proc/PID/maps and environ. A process
#: may have 65,530 mappings (vm.max_map_count) of some 100 bytes each; an
#: environment is a quarter of the stack's limit, 2 MiB by default.
MAX_MAPS = 16 * 1024 * 1024
MAX_ENVIRON = 2 * 1024 * 1024
MAX_STACKS = 4 * 1024 * 1024

STACKS = "proc/driver/onload/stacks_ul"


class _Unreadable(Exception):
    """An existing process may not be inspected."""


def driver(root: Root) -> Driver:
    """Return the state of Onload's driver."""
    is_loaded = root.exists("sys/module/onload")
    text = root.read_text(STACKS, MAX_STACKS, may_be_empty=True)
    return Driver(
        is_loaded,
        text if isinstance(text, Unknown) else stacks(text),
    )


class Processes:
    """The processes of a host."""

    def __init__(self, root: Root) -> None:
        self._root = root
        #: Number of processes of other users that could not be inspected.
        self.unreadable = 0

    def __iter__(self) -> Iterator[Process]:
        """Yield the running processes, by number."""
        names = self._root.list_dir("proc")
        if isinstance(names, Unknown):
            return
        yield from self.of(
            int(n) for n in names if n.isascii() and n.isdigit()
        )

    def of(self, numbers: Iterable[int]) -> Iterator[Process]:
        """Yield the processes that still run, by number."""
        for pid in sorted(numbers):
            try:
                found = self._process(pid)
            except _Unreadable:
                self.unreadable += 1
                continue
            if found is not None:
                yield found

    def _process(self, pid: int) -> Process | None:
        maps = self._bytes(f"proc/{pid}/maps", MAX_MAPS)
        if not maps:
            # It is a kernel thread or a zombie.
            return None
        environ = self._bytes(f"proc/{pid}/environ", MAX_ENVIRON)
        if environ is None:
            return None
        library = mapped(maps)
        found = Process(pid, self._name(pid), variables(environ), library)
        if library is None and not found.is_requested:
            return found
        return Process(
            pid,
            found.name,
            found.variables,
            library,
            soname=self._soname(pid, library),
            why_not=self._why_not(pid) if library is None else None,
        )

    def _name(self, pid: int) -> str:
        text = self._root.read_text(f"proc/{pid}/comm", may_be_empty=True)
        return "?" if isinstance(text, Unknown) else text.rstrip("\n")

    def _soname(self, pid: int, library: str | None) -> str | None:
        if library is None:
            return None
        # The path as the process sees it, which may be in a container.
        seen = f"proc/{pid}/root/{library.lstrip('/')}"
        found = rootfs.read_elf(self._root, seen)
        return found.soname if isinstance(found, Elf) else None

    def _why_not(self, pid: int) -> str | None:
        program = rootfs.read_elf(self._root, f"proc/{pid}/exe")
        if not isinstance(program, Elf):
            return None
        if program.is_static:
            return "the program is linked statically"
        loader = (program.interpreter or "").rpartition("/")[2]
        if loader.startswith("ld-musl-"):
            return f"the program uses musl ({loader})"
        return None

    def _bytes(self, path: str, limit: int) -> bytes | None:
        """Return the bytes of a file, None if its process is gone.

        :raises _Unreadable: if it may not be read.
        """
        file = self._root.open_file(path)
        if isinstance(file, Unknown):
            if self._root.exists(path) is False:
                return None
            raise _Unreadable(path)
        with file:
            pieces: list[bytes] = []
            try:
                # procfs returns a file in pieces.
                while limit > 0 and (piece := file.read(limit)):
                    pieces.append(piece)
                    limit -= len(piece)
            except ProcessLookupError:
                return None
            except OSError as error:
                raise _Unreadable(path) from error
        return b"".join(pieces)
