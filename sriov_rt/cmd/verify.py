# SPDX-License-Identifier: Apache-2.0

"""Options and remarks that the commands of ``sriov-rt verify`` share."""

import abc
import argparse
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Result
from sriov_rt.parse import duration
from sriov_rt.verify import matrix

EXIT_NO_CERTIFICATE = 1

#: Results of measurements, unless another directory is named.
DIRECTORY = pathlib.Path("/var/lib/sriov-rt-verify/results")

#: Parser of a duration, such as 15m, in seconds.
duration_s = arguments.reader(duration.parse_duration)

#: The remark on figures of a virtual machine.
EMULATED = (
    "this host is itself a virtual machine: these figures say nothing of any "
    "hardware"
)


class Measure(command.Lister):
    """A command that measures, or prints what would run."""

    nothing = "nothing was measured"
    epilog = (
        "Exit codes: 0 all was measured, 1 something was not, 2 nothing could "
        "be."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of every measurement."""
        parser.add_argument(
            "--resume",
            action="store_true",
            help="reuse earlier results of the same measurement",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print what would run, and for how long; measure nothing",
        )

    @abc.abstractmethod
    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return lines that say what would run, and for how long."""

    @abc.abstractmethod
    def measure(self, args: argparse.Namespace) -> Result:
        """Measure, and return the results."""

    def run(self, args: argparse.Namespace) -> Result:
        """Measure, or return the plan."""
        if args.dry_run:
            return command.lines(self.plan(args), column="Step")
        try:
            return self.measure(args)
        except KeyboardInterrupt:
            # Between two runs: each result is written at once.
            faults.say("what was measured is kept; go on with --resume")
            raise


def add_duration(
    parser: argparse.ArgumentParser, whole: str, default_s: int | None = None
) -> None:
    """Add how long each run, probe or tool takes.

    :param whole: what takes that long, and the default in words.
    :param default_s: default in seconds; None for that of the profile.
    """
    parser.add_argument(
        "--duration",
        type=duration_s,
        default=default_s,
        metavar="TIME",
        help=f"the duration of {whole}",
    )


def add_output(
    parser: argparse.ArgumentParser, default: pathlib.Path = DIRECTORY
) -> None:
    """Add the directory of the results."""
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=default,
        metavar="DIR",
        help="where the results are kept (default: %(default)s)",
    )


def add_published(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--published",
        action="store_true",
        help="compare with published figures, and list the differences in "
        "method",
    )


def failed(found: Sequence[matrix.Measured]) -> Iterator[str]:
    for each in found:
        if each.problem:
            yield f"{each.cell.file}: {each.problem}"


def notes(found: Sequence[matrix.Measured]) -> Iterator[str]:
    yield from failed(found)
    if any(each.emulated for each in found):
        yield f"note: {EMULATED}"


def say_interrupted() -> int:
    """Say how to go on after Ctrl-C, and return the exit code."""
    faults.say("interrupted; go on with --resume")
    return faults.EXIT_INTERRUPTED


def cells_code(
    found: Sequence[matrix.Measured],
    count: int,
    interrupted: bool,
) -> int:
    if interrupted:
        return say_interrupted()
    whole = len(found) == count and not any(x.problem for x in found)
    return 0 if whole else EXIT_NO_CERTIFICATE
