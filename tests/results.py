# SPDX-License-Identifier: Apache-2.0

"""Results of tests, read from stestr's output."""

import collections
import re
from collections.abc import Sequence

_TOTALS = re.compile(
    r"^ - (Passed|Skipped|Failed|Unexpected Success): +([0-9]+)$", re.MULTILINE
)
_SKIP = re.compile(r"^\{[0-9]+\} (\S+) .*SKIPPED(?:: *(.*))?$", re.MULTILINE)
_FAILED = re.compile(r"^\{[0-9]+\} (.*) FAILED$", re.MULTILINE)
#: A test's traceback in stestr's output, up to the next test's heading.
_TRACEBACK = re.compile(
    r"^(\S.*)\n-+\n+Captured traceback:\n~+\n((?:.*\n)*?)(?=\S.*\n-{8}|={4})",
    re.MULTILINE,
)
#: The first line of the error that a traceback ends with.
_ERROR = re.compile(r"^ *([A-Za-z_][\w.]*: .*)$", re.MULTILINE)
_ERROR_LENGTH = 160
#: The most lines of a traceback, and the most tracebacks, that are shown.
_TRACEBACK_LINES, _MOST_TRACEBACKS = 30, 10


def totals(output: str) -> tuple[int, int, int]:
    """Return how many tests passed, failed and were skipped.

    :param output: output of stestr, perhaps after other output.
    """
    # Some runners run stestr several times.
    found: collections.Counter[str] = collections.Counter()
    for kind, number in _TOTALS.findall(output):
        found[kind] += int(number)
    failed = found["Failed"] + found["Unexpected Success"]
    return found["Passed"], failed, found["Skipped"]


def skips(output: str) -> tuple[str, ...]:
    """Return the names of tests that were skipped, each with its reason.

    :param output: of stestr.
    """
    return tuple(f"{a}: {b or 'no reason'}" for a, b in _SKIP.findall(output))


def failures(output: str) -> Sequence[str]:
    """Return why a runner failed: names, tracebacks, end of the output.

    :param output: its whole output.
    """
    tracebacks = _TRACEBACK.findall(output)
    errors = {name: _error(text) for name, text in tracebacks}
    lines = [
        f"FAILED {name} {errors.get(name.partition(' [')[0], '')}".rstrip()
        for name in _FAILED.findall(output)
    ]
    for name, text in tracebacks[:_MOST_TRACEBACKS]:
        lines += ["", name, *text.splitlines()[:_TRACEBACK_LINES]]
    return [*lines, "", *output.splitlines()[-60:]]


def _error(traceback: str) -> str:
    """Return the first line of the error that a traceback ends with."""
    found = _ERROR.search(traceback.rpartition('  File "')[2])
    return found[1][:_ERROR_LENGTH] if found else ""
