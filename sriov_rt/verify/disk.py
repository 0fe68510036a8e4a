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

"""Disk measurements: the scenarios of seed 002, the block sizes of seed 000.

Each cell of the matrix is one run of fio and one file of results, so that a
run can be resumed. All files are in the directory that was given: results
beside each other, and the data that fio reads and writes in one below, which
is removed at the end.
"""

import dataclasses
import itertools
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host import conditions
from sriov_rt.host.root import Root
from sriov_rt.parse import duration
from sriov_rt.verify import fio
from sriov_rt.verify import process
from sriov_rt.verify import results
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.errors import TargetUnusable

#: Begins the name of each file of results.
PREFIX = "disk-"

#: Where fio's files are, below the directory.
DATA = "data"

#: Clients of seed 002, and workers of each.
CLIENTS = (1, 8, 64)
WORKERS = 4

#: Block sizes of the sweep, in bytes.
BLOCKS = tuple(4096 << number for number in range(9))

#: The suites, and whose parameters they have.
MATRIX = "matrix"
SWEEP = "sweep"
SUITES = (MATRIX, SWEEP)

#: The place that is this host or guest, by its file system's name, and the
#: one that is namespaces of their own on it.
CONTAINER = "container"

#: The namespaces of a container, with the directory as its volume.
_CONTAINER = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--ipc",
    "--uts",
    "--net",
)

#: Seconds that a run may take on top of its runtime, and on top of the time
#: that its files take to be laid out at 50 MB/s.
_SLACK_S = 120.0
_LAYOUT = 50e6

#: The longest file of a cell, in bytes.
_MAX_FILE = 64 * 1024

#: Room that has to stay free.
_SPARE = 64 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One run of one suite.

    :param suite: one of SUITES.
    :param place: where it runs: what its file system is attached by, or
        CONTAINER.
    :param clients: of seed 002; 1 in the sweep.
    """

    suite: str
    place: str
    clients: int
    job: fio.Job

    @property
    def name(self) -> str:
        """The name of its file."""
        size = f"{self.job.block // 1024}k"
        return (
            f"{PREFIX}{self.suite}-{self.place}-{self.job.pattern}-"
            f"{self.clients}-{size}.json"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A cell and what came of it.

    :param file_system: type, source and options of the directory's.
    :param started_at: Unix time in seconds.
    :param emulated: the host is a virtual machine itself: the figures say
        nothing of any hardware.
    :param problem: why there are no figures; empty where there are.
    """

    cell: Cell
    file_system: str
    kernel: str
    version: str
    command: str
    started_at: float
    emulated: bool
    figures: fio.Figures | None
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FileSystem:
    """The file system that a directory is on.

    :param kind: its type, such as ``ext4``.
    :param options: of the mount and of the file system.
    """

    kind: str
    source: str
    options: tuple[str, ...]

    def place(self, emulated: bool) -> str:
        """Return the name of a place that is attached like that."""
        if self.kind == "virtiofs":
            dax = any(each.startswith("dax") for each in self.options)
            dax = dax and "dax=never" not in self.options
            return "virtio-fs-dax" if dax else "virtio-fs"
        if self.kind == "9p":
            return "9p"
        if self.source.startswith("/dev/vd"):
            return "virtio-blk"
        return "guest" if emulated else "bare"

    def __str__(self) -> str:
        return f"{self.kind} {self.source} {','.join(self.options)}"


def file_system(directory: pathlib.Path) -> FileSystem:
    """Return what a directory is on, by /proc/self/mountinfo.

    :raises TargetUnusable: if that does not say.
    """
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    text = pathlib.Path("/proc/self/mountinfo").read_text(errors="replace")
    found = None
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if len(fields) < 6 or len(rest) < 3 or fields[2] != wanted:
            continue
        options = (*fields[5].split(","), *rest[2].split(","))
        found = FileSystem(rest[0], rest[1], tuple(dict.fromkeys(options)))
    if found is None:
        raise TargetUnusable(
            str(directory), "its file system is not in /proc/self/mountinfo"
        )
    return found


def place_of(directory: pathlib.Path, root: Root) -> str:
    """Return the name of the place where a directory is, or will be.

    :raises TargetUnusable: if nothing says.
    """
    existing = _existing(directory)
    return file_system(existing).place(conditions.emulated(root))


def space(wanted: Iterable[Cell]) -> int:
    """Return the bytes that the data of all cells takes at most.

    The files of one suite are those of the next cell as well.
    """
    suites: dict[str, int] = {}
    for cell in wanted:
        suites[cell.suite] = max(suites.get(cell.suite, 0), cell.job.space)
    return sum(suites.values())


def missing(wanted: Iterable[Cell]) -> Iterator[tuple[str, str]]:
    """Yield each program that is not there, and its package."""
    programs = {fio.TOOL: fio.PACKAGE}
    if any(cell.place == CONTAINER for cell in wanted):
        programs[_CONTAINER[0]] = "util-linux"
    for name, package in programs.items():
        if shutil.which(name) is None:
            yield name, package


def planned(wanted: Sequence[Cell]) -> Iterator[str]:
    """Yield what would run, a line each."""
    whole = sum(each.job.runtime_s for each in wanted)
    yield (
        f"{len(wanted)} runs, {duration.format_duration(whole)} and the time "
        f"to write {_gib(space(wanted))} of data"
    )
    for cell in wanted:
        yield f"  {cell.name.removeprefix(PREFIX).removesuffix('.json')}"


def silent(cell: Cell, left: int) -> None:
    """Show no progress."""


def cells(
    suites: Iterable[str],
    places: Sequence[str],
    clients: Sequence[int],
    patterns: Sequence[str],
    size_mib: int,
    runtime_s: int,
) -> Iterator[Cell]:
    """Yield the cells of a measurement, each place in turn.

    :param clients: of the matrix.
    :param patterns: of the matrix.
    :param size_mib: of each worker's file.
    """
    for suite in suites:
        if suite == MATRIX:
            for pattern, count, place in itertools.product(
                patterns, clients, places
            ):
                job = fio.Job(
                    pattern,
                    65536,
                    8,
                    WORKERS * count,
                    size_mib,
                    shared=False,
                    runtime_s=runtime_s,
                )
                yield Cell(suite, place, count, job)
            continue
        # Seed 000: many readers, and one writer; one request in flight.
        for (pattern, workers), block, place in itertools.product(
            (("randread", 512), ("write", 1)), BLOCKS, places
        ):
            job = fio.Job(
                pattern,
                block,
                1,
                workers,
                size_mib,
                shared=True,
                runtime_s=runtime_s,
            )
            yield Cell(suite, place, 1, job)


class Target:
    """The directory of a measurement, and nothing outside of it.

    :param directory: made if it is missing.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._data = directory / DATA

    def prepare(self, space: int, *, resume: bool) -> None:
        """Check it, before anything is written.

        :param space: bytes that the data takes at most.
        :param resume: whether results may be there.
        :raises TargetUnusable: if it is no empty directory, or has no room.
        """
        try:
            present = {each.name for each in self.directory.iterdir()}
        except FileNotFoundError:
            present = set()
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from None
        foreign = sorted(
            each
            for each in present - {DATA}
            if not each.startswith((PREFIX, f".{PREFIX}"))
        )
        if foreign:
            raise self._unusable(
                f"'{foreign[0]}' in it is none of ours; name a directory "
                "that is empty or missing"
            )
        if present and not resume:
            raise self._unusable(
                "it has results; go on with --resume, or name another"
            )
        if DATA in present:
            self._check_data()
        self._check_space(space)
        self.directory.mkdir(parents=True, exist_ok=True)

    def _check_data(self) -> None:
        """Refuse data that fio did not leave: it would be written over."""
        if not stat.S_ISDIR(self._data.lstat().st_mode):
            raise self._unusable(f"'{DATA}' in it is no directory")
        for each in self._data.iterdir():
            if each.suffix != ".dat" or not stat.S_ISREG(each.lstat().st_mode):
                raise self._unusable(
                    f"'{DATA}/{each.name}' in it is none of ours"
                )

    def _check_space(self, space: int) -> None:
        there = 0
        if self._data.exists():
            there = sum(each.stat().st_blocks for each in self._data.iterdir())
        found = os.statvfs(_existing(self.directory))
        free = found.f_bavail * found.f_frsize + 512 * there
        if free < space + _SPARE:
            raise self._unusable(
                f"{_gib(space + _SPARE)} are needed, {_gib(free)} are free; "
                "give a smaller --size or fewer --clients"
            )

    def get(self, cell: Cell) -> Measured | None:
        """Return what a cell had before; None if it has to be measured."""
        found = results.load(Measured, self.directory / cell.name, _MAX_FILE)
        if found is None or found.figures is None:
            return None
        return found if found.cell == cell else None

    def all(self) -> list[Measured]:
        """Return all that is kept there."""
        return results.load_all(
            Measured, self.directory, f"{PREFIX}*.json", _MAX_FILE
        )

    def put(self, measured: Measured) -> None:
        """Keep what came of a cell; as a whole or not at all.

        :raises OSError: if it can't be written.
        """
        results.keep(self.directory / measured.cell.name, measured)

    def data(self) -> pathlib.Path:
        """Return where fio's files are; it is made."""
        self._data.mkdir(exist_ok=True)
        return self._data

    def clean(self) -> None:
        """Remove fio's files."""
        if self._data.is_dir() and not self._data.is_symlink():
            shutil.rmtree(self._data)

    def _unusable(self, problem: str) -> TargetUnusable:
        return TargetUnusable(str(self.directory), problem)


def run(
    target: Target,
    wanted: Sequence[Cell],
    root: Root,
    *,
    resume: bool,
    progress: Callable[[Cell, int], object] = silent,
) -> tuple[list[Measured], bool]:
    """Measure the cells that are not there yet.

    A cell that can't be measured is kept with its problem, and the next has
    its turn.

    :param progress: is called before each, with how many are left.
    :returns: what was measured, and whether Ctrl-C ended it.
    :raises OSError: if results can't be written.
    """
    kind = str(file_system(target.directory))
    release = root.read_text("proc/sys/kernel/osrelease")
    host: Mapping[str, object] = {
        "kernel": "" if isinstance(release, Unknown) else release.strip(),
        "emulated": conditions.emulated(root),
    }
    found = []
    try:
        for number, cell in enumerate(wanted):
            kept = target.get(cell) if resume else None
            if kept is None:
                progress(cell, len(wanted) - number)
                started = time.time()
                outcome = _measure(cell, target.data())
                kept = Measured(
                    cell=cell,
                    file_system=kind,
                    kernel=str(host["kernel"]),
                    version=outcome.version,
                    command=outcome.command,
                    started_at=started,
                    emulated=bool(host["emulated"]),
                    figures=outcome.figures,
                    problem=outcome.problem,
                )
                target.put(kept)
            found.append(kept)
    except KeyboardInterrupt:
        return found, True
    finally:
        target.clean()
    return found, False


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    command: str
    version: str = ""
    figures: fio.Figures | None = None
    problem: str = ""


def _measure(cell: Cell, data: pathlib.Path) -> _Outcome:
    """Run fio once.

    :raises KeyboardInterrupt: after Ctrl-C, when it has ended.
    """
    command = fio.command(cell.job, str(data))
    if cell.place == CONTAINER:
        command = (*_CONTAINER, *command)
    lines = process.Lines(fio.MAX_OUTPUT)
    text = " ".join(command)
    limit = cell.job.runtime_s + _SLACK_S + cell.job.space / _LAYOUT
    try:
        ended = process.run(command, limit, lines.feed, directory=data)
        if ended.interrupted:
            raise KeyboardInterrupt
        if ended.code != 0:
            raise RunFailed(fio.TOOL, ended.last_line())
        version, figures = fio.parse(lines.whole(), cell.job)
    except (RunFailed, OutputInvalid) as error:
        return _Outcome(text, problem=str(error))
    return _Outcome(text, version, figures)


def _existing(directory: pathlib.Path) -> pathlib.Path:
    """Return a directory, or the nearest above it that is there."""
    found = directory.absolute()
    while not found.exists():
        found = found.parent
    return found


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


#: What a table of measurements has.
COLUMNS = (
    "Suite",
    "Place",
    "Pattern",
    "Clients",
    "Block",
    "MB/s",
    "IOPS",
    "Mean µs",
    "p99 µs",
    "Of bare",
    "Seed",
    "Same way",
)


def rows(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Yield a row of each cell that was measured, as COLUMNS has it."""
    bare = {_key(each): each.figures for each in found if _is_base(each)}
    for each in found:
        cell, figures = each.cell, each.figures
        if figures is None:
            continue
        base = bare.get(_key(each)) if cell.place == CONTAINER else None
        parity = f"{100 * figures.iops / base.iops:.1f} %" if base else "-"
        yield (
            cell.suite,
            cell.place,
            cell.job.pattern,
            str(cell.clients),
            f"{cell.job.block // 1024}k",
            f"{figures.bandwidth / 1e6:.1f}",
            f"{figures.iops:.0f}",
            f"{figures.mean_us:.0f}",
            f"{figures.p99_us:.0f}",
            parity,
            seed(cell),
            "yes" if _same_way(cell) else "no",
        )


def seed(cell: Cell) -> str:
    """Return what the seeds measured there, against bare metal, in IOPS."""
    if cell.place != CONTAINER:
        return "-"
    if cell.suite == MATRIX:
        # Seed 002 has plots, and one sentence on them.
        return "about 100 %"
    key = (cell.job.pattern, cell.job.block)
    return _SEED_000.get(key, "99 to 101 %")


#: Seed 000's tables of what was not within 1 %: IOPS of a container.
_SEED_000 = {
    ("randread", 32768): "52.1 %",
    ("write", 32768): "80.3 %",
}


def _same_way(cell: Cell) -> bool:
    """Tell whether a cell has the seed's parameters, sizes and place."""
    if cell.suite == SWEEP:
        # Its device was an NVMe's, raw, and its container LXC's.
        return False
    job = cell.job
    return (
        cell.place != CONTAINER
        and (job.size_mib, job.runtime_s) == (32 * 1024, 30)
        and cell.clients in CLIENTS
    )


def _key(each: Measured) -> tuple[object, ...]:
    return each.cell.suite, each.cell.clients, each.cell.job


def _is_base(each: Measured) -> bool:
    return each.cell.place != CONTAINER
