# SPDX-License-Identifier: Apache-2.0

"""The operator's commands under cliff."""

import argparse
import difflib
import importlib.metadata
import itertools
import logging
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from cliff import app
from cliff import command as cliff_command
from cliff import commandmanager
from cliff import complete
from cliff import help as cliff_help

from sriov_rt import exceptions
from sriov_rt.cmd import display
from sriov_rt.cmd import faults
from sriov_rt.cmd import paths
from sriov_rt.cmd import runner
from sriov_rt.cmd import zsh

_ZSH = "zsh"

#: How similar a suggestion has to be to a command's name, from 0 to 1.
_CLOSE = 0.8

#: The most suggestions.
_NEAR = 3

#: Classes by command; a class is imported only when its command runs.
COMMANDS: Mapping[str, str] = {
    **runner.COMMANDS,
    "agent list": "agents:List",
    "agent show": "agents:Show",
    "device clean": "device:Clean",
    "explain": "explain:Explain",
    "guest check": "guest:Check",
    "guest repin": "guest:Repin",
    "host apply": "host_apply:Apply",
    "host check": "host:Check",
    "host features": "host:Features",
    "host hold": "host_maintenance:HoldHost",
    "host release": "host_maintenance:ReleaseHost",
    "host show": "host:Show",
    "onload lxc-config": "onload_lxc:LxcConfig",
    "onload pod-patch": "onload_pod:PodPatch",
    "onload pod-profiles": "onload_pod:PodProfiles",
    "onload profile list": "onload:ProfileList",
    "onload profile show": "onload:ProfileShow",
    "onload status": "onload:Status",
    "pod explain": "pod:Explain",
    "pod vfs": "pod:Vfs",
    "verify certificate": "verify_certificate:ShowCertificate",
    "verify compare": "verify_report:Compare",
    "verify disk": "verify_disk:Disk",
    "verify guest": "verify_latency:Guest",
    "verify latency": "verify_latency:Latency",
    "verify network": "verify_network:Network",
    "verify network serve": "verify_network:NetworkServe",
    "verify report": "verify_report:Report",
    "verify watch": "verify_certificate:Watch",
    "vf counters": "vf:Counters",
    "vf list": "vf:List",
    "vf map": "vf:Map",
    "vf plan": "vf:Plan",
    "vf provision": "vf:Provision",
    "vf reset": "vf:Reset",
    "vf set": "vf:Set",
    "vf show": "vf:Show",
    "vf xml": "vf:Xml",
    "vif forget": "vif:Forget",
    "vif list": "vif:List",
    "vif lxc-hook": "vif:LxcHook",
    "vif recover": "vif:Recover",
    "vif restore": "vif_restore:Restore",
    "vif show": "vif:Show",
}


class UnknownCommand(exceptions.SriovRtError):
    """A command line does not begin with a command.

    :param argv: without the program's name.
    :ivar near: similar names of commands.
    """

    def __init__(self, argv: Sequence[str], known: Iterable[str]) -> None:
        words = [*itertools.takewhile(_is_word, argv)] or argv[:1]
        self.near = _near(words, sorted(known))
        hint = "'sriov-rt help' lists all"
        if self.near:
            near = " or ".join(map(repr, self.near))
            hint = f"did you mean {near}? {hint}"
        super().__init__(
            f"{' '.join(words)!r} is not a sriov-rt command; {hint}"
        )


def _near(words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the commands whose words are similar to the given ones."""
    ratios = {
        name: difflib.SequenceMatcher(
            None, name, " ".join(words[: len(name.split())])
        ).ratio()
        for name in known
    }
    near = [name for name in known if ratios[name] >= _CLOSE]
    if near:
        near.sort(key=ratios.__getitem__, reverse=True)
        return near[:_NEAR]
    group = difflib.get_close_matches(
        words[0] if words else "", {name.split()[0] for name in known}, 1
    )
    return [name for name in known if name.split()[:1] == group]


class _Entry:
    """A command in the form of an entry point, as cliff expects it.

    :param value: module and class.
    """

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value

    def load(self) -> type[cliff_command.Command]:
        """Return the class that cliff runs."""
        return display.adapted(runner.load(self.value))


class Commands(commandmanager.CommandManager):
    """The commands, found without reading installed distributions."""

    def load_commands(self, namespace: str) -> None:
        """Load the commands of :data:`COMMANDS`."""
        for name, place in COMMANDS.items():
            self.commands[name] = _Entry(name, place)  # type: ignore


class Help(cliff_help.HelpCommand):
    """Print help on a command, or the commands that there are."""

    app: "Shell"

    def get_epilog(self) -> str:
        """Return nothing: cliff's names every installed distribution."""
        return ""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the help.

        :raises UnknownCommand: if no command begins like that.
        """
        words = list(parsed_args.cmd or ())
        if words:
            is_group = any(
                name.split()[: len(words)] == words for name in COMMANDS
            )
            try:
                self.app.command_manager.find_command(words)
            except ValueError:
                if not is_group:
                    raise UnknownCommand(words, COMMANDS) from None
            return super().take_action(parsed_args) or 0
        self.app.print_commands()
        return 0


class Complete(complete.CompleteCommand):
    """Print completion for a shell."""

    app: "Shell"

    def get_epilog(self) -> str:
        """Return nothing; see :class:`Help`."""
        return ""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return cliff's parser, which knows bash, extended by zsh."""
        parser = super().get_parser(prog_name)
        runner.say_errors_alone(parser)
        for action in parser._actions:  # noqa: SLF001
            if action.dest == "shell":
                action.choices = [*(action.choices or ()), _ZSH]
                action.help = "bash, zsh, or none for data (default: bash)"
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the completion."""
        if parsed_args.shell != _ZSH:
            return super().take_action(parsed_args)
        known = complete.CompleteDictionary()
        for name, _ in self.app.command_manager:
            known.add_command(name.split(), self.get_actions(name.split()))
        script = zsh.CompleteZsh(self.app.NAME, self.app.stdout)
        script.write(known.get_commands(), known.get_data())
        return 0


class Shell(app.App):
    """The program ``sriov-rt``."""

    NAME = "sriov-rt"
    LOG = logging.getLogger("sriov-rt")

    def __init__(self) -> None:
        super().__init__(
            description="Realtime and low-latency networking for OpenStack.",
            version=version(),
            command_manager=Commands("sriov_rt"),
            deferred_help=True,
        )
        self.command_manager.add_command("help", Help)
        self.command_manager.add_command("complete", Complete)
        self.error: BaseException | None = None

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Return the parser of the options before a command."""
        return super().build_option_parser(
            description, version, {"prog": self.NAME}
        )

    def configure_logging(self) -> None:
        """Log our own warnings to standard error; all of them with ``-v``."""
        options = self.options
        self.LOG.propagate = False
        if options.debug:
            faults.log_warnings(self.LOG)
        else:
            # Errors are printed by report().
            self.LOG.handlers = [logging.NullHandler()]
        ours, every = logging.getLogger("sriov_rt"), logging.getLogger()
        if options.debug or options.verbose_level > 1:
            level = logging.DEBUG if options.debug else logging.INFO
            every.setLevel(level)
            faults.log_warnings(every, level)
            ours.handlers = []
        else:
            quiet = logging.ERROR if options.verbose_level == 0 else None
            faults.log_warnings(ours, quiet or logging.WARNING)
        if options.log_file:
            handler = _log_file(options.log_file)
            handler.setFormatter(
                logging.Formatter(self.LOG_FILE_MESSAGE_FORMAT)
            )
            every.addHandler(handler)

    def interact(self) -> None:
        """Refuse to run without a command."""
        faults.say("error: a command is needed; 'sriov-rt help' lists them")
        raise SystemExit(faults.EXIT_ERROR)

    def print_help_if_requested(self) -> None:
        """Print the commands for ``--help``."""
        if self.options.deferred_help:
            self.print_commands()
            raise SystemExit(0)

    def print_commands(self) -> None:
        """Print the options and the commands."""
        self.parser.print_help(self.stdout)
        lines = "\n".join(f"  {line}" for line in self._summaries())
        self.stdout.write(f"\ncommands:\n{lines}\n")

    def _summaries(self) -> Iterator[str]:
        named = sorted(self.command_manager)
        width = max(len(name) for name, _ in named)
        for name, entry in named:
            yield f"{name:{width}}  {_summary(entry.load())}"

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command and return its exit code."""
        if argv[:1] == ["help"]:
            # cliff turns "vif plug --port U -h" into "help vif plug --port U".
            argv = [*itertools.takewhile(_is_word, argv)]
        self.error = None
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            # cliff's suggestions use only the first word and standard output.
            return faults.report(UnknownCommand(argv, COMMANDS))
        code = super().run_subcommand(argv)
        return code if self.error is None else faults.report(self.error)

    def clean_up(
        self, cmd: Any, result: int, err: BaseException | None
    ) -> None:
        """Keep the exception that a command raised."""
        self.error = err


def _log_file(name: str) -> logging.Handler:
    """Return a handler that logs into a file, or exit.

    cliff does not print an error that is raised before the command exists.
    """
    try:
        return paths.log_file(pathlib.Path(name))
    except paths.OutputUnusable as error:
        raise SystemExit(faults.report(error)) from None


def _summary(cls: type[cliff_command.Command]) -> str:
    """Return the summary of a command: its first line."""
    return (cls.__doc__ or "").split("\n")[0].rstrip(".")


def _is_word(argument: str) -> bool:
    return not argument.startswith("-")


def version() -> str:
    try:
        return importlib.metadata.version("sriov-rt")
    except importlib.metadata.PackageNotFoundError:
        # Run from a source tree that is not installed.
        return "unknown"


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code.

    :raises BrokenPipeError: if nobody reads its output.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    shell = Shell()
    code = shell.run(list(arguments))
    if isinstance(shell.error, (BrokenPipeError, KeyboardInterrupt)):
        # cliff has other exit codes for these errors.
        raise shell.error
    return code
