# SPDX-License-Identifier: Apache-2.0

"""Disk measurements: clients and patterns of StackHPC, block sizes of CERN.

Each cell of the matrix is one run of fio and one file of results, so that a
run can be resumed. All files are in the given directory. The data that fio
reads and writes is in a subdirectory, which is removed at the end.
"""

import dataclasses
import itertools
import os
import pathlib
import shutil
import stat
import time
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.codec import Unknown
from sriov_rt.host import conditions
from sriov_rt.host.root import Root
from sriov_rt.parse import duration
from sriov_rt.verify import fio
from sriov_rt.verify import machine as machines
from sriov_rt.verify import matrix
from sriov_rt.verify import process
from sriov_rt.verify import published
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.errors import TargetUnusable

#: Prefix of each result file's name.
PREFIX = "disk-"

#: Subdirectory of fio's files.
DATA = "data"

#: Numbers of clients that StackHPC measured with, and workers per client.
CLIENTS = (1, 8, 64)
WORKERS = 4

#: Block sizes of the sweep, in bytes.
BLOCKS = tuple(4096 << number for number in range(9))

#: The suites: the matrix of StackHPC and the sweep of CERN.
MATRIX = "matrix"
SWEEP = "sweep"
SUITES = (MATRIX, SWEEP)

#: Place of a run in namespaces of its own on this host or guest; other places
#: are named after their file system.
CONTAINER = "container"

#: Command that makes a container's namespaces, with the directory as volume.
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

#: Seconds that a run may take on top of its runtime and of the time to lay
#: out its files, at this many bytes per second.
_SLACK_S = 120.0
_LAYOUT = 50e6

#: Bytes that have to stay free.
_SPARE = 64 * 1024 * 1024

#: Default sizes of each worker's file, in MiB: the first is taken with which
#: all data takes at most this part of the free space.
SIZES = tuple(1024 >> number for number in range(11))
_PART = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One run of one suite.

    :param suite: one of SUITES.
    :param place: where it runs: how its file system is attached, or
        CONTAINER.
    :param clients: number of clients, each with WORKERS; 1 in the sweep.
    """

    suite: str
    place: str
    clients: int
    job: fio.Job

    @property
    def duration_s(self) -> int:
        """How long it measures, in seconds."""
        return self.job.runtime_s

    @property
    def file(self) -> str:
        """The name of its file."""
        size = f"{self.job.block // 1024}k"
        return (
            f"{PREFIX}{self.suite}-{self.place}-{self.job.pattern}-"
            f"{self.clients}-{size}.json"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Result of one measurement.

    :param file_system: its type, source and options.
    :param started_at: Unix time in seconds.
    :param emulated: whether the host is a virtual machine itself; then the
        figures say nothing about hardware.
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
    machine: machines.Machine = machines.UNKNOWN

    @property
    def has_figures(self) -> bool:
        """Whether the measurement has figures."""
        return self.figures is not None


@dataclasses.dataclass(frozen=True, slots=True)
class FileSystem:
    """The file system that a directory is on.

    :param kind: its type, such as ``ext4``.
    :param options: options of the mount and of the file system.
    """

    kind: str
    source: str
    options: tuple[str, ...]

    def place(self, emulated: bool) -> str:
        """Return the name of the place with this file system."""
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
    """Return the file system of a directory, from /proc/self/mountinfo.

    :raises TargetUnusable: if it is not listed there.
    """
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    text = pathlib.Path("/proc/self/mountinfo").read_text(errors="replace")
    found = None
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 6 or len(tail) < 3 or fields[2] != number:
            continue
        options = (*fields[5].split(","), *tail[2].split(","))
        found = FileSystem(tail[0], tail[1], tuple(dict.fromkeys(options)))
    if found is None:
        raise TargetUnusable(
            str(directory), "its file system is not in /proc/self/mountinfo"
        )
    return found


def place_of(directory: pathlib.Path, root: Root) -> str:
    """Return the name of the place where a directory is, or will be.

    :raises TargetUnusable: if its file system is unknown.
    """
    existing = _existing(directory)
    return file_system(existing).place(conditions.emulated(root))


def data_size(some: Iterable[Cell]) -> int:
    """Return the most bytes that the data of all cells takes.

    Cells of one suite reuse the same files.
    """
    suites: dict[str, int] = {}
    for cell in some:
        size = max(suites.get(cell.suite, 0), cell.job.data_size)
        suites[cell.suite] = size
    return sum(suites.values())


def missing(some: Iterable[Cell]) -> Iterator[tuple[str, str]]:
    """Yield each program that has to be installed, and its package."""
    programs = {fio.TOOL: fio.PACKAGE}
    if any(cell.place == CONTAINER for cell in some):
        programs[_CONTAINER[0]] = "util-linux"
    for name, package in programs.items():
        if shutil.which(name) is None:
            yield name, package


def extent(some: Sequence[Cell], directory: pathlib.Path) -> str:
    """Return how long cells take and how much they write, as one line."""
    whole = sum(each.duration_s for each in some)
    free = _free(directory)
    return (
        f"{len(some)} runs, {duration.format_duration(whole)} and the time "
        f"to write {_gib(data_size(some))} of data; {_gib(free)} are free"
    )


def planned(some: Sequence[Cell], directory: pathlib.Path) -> Iterator[str]:
    """Yield the runs that would be made, a line each."""
    yield from matrix.planned(extent(some, directory), some, PREFIX)


def cells(
    suites: Iterable[str],
    places: Sequence[str],
    clients: Sequence[int],
    patterns: Sequence[str],
    size_mib: int,
    runtime_s: int,
) -> Iterator[Cell]:
    """Yield the cells of a measurement, each place in turn.

    :param clients: numbers of clients in the matrix.
    :param patterns: patterns of the matrix.
    :param size_mib: size of each worker's file.
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
        # As CERN did: many readers or one writer, one request in flight.
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


def fitted(
    directory: pathlib.Path, make: Callable[[int], list[Cell]], *, resume: bool
) -> list[Cell]:
    """Return cells whose data fits the file system of a directory.

    :param make: makes the cells for a size of files.
    :param resume: keep the file size of existing results.
    """
    known = [each.cell.job.size_mib for each in Target(directory).all()]
    if resume and known:
        return make(known[0])
    room = _PART * _free(directory)
    made = (make(size) for size in SIZES)
    found = [each for each in made if data_size(each) <= room]
    return found[0] if found else make(SIZES[-1])


class Target(matrix.Results[Measured]):
    """Directory of a measurement: its results and, meanwhile, fio's files.

    :param directory: made if it is missing.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, Measured, PREFIX)
        self._data = directory / DATA

    def check(self, size: int, *, resume: bool) -> None:
        """Check it; nothing is written.

        :param size: the most bytes that the data takes.
        :param resume: whether it may have results.
        :raises TargetUnusable: if it is not an empty directory or lacks space.
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
        self._check_free(size)

    def prepare(self, size: int, *, resume: bool) -> None:
        """Check it, and make it.

        :raises TargetUnusable: as :meth:`check` does.
        """
        self.check(size, resume=resume)
        self.directory.mkdir(parents=True, exist_ok=True)

    def _check_data(self) -> None:
        """Refuse files that are not fio's: they would be overwritten."""
        if not stat.S_ISDIR(self._data.lstat().st_mode):
            raise self._unusable(f"'{DATA}' in it is no directory")
        for each in self._data.iterdir():
            if each.suffix != ".dat" or not stat.S_ISREG(each.lstat().st_mode):
                raise self._unusable(
                    f"'{DATA}/{each.name}' in it is none of ours"
                )

    def _check_free(self, size: int) -> None:
        there = 0
        if self._data.exists():
            there = sum(each.stat().st_blocks for each in self._data.iterdir())
        free = _free(self.directory) + 512 * there
        if free < size + _SPARE:
            raise self._unusable(
                f"{_gib(size + _SPARE)} are needed, {_gib(free)} are free; "
                "give a smaller --size or fewer --clients"
            )

    def data(self) -> pathlib.Path:
        """Make and return the directory of fio's files."""
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
    some: Sequence[Cell],
    root: Root,
    *,
    resume: bool,
    progress: Callable[[Cell, int], object] = matrix.silent,
) -> tuple[list[Measured], bool]:
    """Measure the cells that have no result yet; see matrix.run."""
    kind = str(file_system(target.directory))
    machine = machines.observe(root)
    release = root.read_text("proc/sys/kernel/osrelease")
    kernel = "" if isinstance(release, Unknown) else release.strip()
    emulated = conditions.emulated(root)

    def measure(cell: Cell) -> Measured:
        command = fio.command(cell.job)
        if cell.place == CONTAINER:
            command = (*_CONTAINER, *command)
        base = Measured(
            cell=cell,
            file_system=kind,
            kernel=kernel,
            version="",
            command=" ".join(command),
            started_at=time.time(),
            emulated=emulated,
            figures=None,
            machine=machine,
        )
        try:
            version, figures = _measure(cell, command, target.data())
        except (RunFailed, OutputInvalid) as error:
            return dataclasses.replace(base, problem=str(error))
        return dataclasses.replace(base, version=version, figures=figures)

    try:
        return matrix.run(
            some, target, measure, resume=resume, progress=progress
        )
    finally:
        target.clean()


def _measure(
    cell: Cell, command: Sequence[str], data: pathlib.Path
) -> tuple[str, fio.Figures]:
    """Run fio once, and return its version and its figures.

    :raises KeyboardInterrupt: after Ctrl-C, once fio has ended.
    :raises RunFailed: if it fails.
    :raises OutputInvalid: if its output is not understood.
    """
    lines = process.Lines(fio.MAX_OUTPUT)
    limit = cell.job.runtime_s + _SLACK_S + cell.job.data_size / _LAYOUT
    ended = process.run(command, limit, lines.feed, directory=data)
    if ended.interrupted:
        raise KeyboardInterrupt
    if ended.code != 0:
        raise RunFailed(fio.TOOL, ended.last_line())
    return fio.parse(lines.whole(), cell.job)


def _existing(directory: pathlib.Path) -> pathlib.Path:
    """Return a directory, or its nearest existing parent."""
    found = directory.absolute()
    while not found.exists():
        found = found.parent
    return found


def _free(directory: pathlib.Path) -> int:
    """Return the free bytes where a directory is, or will be."""
    found = os.statvfs(_existing(directory))
    return found.f_bavail * found.f_frsize


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _index(known: Sequence[str], name: str) -> int:
    return known.index(name) if name in known else len(known)


def _order(measured: Measured) -> tuple[object, ...]:
    """Return a sort key: a container follows the place that it runs on."""
    cell = measured.cell
    return (
        _index(SUITES, cell.suite),
        _index(fio.PATTERNS, cell.job.pattern),
        cell.clients,
        cell.job.block,
        cell.place == CONTAINER,
        cell.place,
    )


def _key(measured: Measured, *, contained: bool | None = None) -> Hashable:
    cell = measured.cell
    if contained is None:
        contained = cell.place == CONTAINER
    return contained, cell.suite, cell.clients, cell.job


def _parity(measured: Measured, known: Mapping[Hashable, Measured]) -> str:
    """Return a container's IOPS as a percentage of those of its place."""
    base = known.get(_key(measured, contained=False))
    if measured.cell.place != CONTAINER or base is None or not base.figures:
        return "-"
    return f"{100 * _figures(measured).iops / base.figures.iops:.1f} %"


def _figures(measured: Measured) -> fio.Figures:
    assert measured.figures is not None
    return measured.figures


def _source(measured: Measured) -> str:
    """Return the publication that a cell is compared with."""
    if measured.cell.suite == MATRIX:
        return published.STACKHPC
    return published.CERN


def _published(measured: Measured) -> str:
    """Return the published figure, IOPS against bare metal; "-" for none."""
    cell = measured.cell
    if cell.place != CONTAINER:
        return "-"
    if cell.suite == MATRIX:
        # StackHPC published plots, and one sentence about them.
        return "about 100 %"
    key = (cell.job.pattern, cell.job.block)
    return _CERN.get(key, "99 to 101 %")


#: IOPS of a container where CERN's tables differ from bare metal by over 1 %.
_CERN = {
    ("randread", 32768): "52.1 %",
    ("write", 32768): "80.3 %",
}


def same_way(cell: Cell) -> str:
    """Return "yes" if a cell is as published; otherwise the differences."""
    if cell.suite == SWEEP:
        return "no: a file system, not a raw NVMe drive; namespaces, not LXC"
    job = cell.job
    ways = []
    if cell.place == CONTAINER:
        ways.append("namespaces, no container runtime")
    if job.size_mib != _SIZE_MIB:
        ways.append(f"files of {job.size_mib} MiB, not {_SIZE_MIB} MiB")
    if job.runtime_s != _RUNTIME_S:
        ways.append(f"{job.runtime_s} s, not {_RUNTIME_S} s")
    if cell.clients not in CLIENTS:
        ways.append(f"{cell.clients} clients")
    return f"no: {', '.join(ways)}" if ways else "yes"


#: Size of StackHPC's files, and seconds of each of its runs.
_SIZE_MIB = 32 * 1024
_RUNTIME_S = 30


_NEVER = (False, False)
_ALONE = (True, False)

TABLE: matrix.Table[Measured] = matrix.Table(
    columns=(
        matrix.Column("Suite", lambda x, _: x.cell.suite, _NEVER),
        matrix.Column("Place", lambda x, _: x.cell.place),
        matrix.Column("Pattern", lambda x, _: x.cell.job.pattern),
        matrix.Column("Clients", lambda x, _: str(x.cell.clients)),
        matrix.Column("Block", lambda x, _: f"{x.cell.job.block // 1024}k"),
        matrix.Column(
            "MB/s", lambda x, _: f"{_figures(x).bandwidth / 1e6:.1f}", _ALONE
        ),
        matrix.Column("IOPS", lambda x, _: f"{_figures(x).iops:.0f}"),
        matrix.Column(
            "Mean µs", lambda x, _: f"{_figures(x).mean_us:.0f}", _ALONE
        ),
        matrix.Column(
            "p99 µs", lambda x, _: f"{_figures(x).p99_us:.0f}", _NEVER
        ),
        matrix.Column("Of here", _parity),
    ),
    order=_order,
    key=_key,
    source=_source,
    published=_published,
    same_way=lambda measured: same_way(measured.cell),
)
