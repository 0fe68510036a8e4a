# SPDX-License-Identifier: Apache-2.0

"""Matrix of measurements: cells, their files, and the table of their figures.

Disk and network measurements are lists of cells. Each cell is measured once
and kept in its own file, so that a run can be resumed.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Generic
from typing import Protocol
from typing import TypeVar

from sriov_rt.verify import published
from sriov_rt.verify import results

#: The longest file of a cell, in bytes.
MAX_FILE = 64 * 1024

#: Columns of published figures, which are shown on request.
PUBLISHED = "Published"
SAME_WAY = "Same way"


class Cell(Protocol):
    """One measurement that can be made."""

    @property
    def file(self) -> str:
        """The name of its file."""

    @property
    def duration_s(self) -> int:
        """How long it measures, in seconds."""


class Measured(Protocol):
    """Result of one measurement."""

    @property
    def cell(self) -> Any:
        """The cell that was measured."""

    @property
    def command(self) -> str:
        """The command line of its program."""

    @property
    def problem(self) -> str:
        """Why there are no figures; empty if there are."""

    @property
    def emulated(self) -> bool:
        """Whether the host is a virtual machine itself."""

    @property
    def has_figures(self) -> bool:
        """Whether the measurement has figures."""


M = TypeVar("M", bound=Measured)
C = TypeVar("C", bound=Cell)


class Results(Generic[M]):
    """Files of the results in one directory.

    :param directory: made if it is missing.
    :param prefix: prefix of each file's name.
    """

    def __init__(
        self, directory: pathlib.Path, kind: type[M], prefix: str
    ) -> None:
        self.directory = directory
        self._kind = kind
        self._prefix = prefix

    def get(self, cell: Cell) -> M | None:
        """Return the result of a cell; None if it has to be measured."""
        path = self.directory / cell.file
        found = results.load(self._kind, path, MAX_FILE)
        if found is None or not found.has_figures:
            return None
        return found if found.cell == cell else None

    def put(self, measured: M) -> None:
        """Write a result atomically.

        :raises OSError: if it can't be written.
        """
        results.keep(self.directory / measured.cell.file, measured)

    def all(self) -> list[M]:
        """Return all results of the directory, in order of their files."""
        return results.load_all(
            self._kind, self.directory, f"{self._prefix}*.json", MAX_FILE
        )


def silent(cell: Cell, left: int) -> None:
    """Show no progress."""


def run(
    cells: Sequence[C],
    kept: Results[M],
    measure: Callable[[C], M],
    *,
    resume: bool,
    progress: Callable[[C, int], object] = silent,
    is_usable: Callable[[M], bool] = lambda found: True,
) -> tuple[list[M], bool]:
    """Measure the cells that have no result yet.

    If a cell can't be measured, its problem is kept, and the next one follows.

    :param measure: measures one cell.
    :param progress: called before each cell, with the number that are left.
    :param is_usable: whether a kept result can be resumed from.
    :returns: the results, and whether Ctrl-C ended the run.
    :raises OSError: if results can't be written.
    """
    done: list[M] = []
    try:
        for number, cell in enumerate(cells):
            found = kept.get(cell) if resume else None
            if found is None or not is_usable(found):
                progress(cell, len(cells) - number)
                found = measure(cell)
                kept.put(found)
            done.append(found)
    except KeyboardInterrupt:
        return done, True
    return done, False


def planned(heading: str, cells: Iterable[Cell], prefix: str) -> Iterator[str]:
    """Yield the cells that would be measured, a line each."""
    yield heading
    for cell in cells:
        yield f"  {cell.file.removeprefix(prefix).removesuffix('.json')}"


@dataclasses.dataclass(frozen=True, slots=True)
class Column(Generic[M]):
    """Column of a table.

    :param text: returns the text for a result, given all results by their
        keys, with which it may be compared.
    :param shown: whether a terminal has room for it, without and with the
        published figures.
    """

    name: str
    text: Callable[[M, Mapping[Hashable, M]], str]
    shown: tuple[bool, bool] = (True, True)


@dataclasses.dataclass(frozen=True, slots=True)
class Table(Generic[M]):
    """Table of results.

    :param columns: its own columns; those of published figures follow.
    :param key: returns the key by which other results find a result.
    :param source: the publication that a result is compared with.
    :param published: the published figure; "-" for none.
    :param same_way: "yes" if it was measured as published; otherwise "no:"
        and the differences.
    """

    columns: tuple[Column[M], ...]
    order: Callable[[M], Any]
    key: Callable[[M], Hashable]
    source: Callable[[M], str]
    published: Callable[[M], str]
    same_way: Callable[[M], str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        own = tuple(each.name for each in self.columns)
        return (*own, PUBLISHED, SAME_WAY)

    def shown(self, *, published: bool) -> tuple[str, ...]:
        """Return the names of the columns that a terminal has room for."""
        own = tuple(x.name for x in self.columns if x.shown[published])
        return (*own, PUBLISHED) if published else own

    def ordered(self, found: Iterable[M]) -> list[M]:
        """Return results in the order of the table."""
        return sorted(found, key=self.order)

    def rows(self, found: Iterable[M]) -> Iterator[tuple[str, ...]]:
        """Yield a row for each result with figures, with columns as names."""
        some = [each for each in self.ordered(found) if each.has_figures]
        known = {self.key(each): each for each in some}
        for each in some:
            yield (
                *(column.text(each, known) for column in self.columns),
                self.published(each),
                self.same_way(each),
            )

    def remarks(self, found: Iterable[M]) -> Iterator[str]:
        """Yield the sources of published figures, and the differences."""
        yield from published.remarks(
            (self.source(each), self.same_way(each))
            for each in self.ordered(found)
            if each.has_figures and self.published(each) != "-"
        )
