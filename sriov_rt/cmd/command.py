# SPDX-License-Identifier: Apache-2.0

"""Commands: their arguments and their results.

Nothing here imports cliff, so that a hook's program starts fast while a
container or a domain waits for it. :mod:`sriov_rt.cmd.display` shows a result
with cliff's formatters, :mod:`sriov_rt.cmd.runner` runs a command without
them.
"""

import abc
import argparse
import dataclasses
import json
import re
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import TextIO

#: Control characters that terminals obey and JSON need not escape.
_STEERS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a command.

    :param columns: all columns of a list, or the fields of one thing.
    :param rows: rows with a value for each column; one row for one thing.
    :param document: what ``--json`` prints, with keys that never change.
    :param text: lines that are printed unless a format is chosen; None for a
        table.
    :param shown: the columns that are printed by default.
    :param apply: carries out the printed plan; called once it is printed.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    document: Any
    text: Sequence[str] | None = None
    shown: Collection[str] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    code: int = 0
    apply: Callable[[], object] | None = None


def one(
    fields: Iterable[tuple[str, object]],
    document: Any,
    **others: Any,
) -> Result:
    """Return the result of a command that shows one thing.

    :param fields: name and value of each field.
    :param others: further parameters of :class:`Result`.
    """
    columns, row = zip(*fields, strict=True)
    return Result(columns, [row], document, **others)


def lines(
    texts: Iterable[str],
    document: Any = None,
    *,
    column: str = "Line",
    apply: Callable[[], object] | None = None,
) -> Result:
    """Return the result of a command that prints lines.

    :param document: what ``--json`` prints; by default the list of the lines.
    :param column: the header of a table of the lines.
    :param apply: see :class:`Result`.
    """
    found = list(texts)
    return Result(
        columns=(column,),
        rows=[(each,) for each in found],
        document=found if document is None else document,
        text=found,
        apply=apply,
    )


@dataclasses.dataclass(frozen=True)
class Caller:
    """The program that runs a command.

    :param is_quiet: whether it has option ``-q``: no progress is printed.
    :param clients: openstackclient's clients; None in other programs.
    """

    is_quiet: bool = False
    clients: Any = None


class Command(abc.ABC):
    """A command; the first line of its docstring is its summary.

    :cvar of_root: whether it needs root to read or change something.
    :cvar epilog: the end of its help.
    :cvar nothing: message on standard error instead of an empty table.
    """

    of_root = False
    epilog = ""
    nothing = "nothing was found"

    def __init__(self, caller: Caller | None = None) -> None:
        self.caller = caller or Caller()

    def configure(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027
        """Add the command's own arguments."""

    @abc.abstractmethod
    def run(self, args: argparse.Namespace) -> Result:
        """Run the command."""


class Lister(Command):
    """A command whose result is a list of rows."""


class ShowOne(Command):
    """A command whose result is the fields of one thing."""


def add_dry_run(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--dry-run``.

    :param what: what the command prints then.
    """
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help=f"print {what}; change nothing",
    )


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add ``--root``."""
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="read the host whose / is DIR (default: this one)",
    )


def add_config(parser: argparse.ArgumentParser, section: str) -> None:
    """Add ``--config-file``.

    :param section: the section that the command reads.
    """
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help=f"with the section [{section}]; may be repeated (default: "
        "/etc/sriov_rt/sriov-rt.conf, if it is there)",
    )


def print_document(
    result: Result,
    stdout: TextIO,
    *,
    columns: Collection[str] = (),
    indent: int | None = 2,
) -> None:
    """Print the document of a result.

    :param columns: the keys to print, as ``-c`` names them; all by default.
    :raises ValueError: if the document has none of these keys.
    """
    document = result.document
    if columns:
        names = {key(each) for each in columns}
        document = _chosen(json.loads(json.dumps(document)), names)
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    print(_STEERS.sub(lambda x: f"\\u{ord(x[0]):04x}", text), file=stdout)


def print_text(result: Result, stdout: TextIO) -> None:
    """Print the lines of a result."""
    for line in result.text or ():
        print(line, file=stdout)


def key(name: str) -> str:
    """Return a column or key in the form that ``-c`` compares.

    cliff has its own function for this from 4.16 on.
    """
    return name.lower().strip().replace(" ", "_")


def _chosen(plain: Any, names: Collection[str]) -> Any:
    """Return a document with the chosen keys.

    :raises ValueError: if it has none of them.
    """
    if isinstance(plain, list):
        return [_chosen(each, names) for each in plain]
    found = (
        {name: value for name, value in plain.items() if key(name) in names}
        if isinstance(plain, dict)
        else {}
    )
    if not found:
        there = ", ".join(plain) if isinstance(plain, dict) else "none"
        raise ValueError(
            f"no key {', '.join(sorted(names))}; there are {there}"
        )
    return found
