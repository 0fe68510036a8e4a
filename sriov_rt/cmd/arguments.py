# SPDX-License-Identifier: Apache-2.0

"""Parsers of arguments whose errors argparse prints."""

import argparse
import contextlib
import difflib
from collections.abc import Callable
from collections.abc import Iterable
from typing import TypeVar

from sriov_rt import exceptions
from sriov_rt.parse import numbers
from sriov_rt.reason import SENTENCES
from sriov_rt.reason import Reason

T = TypeVar("T")


def reader(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser for argparse's ``type``.

    :param parse: raises a SriovRtError for text that it can't parse.
    """

    def read(text: str) -> T:
        try:
            return parse(text)
        except exceptions.SriovRtError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers.

    :param least: the least allowed number.
    :param most: the greatest allowed number.
    """
    return reader(lambda text: numbers.parse_int(text, "number", least, most))


def seconds(most: int) -> Callable[[str], float]:
    """Return a parser of seconds, whole or not.

    :param most: the most that are allowed; the least is 0.
    """

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            found = float(text)
            if 0 <= found <= most:
                return found
        raise argparse.ArgumentTypeError(f"0 to {most} seconds expected")

    return read


def add_host_filters(
    parser: argparse.ArgumentParser, refused: str, are: str
) -> None:
    """Add the filters of a list of hosts; see :func:`has_reason`.

    :param refused: name of the option for hosts with any Reason.
    :param are: predicate of these hosts, such as ``are not ready``.
    """
    parser.add_argument(
        "--host",
        action="append",
        metavar="HOST",
        help="list this host, as Nova names it; may be repeated (default: "
        "all)",
    )
    parser.add_argument(
        refused,
        action="store_true",
        help=f"list the hosts that {are}, whatever the reason",
    )
    parser.add_argument(
        "--reason",
        action="append",
        type=_reason_code,
        metavar="CODE",
        help="list the hosts with this problem, such as ksm_running; may be "
        "repeated",
    )


def has_reason(reasons: Iterable[Reason], args: argparse.Namespace) -> bool:
    """Return whether a host with these Reasons passes ``--reason``."""
    codes = {each.code for each in reasons}
    return args.reason is None or not codes.isdisjoint(args.reason)


def _reason_code(text: str) -> str:
    """Check and return the code of a Reason.

    :raises argparse.ArgumentTypeError: if there is no such code.
    """
    if text not in SENTENCES:
        near = difflib.get_close_matches(text, SENTENCES)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise argparse.ArgumentTypeError(f"no reason {text!r}{hint}")
    return text
