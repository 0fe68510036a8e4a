# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify report`` and ``compare``: results of measurements."""

import argparse
import pathlib
import textwrap
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TypeVar

from sriov_rt.cmd import command
from sriov_rt.cmd import display
from sriov_rt.cmd import paths
from sriov_rt.cmd import shell
from sriov_rt.cmd import verify
from sriov_rt.cmd import verify_regression
from sriov_rt.cmd.command import Result
from sriov_rt.parse.text import printable
from sriov_rt.verify import breach
from sriov_rt.verify import collection
from sriov_rt.verify import compare
from sriov_rt.verify import disk
from sriov_rt.verify import errors
from sriov_rt.verify import matrix
from sriov_rt.verify import network
from sriov_rt.verify import pictures
from sriov_rt.verify import report
from sriov_rt.verify import summary

M = TypeVar("M", bound=matrix.Measured)


class Report(command.Lister):
    """Show measurements as text, or as a page with pictures."""

    epilog = "Exit codes: 0 it was written, 2 it could not be."

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what was measured, and what to write."""
        parser.add_argument(
            "directories",
            type=pathlib.Path,
            nargs="+",
            metavar="DIR",
            help="directories with results; several are compared, as before "
            "and after",
        )
        parser.add_argument(
            "-o",
            "--output",
            type=pathlib.Path,
            metavar="FILE",
            help="write a self-contained HTML page; needs sriov-rt[report]",
        )
        parser.add_argument(
            "--pictures",
            type=pathlib.Path,
            metavar="DIR",
            help="write each picture there as well, as SVG and as PNG",
        )
        verify.add_published(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the measurements, once the page is written."""
        if args.output is not None:
            paths.check_writable(args.output)
        found = collection.read(args.directories)
        is_written = args.output is not None or args.pictures is not None
        if is_written:
            _write_page(found, args)
        return _measurements(
            found, () if is_written else _as_text(found, args.published)
        )


class Compare(command.Lister):
    """Print how one measurement differs from another.

    Without BEFORE it is compared with the figures of this host's last
    certificate from before it, which may be withdrawn, and there is one
    verdict: no worse, worse, or not enough samples.
    """

    epilog = (
        "Exit codes: 0 nothing is worse, 1 something is by more than its "
        "uncertainty, 2 they could not be compared, 3 there are not enough "
        "samples to say that it is no worse than at the certificate."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the measurements."""
        parser.add_argument(
            "before",
            type=pathlib.Path,
            nargs="?",
            metavar="BEFORE",
            help="a directory with results (default: the figures of the last "
            "certificate)",
        )
        parser.add_argument(
            "after",
            type=pathlib.Path,
            metavar="AFTER",
            help="a directory with results",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the differences.

        :raises NothingInCommon: if both have no figure in common.
        """
        if args.before is None:
            return verify_regression.judged(args.after)
        before, after = collection.read((args.before, args.after))
        found = list(compare.differences(before, after))
        if not found:
            raise errors.NothingInCommon(before.label, after.label)
        notes = list(map(printable, compare.lacking(before, after)))
        rows = [tuple(compare.row(each)) for each in found]
        emulated = before.emulated or after.emulated
        worse = any(each.worse for each in found)
        return Result(
            columns=compare.COLUMNS,
            rows=rows,
            document=[
                {
                    **dict(
                        zip(map(str.lower, compare.COLUMNS), row, strict=True)
                    ),
                    "emulated": emulated,
                }
                for row in rows
            ],
            after=[
                f"note: {each}"
                for each in (*notes, *[verify.EMULATED] * emulated)
            ],
            code=verify.EXIT_NO_CERTIFICATE if worse else 0,
        )


def _measurements(
    found: Sequence[collection.Collection], text: Iterable[str]
) -> Result:
    """Return measurements as rows, with their text."""
    columns = ("Measurement", "What", "Figure")
    rows = [
        (each.label, what, figure)
        for each in found
        for what, figure in _figures(each)
    ]
    return Result(
        columns=columns,
        rows=rows,
        document=[
            dict(zip(map(str.lower, columns), row, strict=True))
            for row in rows
        ],
        text=list(map(printable, text)),
    )


def _figures(found: collection.Collection) -> Iterator[tuple[str, str]]:
    """Yield name and value of each figure of a measurement."""
    yield from report.facts(found)
    for number, ticket in enumerate(found.breaches, 1):
        for name, value in breach.rows(ticket):
            yield f"breach {number}, {name}", value
    for tool, result in found.latency.items():
        for cpu in result.measurement.cpus:
            yield f"{tool}, CPU {cpu.cpu}, maximum", f"{cpu.max_us} µs"
    yield from _of_cells(network.TABLE, found.network, "Figure", "")
    yield from _of_cells(disk.TABLE, found.disk, "MB/s", " MB/s")


def _of_cells(
    table: matrix.Table[M], found: Sequence[M], column: str, unit: str
) -> Iterator[tuple[str, str]]:
    """Yield name and figure of each cell, or why there is none."""
    for each in found:
        figure = f"failed: {each.problem}"
        for row in table.rows([each]):
            figure = f"{row[table.names.index(column)]}{unit}"
        yield each.cell.file.removesuffix(".json"), figure


def _write_page(
    found: Sequence[collection.Collection], args: argparse.Namespace
) -> None:
    """Write the page and the pictures."""
    drawn = list(pictures.draw(found, published=args.published))
    if args.pictures is not None:
        paths.make_directory(args.pictures)
        for picture in drawn:
            for kind, data in picture.images.items():
                path = args.pictures / f"{picture.name}.{kind}"
                paths.write(path, data)
    if args.output is not None:
        page = report.page(found, drawn, _made(), published=args.published)
        paths.write(args.output, page.encode())


def _made() -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return f"Made {when} by sriov-rt {shell.version()}."


def _as_text(
    found: Sequence[collection.Collection], published: bool
) -> Iterator[str]:
    """Yield measurements as lines of text."""
    for each in found:
        yield f"== {each.label}"
        if (verdict := summary.of(each)) is not None:
            yield from textwrap.wrap(verdict.sentence, 79)
            yield from (f"  {reason}" for reason in verdict.reasons)
        for name, value in report.facts(each):
            yield f"{name + ':':16} {value}"
        for ticket in each.breaches:
            yield "-- latency above the bound"
            for name, value in breach.rows(ticket):
                yield f"{name + ':':16} {value}"
        yield from collection.latency_text(each)
        yield from _cells(network.TABLE, each.network, published)
        yield from _cells(disk.TABLE, each.disk, published)
    if any(each.emulated for each in found):
        yield f"note: {verify.EMULATED}"


def _cells(
    table: matrix.Table[M], found: Sequence[M], published: bool
) -> Iterator[str]:
    yield from display.table_lines(
        table.names, table.rows(found), shown=table.shown(published=published)
    )
    yield from verify.failed(found)
    yield from table.remarks(found) if published else ()
