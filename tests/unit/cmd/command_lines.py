# SPDX-License-Identifier: Apache-2.0

"""Command lines, parsed as the program does."""

import argparse
from collections.abc import Sequence

from sriov_rt.cmd import shell


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line.

    :param words: without the program's name.
    """
    program = shell.Shell()
    cls, name, rest = program.command_manager.find_command(list(words))
    return cls(program, None).get_parser(name).parse_args(rest)
