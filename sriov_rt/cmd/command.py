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

"""Output of commands in each form: the one place of tables."""

import abc
import argparse
import dataclasses
import json
import shutil
import sys
import textwrap
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from cliff import command
from cliff import display
from cliff import lister
from cliff import show
from cliff.formatters import table

from sriov_rt.cmd import faults
from sriov_rt.host.table import printable

#: The narrowest column of prose, in characters.
_NARROW = 16

#: The longest word that is never broken: a UUID.
_WORD = 36

_DOCUMENTS = frozenset({"json", "yaml"})


@dataclasses.dataclass(frozen=True)
class Found:
    """What a command found.

    :param columns: all that there are; of one thing, its fields.
    :param rows: a value for each column; of one thing, one row.
    :param document: the same as JSON, with keys that stay as they are.
    :param shown: the columns that are printed unless others are chosen.
    :param before: lines above a table.
    :param after: lines below it.
    :param code: the command's exit code.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    document: Any
    shown: Collection[str] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    code: int = 0


def one(
    fields: Iterable[tuple[str, object]],
    document: Any,
    *,
    shown: Collection[str] = (),
    code: int = 0,
) -> Found:
    """Return one thing of which the fields are known."""
    columns, row = zip(*fields, strict=True)
    return Found(columns, [row], document, shown=shown, code=code)


class Base(command.Command):
    """A command of sriov-rt.

    :cvar of_root: whether it reads or changes what only root may.
    :cvar epilog: what its help ends with.
    """

    of_root = False
    epilog = ""

    def get_epilog(self) -> str:
        """Return what help ends with."""
        # Not cliff's: it reads the files of every installed distribution.
        return self.epilog

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        self.configure(parser)
        return parser

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and return its exit code."""
        if self.of_root:
            faults.warn_unless_root(getattr(parsed_args, "root", "/"))
        return super().run(parsed_args)


class Text(Base):
    """A command that prints lines, a document or nothing."""


class _Display(Base, display.DisplayCommandBase[Any]):
    _found: Found

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        self._formatter_group.add_argument(
            "--json",
            dest="formatter",
            action="store_const",
            const="json",
            help="short for --format json",
        )
        return parser

    @abc.abstractmethod
    def find(self, args: argparse.Namespace) -> Found:
        """Do what the command is for."""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """Return columns and rows."""
        self._found = self.find(parsed_args)
        return self._found.columns, [
            [_safe(value) for value in row] for row in self._found.rows
        ]

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Any,
    ) -> int:
        """Print what was found."""
        if parsed_args.formatter in _DOCUMENTS:
            self._print_document(parsed_args)
            return 0
        if not parsed_args.columns:
            parsed_args.columns = list(self._found.shown)
        if parsed_args.formatter != "table":
            self._print_rows(parsed_args, column_names, data)
            return 0
        for line in self._found.before:
            print(line, file=self.app.stdout)
        if data:
            self._print_table(parsed_args, column_names, data)
        for line in self._found.after:
            print(line, file=self.app.stdout)
        return 0

    def _print_table(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        cells = [[_cell(value) for value in row] for row in rows]
        chosen, selector = self._generate_columns_and_selector(args, columns)
        if selector:
            cells = [
                [
                    cell
                    for cell, is_in in zip(row, selector, strict=True)
                    if is_in
                ]
                for row in cells
            ]
        args.columns = []
        if not (args.max_width or args.fit_width):
            columns, cells = self._fitted(chosen, cells)
        else:
            columns = chosen
        self._print_rows(args, columns, cells)

    @abc.abstractmethod
    def _print_rows(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        """Print rows by cliff's formatter."""

    @abc.abstractmethod
    def _fitted(
        self, columns: Sequence[str], cells: list[list[str]]
    ) -> tuple[Sequence[str], list[list[str]]]:
        """Return columns and cells, wrapped to the terminal's width."""

    def _print_document(self, args: argparse.Namespace) -> None:
        names = {_key(each) for each in args.columns}
        plain = json.loads(json.dumps(self._found.document))
        if names:
            plain = self._chosen(plain, names)
        if args.formatter == "yaml":
            # Here, for it takes long to import.
            import yaml

            yaml.safe_dump(
                plain,
                self.app.stdout,
                allow_unicode=True,
                default_flow_style=False,
                sort_keys=False,
            )
            return
        indent = None if args.noindent else 2
        text = json.dumps(plain, indent=indent, ensure_ascii=False)
        print(text, file=self.app.stdout)

    def _chosen(self, plain: Any, names: set[str]) -> Any:
        """Return a document with the keys that are chosen by ``-c``.

        :raises ValueError: if it has none of them.
        """
        if isinstance(plain, list):
            return [self._chosen(each, names) for each in plain]
        found = {
            key: value for key, value in plain.items() if _key(key) in names
        }
        if not found:
            raise ValueError(
                f"no key {', '.join(sorted(names))}; there are "
                f"{', '.join(plain)}"
            )
        return found

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and return its exit code."""
        return super().run(parsed_args) or self._found.code


class Lister(_Display, lister.Lister):
    """A command that prints a row for each thing."""

    def _print_rows(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        lister.Lister.produce_output(self, args, columns, rows)

    def _fitted(
        self, columns: Sequence[str], cells: list[list[str]]
    ) -> tuple[Sequence[str], list[list[str]]]:
        return columns, fitted(columns, cells)


class ShowOne(_Display, show.ShowOne):
    """A command that prints the fields of one thing."""

    def find(self, args: argparse.Namespace) -> Found:
        """Return one thing; its row is turned into fields."""
        raise NotImplementedError

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """Return fields and values."""
        columns, rows = super().take_action(parsed_args)
        (row,) = rows
        return columns, row

    def _print_table(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Any],
    ) -> None:
        super()._print_table(args, columns, [rows])

    def _print_rows(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Any],
    ) -> None:
        if args.formatter == "table":
            (rows,) = rows
        show.ShowOne.produce_output(self, args, columns, rows)

    def _fitted(
        self, columns: Sequence[str], cells: list[list[str]]
    ) -> tuple[Sequence[str], list[list[str]]]:
        (row,) = cells
        pairs = [list(each) for each in zip(columns, row, strict=True)]
        names, values = zip(*fitted(("Field", "Value"), pairs), strict=True)
        return names, [list(values)]


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    shown: Collection[str] = (),
) -> None:
    """Print a table among other lines; nothing without rows.

    :param shown: the columns that are printed; all by default.
    """
    places = [
        place
        for place, column in enumerate(columns)
        if not shown or column in shown
    ]
    cells = [[row[place] for place in places] for row in rows]
    if cells:
        names = [columns[place] for place in places]
        options = argparse.Namespace(
            max_width=0, fit_width=False, print_empty=False
        )
        table.TableFormatter().emit_list(
            names, fitted(names, cells), sys.stdout, options
        )


def _key(name: str) -> str:
    """Return a column or key as ``-c`` compares it.

    cliff has a name for this of its own from 4.16 on.
    """
    return name.lower().replace(" ", "_")


def fitted(
    columns: Sequence[str], cells: Sequence[Sequence[str]], width: int = 0
) -> list[list[str]]:
    """Return cells wrapped so that their table is as wide as a terminal.

    A column without spaces (UUIDs, addresses, names) stays whole, and so
    does a word, such as the path in a remedy, while there is room for it.

    :param width: in characters; the terminal's, or 80 without one.
    """
    width = width or shutil.get_terminal_size((80, 24)).columns
    texts = list(zip(columns, *cells, strict=True))
    widths = [
        max(len(line) for text in column for line in text.split("\n"))
        for column in texts
    ]
    # A border before each cell, one behind the last, and a space beside each.
    excess = sum(widths) + 3 * len(columns) + 1 - width
    prose = [
        place
        for place, column in enumerate(texts)
        if any(" " in text or len(text) > _WORD for text in column[1:])
    ]
    words = [
        max(len(word) for text in column for word in [*text.split(), ""])
        for column in texts
    ]
    for least in (words, [_NARROW] * len(columns)):
        while excess > 0:
            place = max(
                (each for each in prose if widths[each] > least[each]),
                key=lambda each: widths[each],
                default=None,
            )
            if place is None:
                break
            widths[place] -= 1
            excess -= 1
    return [
        [
            _wrapped(cell, widths[place]) if place in prose else cell
            for place, cell in enumerate(row)
        ]
        for row in cells
    ]


def _wrapped(text: str, width: int) -> str:
    return "\n".join(
        textwrap.fill(line, width, break_on_hyphens=False)
        for line in text.split("\n")
    )


def _safe(value: object) -> object:
    """Return a value without what steers a terminal."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.split("\n")))
    return value


def _cell(value: object) -> str:
    """Return a value as a table has it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
