# SPDX-License-Identifier: Apache-2.0

"""Walk-throughs of the documentation, executed line by line in a bed."""

import dataclasses
import itertools
import os
import pathlib
import re
import sys
import textwrap
import unittest
from collections.abc import Callable

from tests.testbed import paths

#: Directory of pages whose commands run in a bed, not on the documented host.
PAGES = paths.CHECKOUT / "doc/source/walkthroughs"

#: Blocks of commands and what they print; all others are only read.
_CONSOLE = re.compile(
    r"^ *\.\. code-block:: console\n\n((?: +[^\n]*\n|\n)+)", re.MULTILINE
)
_PROMPT = re.compile(r"[$#] (?=[a-z])")

#: Exit codes of the project's commands that are no errors: 1 if a check has
#: found problems, 3 for a refusal.
_ANSWERS = (0, 1, 3)

#: Stands for one or more lines, or for a part of one.
ELLIPSIS = "..."


@dataclasses.dataclass(frozen=True)
class Step:
    """A command of a page.

    :param command: command for a shell, including its here-document.
    :param output: its output on the page; empty for none.
    """

    command: str
    output: str


def install(place: pathlib.Path) -> dict[str, str]:
    """Write this checkout's program, and return variables for a shell.

    :param place: a directory, which is put first in the path.
    """
    program = place / "sriov-rt"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m sriov_rt.cmd.main "$@"\n'
    )
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{place}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "COLUMNS": "80",
    }


def steps(page: pathlib.Path) -> list[Step]:
    """Return the commands of a page, in their order.

    :param page: a file in reStructuredText.
    """
    found = []
    for block in _CONSOLE.findall(page.read_text()):
        lines = textwrap.dedent(block).strip("\n").split("\n")
        while lines:
            count = _length(lines)
            command = "\n".join((lines[0][2:], *lines[1:count]))
            del lines[:count]
            output = list(
                itertools.takewhile(lambda x: not _PROMPT.match(x), lines)
            )
            del lines[: len(output)]
            found.append(Step(command, "\n".join(output).strip("\n")))
    return found


def _length(lines: list[str]) -> int:
    """Return how many lines the first command has."""
    if here := re.search(r"<< ?'(\w+)'", lines[0]):
        return lines.index(here[1]) + 1
    return next(
        n for n, line in enumerate(lines, 1) if not line.endswith("\\")
    )


def _even(text: str) -> str:
    """Return a text without the padding of its columns."""
    text = re.sub(r"^( *)\+[-+]+\+$", r"\1+-+", text, flags=re.MULTILINE)
    lines = (
        line[: len(line) - len(line.lstrip())] + " ".join(line.split())
        for line in text.strip().split("\n")
    )
    return "\n".join(lines)


def matches(shown: str, printed: str) -> bool:
    """Return whether a page shows what a command has printed.

    :param shown: output on the page, where ``...`` stands for anything.
    :param printed: output of the command; widths of columns are ignored.
    """
    pieces = [re.escape(each) for each in _even(shown).split(ELLIPSIS)]
    return (
        re.fullmatch(".*?".join(pieces), _even(printed), re.DOTALL) is not None
    )


def run(
    test: unittest.TestCase,
    page: pathlib.Path,
    shell: Callable[[str], tuple[int, str]],
) -> None:
    """Run the commands of a page, and compare what they print.

    :param test: test that fails if an output differs from the page.
    :param page: a page in :data:`PAGES`.
    :param shell: runs a script, and returns its exit status and its output,
        of both kinds.
    """
    found = steps(page)
    test.assertTrue(found, page.name)
    for step in found:
        status, printed = shell(step.command)
        ours = step.command.startswith("sriov-rt ")
        test.assertIn(
            status, _ANSWERS if ours else (0,), f"{step.command}\n{printed}"
        )
        if step.output and not matches(step.output, printed):
            test.fail(
                f"{step.command}\nprinted\n{printed}\nand not\n{step.output}"
            )
