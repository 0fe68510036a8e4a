# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify disk``: throughput of a file system."""

import argparse
import pathlib
from collections.abc import Iterable

from sriov_rt import codec
from sriov_rt.cmd import arguments
from sriov_rt.cmd import faults
from sriov_rt.cmd import progress
from sriov_rt.cmd import verify
from sriov_rt.cmd.command import Result
from sriov_rt.host.root import Root
from sriov_rt.verify import disk
from sriov_rt.verify import errors
from sriov_rt.verify import fio
from sriov_rt.verify import results


class Disk(verify.Measure):
    """Measure a file system with fio, here and in a container."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to measure, and how."""
        parser.add_argument(
            "directory",
            type=pathlib.Path,
            metavar="DIR",
            help="empty or missing; data and results go there, nowhere else",
        )
        parser.add_argument(
            "--suite",
            action="append",
            choices=disk.SUITES,
            help="'matrix' of clients and patterns, 'sweep' of block sizes; "
            "may be repeated (default: both)",
        )
        parser.add_argument(
            "--place",
            action="append",
            choices=("here", disk.CONTAINER),
            help="'here', on this host or in this guest, or in a 'container' "
            "on it; may be repeated (default: both)",
        )
        parser.add_argument(
            "--clients",
            type=arguments.whole(1, 9999),
            action="append",
            metavar="N",
            help="clients of the matrix, four workers each; may be repeated "
            "(default: "
            "1, 8 and 64)",
        )
        parser.add_argument(
            "--pattern",
            action="append",
            choices=fio.PATTERNS,
            help="a pattern of the matrix; may be repeated (default: all)",
        )
        parser.add_argument(
            "--size",
            type=_mebibytes,
            metavar="SIZE",
            help="the size of each worker's file, such as 256m or 32g "
            "(default: 1g, or less for data of a quarter of the free room)",
        )
        verify.add_duration(parser, "each run (default: 30s)", 30)
        verify.add_published(parser)
        super().configure(parser)

    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return what would run, and for how long."""
        chosen = _disk_cells(args)
        target = disk.Target(args.directory)
        target.check(disk.data_size(chosen), resume=args.resume)
        return disk.planned(chosen, args.directory)

    def measure(self, args: argparse.Namespace) -> Result:
        """Measure, and return the results."""
        root, target = Root("/"), disk.Target(args.directory)
        chosen = _disk_cells(args)
        if missing := list(disk.missing(chosen)):
            raise errors.ToolsMissing(missing)
        with (
            results.exclusive(),
            progress.Cells(is_quiet=self.caller.is_quiet) as cells,
        ):
            target.prepare(disk.data_size(chosen), resume=args.resume)
            say = faults.progress(is_quiet=self.caller.is_quiet)
            say(disk.extent(chosen, args.directory))
            found, interrupted = disk.run(
                target,
                chosen,
                root,
                resume=args.resume,
                progress=lambda cell, left: cells.begin(
                    cell.file, cell.duration_s, left
                ),
            )
        return Result(
            columns=disk.TABLE.names,
            shown=disk.TABLE.shown(published=args.published),
            rows=list(disk.TABLE.rows(found)),
            document=codec.to_plain(tuple(found)),
            after=[
                *(disk.TABLE.remarks(found) if args.published else ()),
                *verify.notes(found),
            ],
            code=verify.cells_code(found, len(chosen), interrupted),
        )


def _disk_cells(args: argparse.Namespace) -> list[disk.Cell]:
    own = disk.place_of(args.directory, Root("/"))
    places = args.place or ["here", disk.CONTAINER]

    def cells(size_mib: int) -> list[disk.Cell]:
        return list(
            disk.cells(
                args.suite or disk.SUITES,
                [own if each == "here" else each for each in places],
                args.clients or disk.CLIENTS,
                args.pattern or fio.PATTERNS,
                size_mib,
                args.duration,
            )
        )

    if args.size is not None:
        return cells(args.size)
    return disk.fitted(args.directory, cells, resume=args.resume)


def _mebibytes(text: str) -> int:
    scale = {"m": 1, "g": 1024, "t": 1024 * 1024}.get(text[-1:].lower())
    if scale is None:
        raise argparse.ArgumentTypeError("a size such as 256m or 32g expected")
    return scale * arguments.whole(1, 2**30 // scale)(text[:-1])
