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


"""The processes of a host and Onload's driver, as /proc and /sys tell."""

from collections.abc import Iterable
from collections.abc import Iterator

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.onload import effect
from sriov_rt.onload import rootfs
from sriov_rt.onload.effect import Driver
from sriov_rt.onload.effect import Process
from sriov_rt.onload.elf import Elf

#: The most that is read of /proc/PID/maps and environ, in bytes. A process
#: may have 65,530 mappings (vm.max_map_count) of some 100 bytes each; an
#: environment is a quarter of the stack's limit, 2 MiB by default.
MAX_MAPS = 16 * 1024 * 1024
MAX_ENVIRON = 2 * 1024 * 1024
MAX_STACKS = 4 * 1024 * 1024

STACKS = "proc/driver/onload/stacks_ul"


class _Unreadable(Exception):
    """A process that is there and may not be looked at."""


def driver(root: Root) -> Driver:
    """Return what Onload's driver tells."""
    is_loaded = root.exists("sys/module/onload")
    text = root.read_text(STACKS, MAX_STACKS, may_be_empty=True)
    return Driver(
        is_loaded,
        text if isinstance(text, Unknown) else effect.stacks(text),
    )


class Processes:
    """The processes of a host.

    :param root: its file system.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        #: How many could not be looked at: they are others'.
        self.unreadable = 0

    def __iter__(self) -> Iterator[Process]:
        """Yield those that are there, by number."""
        names = self._root.list_dir("proc")
        if isinstance(names, Unknown):
            return
        yield from self.of(
            int(n) for n in names if n.isascii() and n.isdigit()
        )

    def of(self, numbers: Iterable[int]) -> Iterator[Process]:
        """Yield those of these that are there, by number."""
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
            # A thread of the kernel, or a zombie.
            return None
        environ = self._bytes(f"proc/{pid}/environ", MAX_ENVIRON)
        if environ is None:
            return None
        library = effect.mapped(maps)
        found = Process(
            pid, self._name(pid), effect.variables(environ), library
        )
        if library is None and not found.is_asked:
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
        # As the process sees it: it may be in a container.
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
            return f"the program is of musl ({loader})"
        return None

    def _bytes(self, path: str, limit: int) -> bytes | None:
        """Return what a file has, None if its process is gone.

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
                # procfs gives a file in pieces.
                while limit > 0 and (piece := file.read(limit)):
                    pieces.append(piece)
                    limit -= len(piece)
            except ProcessLookupError:
                return None
            except OSError as error:
                raise _Unreadable(path) from error
        return b"".join(pieces)
