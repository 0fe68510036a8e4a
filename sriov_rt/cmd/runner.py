# SPDX-License-Identifier: Apache-2.0

"""Runs a command without cliff, while a container or a domain waits for it.

Options that only cliff has (``--help``, ``-f``, ``-c``) are left to
:mod:`sriov_rt.cmd.display`, whose import takes longer than a hook's program
may take to start.
"""

import argparse
import importlib
import logging
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NoReturn

from sriov_rt.cmd import command
from sriov_rt.cmd import faults

#: Commands of ``sriov-rt`` that a guest or container waits for, with classes.
COMMANDS: Mapping[str, str] = {
    "vif plug": "vif:Plug",
    "vif unplug": "vif:Unplug",
    "onload lxc-hook": "onload_lxc:LxcHook",
    "guest render": "guest:Render",
    "kubevirt domain-hook": "kubevirt:DomainHook",
    "kubevirt node-hook": "kubevirt:NodeHook",
    "kubevirt on-define-domain": "kubevirt:OnDefineDomain",
}

_HELP = frozenset({"-h", "--help"})


def load(place: str) -> type[command.Command]:
    """Return the class of a command.

    :param place: module and class, such as ``vif:Plug``.
    """
    module, _, name = place.partition(":")
    found: type[command.Command] = getattr(
        importlib.import_module(f"sriov_rt.cmd.{module}"), name
    )
    return found


def program(
    cls: type[command.Command],
    name: str,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a command as a program of its own, and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    faults.print_anything()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run(cls, name, words)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        return faults.report(error)
    return code


def say_errors_alone(parser: argparse.ArgumentParser) -> None:
    """Print errors of a command line without the usage before them."""

    def error(message: str) -> NoReturn:
        faults.say(f"error: {message.rstrip('.')}; see '{parser.prog} --help'")
        raise SystemExit(faults.EXIT_ERROR)

    parser.error = error  # type: ignore[method-assign]


def run(
    cls: type[command.Command], name: str, arguments: Sequence[str]
) -> int:
    """Run a command, print its result and return its exit code.

    :param name: program and command, such as ``sriov-rt vif plug``.
    :param arguments: the arguments after that name.
    :raises SystemExit: for arguments that the command does not take.
    """
    parser = argparse.ArgumentParser(prog=name, add_help=False)
    say_errors_alone(parser)
    subject = cls()
    subject.configure(parser)
    parser.add_argument("--json", action="store_true")
    is_plain = _HELP.isdisjoint(arguments)
    if is_plain:
        args, others = parser.parse_known_args(arguments)
        is_plain = not others
    if not is_plain:
        from sriov_rt.cmd import display

        return display.run(cls, name, arguments)
    faults.log_warnings(logging.getLogger("sriov_rt"))
    if cls.of_root:
        faults.warn_unless_root(getattr(args, "root", "/"))
    result = subject.run(args)
    if args.json:
        command.print_document(result, sys.stdout)
    elif result.text is not None:
        command.print_text(result, sys.stdout)
    else:
        from sriov_rt.cmd import display

        display.print_result(cls, result)
    return finish(result)


def finish(result: command.Result) -> int:
    """Apply a printed plan, and return the exit code."""
    if result.apply is not None:
        sys.stdout.flush()
        result.apply()
    return result.code


def main(arguments: Sequence[str]) -> int | None:
    """Run a command of ``sriov-rt`` that a guest or container waits for.

    :param arguments: without the program's name.
    :returns: the exit code; None for any other command.
    """
    name = " ".join(arguments[:2])
    if name not in COMMANDS:
        return None
    cls = load(COMMANDS[name])
    return run(cls, f"sriov-rt {name}", arguments[2:])
