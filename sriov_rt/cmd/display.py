# SPDX-License-Identifier: Apache-2.0

"""Printing of results with cliff's formatters."""

import abc
import argparse
import difflib
import functools
import io
import shutil
import sys
import textwrap
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import ClassVar
from typing import TextIO

from cliff import command as cliff_command
from cliff import display
from cliff import lister
from cliff import show
from cliff.formatters import table

from sriov_rt import exceptions
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import runner
from sriov_rt.cmd.command import Result
from sriov_rt.parse.text import printable

#: The narrowest column of prose, in characters.
_NARROW = 16

#: The longest word that is never broken: a UUID.
_WORD = 36

_TABLE = "table"


#: The most columns that an error names.
_NAMED = 20


class ColumnUnknown(exceptions.SriovRtError):
    """The result has no such column.

    :param name: the column as it was given.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        named = known
        if len(known) > _NAMED:
            named = difflib.get_close_matches(name, known, 3, 0.5)
        hint = f"; there are {', '.join(named)}" if named else ""
        if len(known) > _NAMED:
            near = f"; did you mean {' or '.join(named)}?" if named else ";"
            hint = f"{near} without -c all {len(known)} are printed"
        super().__init__(f"no column {name!r}{hint}")


class _Display(display.DisplayCommandBase[Any]):
    """Adapter that makes a command one of cliff's.

    :cvar command_class: the command.
    """

    command_class: ClassVar[type[command.Command]]
    _result: Result

    def __init__(
        self,
        app: Any,
        app_args: argparse.Namespace | None,
        cmd_name: str | None = None,
    ) -> None:
        super().__init__(app, app_args, cmd_name)
        self.command = self.command_class(_caller(app))

    def get_epilog(self) -> str:
        """Return what help ends with."""
        # cliff's own would read the files of every installed distribution.
        return self.command.epilog

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        parser = super().get_parser(prog_name)
        runner.say_errors_alone(parser)
        parser.set_defaults(formatter=None)
        for action in self._formatter_group._group_actions:  # noqa: SLF001
            if action.dest == "formatter":
                action.help = (
                    "the output format (default: a table, or text where the "
                    "command prints text)"
                )
        self._formatter_group.add_argument(
            "--json",
            action="store_true",
            help="print the whole result as a JSON document, whose keys never "
            "change; -f json prints the rows of the table",
        )
        self.command.configure(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Any]]:
        """Return columns and rows."""
        self._result = self.command.run(parsed_args)
        return self._result.columns, _plain_rows(self._result)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command, print its result and return its exit code."""
        if self.command.of_root:
            faults.warn_unless_root(getattr(parsed_args, "root", "/"))
        # cliff needs a formatter before it knows what the command returns.
        chosen = parsed_args.formatter
        parsed_args.formatter = chosen or _TABLE
        parsed_args.is_chosen = chosen is not None or parsed_args.columns
        super().run(parsed_args)
        return runner.finish(self._result)

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Any,
    ) -> int:
        """Print the result."""
        result, stdout = self._result, self.app.stdout
        if parsed_args.json:
            command.print_document(
                result,
                stdout,
                columns=parsed_args.columns,
                indent=None if parsed_args.noindent else 2,
            )
            return 0
        if result.text is not None and not parsed_args.is_chosen:
            command.print_text(result, stdout)
            return 0
        _check_columns(parsed_args.columns, column_names)
        if not parsed_args.columns:
            parsed_args.columns = list(result.shown)
        if parsed_args.formatter != _TABLE:
            self._emit(parsed_args, column_names, data)
            return 0
        lines = _Lines(self.command_class, result, stdout)
        lines.before()
        if data:
            self._emit_table(parsed_args, column_names, data)
        lines.after()
        return 0

    def _emit_table(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        chosen, selector = self._generate_columns_and_selector(args, columns)
        cells = [
            [
                _cell(value)
                for place, value in enumerate(row)
                if selector is None or selector[place]
            ]
            for row in rows
        ]
        args.columns = []
        fits = args.max_width or args.fit_width
        if fits:
            self._emit(args, chosen, cells)
        else:
            self._emit(args, *self._fit(chosen, cells, _width()))

    @abc.abstractmethod
    def _fit(
        self,
        columns: Sequence[str],
        cells: Sequence[Sequence[str]],
        width: int,
    ) -> tuple[Sequence[str], list[list[str]]]:
        """Return columns and cells, wrapped to a width in characters."""

    @abc.abstractmethod
    def _emit(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        """Print rows by cliff's formatter."""


class _Lister(_Display, lister.Lister):
    """A command that prints a list of rows."""

    def _emit(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        lister.Lister.produce_output(self, args, columns, rows)

    def _fit(
        self,
        columns: Sequence[str],
        cells: Sequence[Sequence[str]],
        width: int,
    ) -> tuple[Sequence[str], list[list[str]]]:
        return columns, fitted(columns, cells, width)


class _ShowOne(_Display, show.ShowOne):
    """A command that prints the fields of one thing."""

    def _emit(
        self,
        args: argparse.Namespace,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
    ) -> None:
        (row,) = rows
        show.ShowOne.produce_output(self, args, columns, row)

    def _fit(
        self,
        columns: Sequence[str],
        cells: Sequence[Sequence[str]],
        width: int,
    ) -> tuple[Sequence[str], list[list[str]]]:
        (row,) = cells
        pairs = [list(each) for each in zip(columns, row, strict=True)]
        wrapped = fitted(("Field", "Value"), pairs, width)
        names, values = zip(*wrapped, strict=True)
        return names, [list(values)]


@functools.cache
def adapted(cls: type[command.Command]) -> type[cliff_command.Command]:
    """Return the class that cliff runs for a command."""
    base = _ShowOne if issubclass(cls, command.ShowOne) else _Lister
    return type(
        cls.__name__,
        (base,),
        {
            "__doc__": cls.__doc__,
            "__module__": cls.__module__,
            "command_class": cls,
        },
    )


class _Program:
    """Stand-in for cliff's App around a command that runs without it."""

    @property
    def stdout(self) -> TextIO:
        """The stream that results are printed to."""
        return sys.stdout


def run(
    cls: type[command.Command], name: str, arguments: Sequence[str]
) -> int:
    """Run a command with cliff's options, and return its exit code.

    :param name: name of the program and its command.
    :param arguments: the arguments after that name.
    :raises SystemExit: for ``--help``, or arguments that it does not take.
    """
    around: Any = _Program()
    subject = adapted(cls)(around, None)
    return subject.run(subject.get_parser(name).parse_args(arguments))


def print_result(cls: type[command.Command], result: Result) -> None:
    """Print the table of a result, with its default columns."""
    lines = _Lines(cls, result, sys.stdout)
    lines.before()
    rows = [list(map(_cell, row)) for row in _plain_rows(result)]
    if rows and issubclass(cls, command.ShowOne):
        pairs = [
            list(each) for each in zip(result.columns, rows[0], strict=True)
        ]
        lines.print(table_lines(("Field", "Value"), pairs))
    elif rows:
        lines.print(table_lines(result.columns, rows, shown=result.shown))
    lines.after()


class _Lines:
    """The lines around a table."""

    def __init__(
        self, cls: type[command.Command], result: Result, stdout: TextIO
    ) -> None:
        self._cls = cls
        self._result = result
        self._stdout = stdout

    def before(self) -> None:
        """Print the lines above the table, or say that it is empty."""
        result = self._result
        self.print(result.before)
        if not (result.rows or result.before or result.after):
            faults.say(self._cls.nothing)

    def after(self) -> None:
        """Print the lines below the table."""
        self.print(self._result.after)

    def print(self, lines: Iterable[str]) -> None:
        """Print lines."""
        for line in lines:
            print(printable(line), file=self._stdout)


def table_lines(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    shown: Collection[str] = (),
) -> list[str]:
    """Return a table as lines; empty without rows.

    :param shown: the columns that are printed; all by default.
    """
    places = [
        place
        for place, column in enumerate(columns)
        if not shown or column in shown
    ]
    cells = [[row[place] for place in places] for row in rows]
    if not cells:
        return []
    names = [columns[place] for place in places]
    options = argparse.Namespace(
        max_width=0, fit_width=False, print_empty=False
    )
    printed = io.StringIO()
    table.TableFormatter().emit_list(
        names, fitted(names, cells, _width()), printed, options
    )
    return printed.getvalue().splitlines()


def fitted(
    columns: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> list[list[str]]:
    """Return cells wrapped so that their table fits a width.

    A column without spaces (UUIDs, addresses, names) is not wrapped, and a
    word, such as the path in a remedy, is not broken while there is room.

    :param width: width of the table in characters.
    """
    texts = list(zip(columns, *cells, strict=True))
    widths = [
        max(len(line) for text in column for line in text.split("\n"))
        for column in texts
    ]
    # A border before each cell and after the last, and spaces around each.
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


def _width() -> int:
    """Return the width of the terminal in characters; 80 without one."""
    return shutil.get_terminal_size((80, 24)).columns


def _check_columns(chosen: Sequence[str], known: Sequence[str]) -> None:
    """Check the columns of ``-c``.

    :raises ColumnUnknown: if there is no such column.
    """
    keys = {command.key(each) for each in known}
    for each in chosen:
        if command.key(each) not in keys:
            raise ColumnUnknown(each, known)


def _caller(app: Any) -> command.Caller:
    """Return what a command has to know about cliff's App."""
    options = getattr(app, "options", None)
    return command.Caller(
        is_quiet=getattr(options, "verbose_level", 1) == 0,
        clients=getattr(app, "client_manager", None),
    )


def _plain_rows(result: Result) -> list[list[object]]:
    return [[_plain(value) for value in row] for row in result.rows]


def _plain(value: object) -> object:
    """Return a value for formatters, without terminal control characters."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.split("\n")))
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return value


def _cell(value: object) -> str:
    """Return a value as the text of a table's cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
