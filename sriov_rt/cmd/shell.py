# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The operator's commands under cliff."""

import argparse
import importlib.metadata
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from cliff import app
from cliff import commandmanager
from cliff import help as cliff_help

from sriov_rt.cmd import faults

#: Command to its class, which is imported only when it runs.
COMMANDS: Mapping[str, str] = {
    "agent list": "agents:List",
    "agent show": "agents:Show",
    "explain": "explain:Explain",
    "guest check": "guest:Check",
    "guest render": "guest:Render",
    "host check": "host:Check",
    "host features": "host:Features",
    "host show": "host:Show",
    "onload lxc-config": "onload:LxcConfig",
    "onload lxc-hook": "onload:LxcHook",
    "onload pod-patch": "onload:PodPatch",
    "onload profile list": "onload:ProfileList",
    "onload profile show": "onload:ProfileShow",
    "onload status": "onload:Status",
    "verify certificate": "verify:ShowCertificate",
    "verify compare": "verify:Compare",
    "verify disk": "verify:Disk",
    "verify guest": "verify:Guest",
    "verify latency": "verify:Latency",
    "verify network": "verify:Network",
    "verify network serve": "verify:NetworkServe",
    "verify report": "verify:Report",
    "verify watch": "verify:Watch",
    "vf list": "vf:List",
    "vf map": "vf:Map",
    "vf plan": "vf:Plan",
    "vf provision": "vf:Provision",
    "vf reset": "vf:Reset",
    "vf set": "vf:Set",
    "vf show": "vf:Show",
    "vf xml": "vf:Xml",
    "vif forget": "vif:Forget",
    "vif lxc-hook": "vif:LxcHook",
    "vif plug": "vif:Plug",
    "vif recover": "vif:Recover",
    "vif show": "vif:Show",
    "vif unplug": "vif:Unplug",
}


class Commands(commandmanager.CommandManager):
    """The commands, found without looking through what is installed."""

    def load_commands(self, namespace: str) -> None:
        """Take the commands of :data:`COMMANDS`."""
        for name, place in COMMANDS.items():
            self.commands[name] = importlib.metadata.EntryPoint(
                name, f"sriov_rt.cmd.{place}", namespace
            )


class Help(cliff_help.HelpCommand):
    """Print help on a command, or the commands that there are."""

    app: "Shell"

    def get_epilog(self) -> str:
        """Return nothing: cliff's names every installed distribution."""
        return ""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print it."""
        if parsed_args.cmd:
            return super().take_action(parsed_args) or 0
        self.app.print_commands()
        return 0


class Shell(app.App):
    """The program ``sriov-rt``."""

    NAME = "sriov-rt"
    LOG = logging.getLogger("sriov-rt")

    def __init__(self) -> None:
        super().__init__(
            description="Realtime and low-latency networking for OpenStack.",
            version=_version(),
            command_manager=Commands("sriov_rt"),
            deferred_help=True,
        )
        self.command_manager.add_command("help", Help)
        self.error: BaseException | None = None

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """Return the parser of what stands before a command."""
        return super().build_option_parser(
            description, version, {"prog": self.NAME}
        )

    def configure_logging(self) -> None:
        """Log warnings of ours to standard error; with ``-v``, of all."""
        options = self.options
        self.LOG.propagate = False
        if options.debug:
            faults.log_warnings(self.LOG)
        else:
            # What goes wrong is printed by report.
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
            handler = logging.FileHandler(options.log_file)
            handler.setFormatter(
                logging.Formatter(self.LOG_FILE_MESSAGE_FORMAT)
            )
            every.addHandler(handler)

    def interact(self) -> None:
        """Refuse to run without a command."""
        self.parser.error("a command is needed; 'sriov-rt help' lists them")

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
            summary = (entry.load().__doc__ or "").split("\n")[0].rstrip(".")
            yield f"{name:{width}}  {summary}"

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command and return its exit code."""
        self.error = None
        code = super().run_subcommand(argv)
        return code if self.error is None else faults.report(self.error)

    def clean_up(
        self, cmd: Any, result: int, err: BaseException | None
    ) -> None:
        """Keep what a command raised."""
        self.error = err


def _version() -> str:
    try:
        return importlib.metadata.version("sriov-rt")
    except importlib.metadata.PackageNotFoundError:
        # Run from a source tree that is not installed.
        return "unknown"


def main(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code.

    :raises BrokenPipeError: if nobody reads what it prints.
    :raises KeyboardInterrupt: after Ctrl-C.
    """
    shell = Shell()
    code = shell.run(list(arguments))
    if isinstance(shell.error, (BrokenPipeError, KeyboardInterrupt)):
        # cliff has exit codes of its own for these.
        raise shell.error
    return code
