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

"""``sriov-rt vif``: ports of this host, plugged and unplugged."""

import argparse
import dataclasses
import json

from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import port as ports
from sriov_rt.cmd.command import Found
from sriov_rt.vif import lxc
from sriov_rt.vif import validation
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State

#: Exit code of a recovery that left something.
EXIT_LEFT = 1

#: Exit code of what was not done, as of any error.
EXIT_REFUSED = 2

#: What a recovery did, where it is called otherwise in JSON.
_WORDS = {"set_aside": "moved to set-aside", "standing": "existing"}


class Plug(command.ShowOne):
    """Make a port, or print it if it is there."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        ports.configure_plug(parser)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Plug the port, or print the plan."""
        if parsed_args.dry_run:
            faults.warn_unless_root()
            parsed_args.json = parsed_args.formatter == "json"
            return ports.plug(parsed_args)
        return super().run(parsed_args)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the port as it was plugged."""
        document = dataclasses.asdict(
            ports.plugged(args, ports.requested(args))
        )
        return command.one(document.items(), document)


class Unplug(command.Text):
    """Remove a port; it is no error if it is gone."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        ports.configure_unplug(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Unplug it."""
        return ports.unplug(parsed_args)


class Show(command.Lister):
    """Print the ports of this host, and which are quarantined."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        ports.add_config(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the ports."""
        found = ports.plugger(args).show()
        fields = [each.name for each in dataclasses.fields(Plugged)]
        return Found(
            columns=[_header(each) for each in fields],
            shown=("Port", "Interface", "Parent", "State"),
            rows=[[getattr(e, name) for name in fields] for e in found],
            document=[dataclasses.asdict(each) for each in found],
            after=[
                f"{each.port}: {each.reason}" for each in found if each.reason
            ],
        )


def _header(name: str) -> str:
    if name in ("mac", "mtu", "vf", "vlan"):
        return name.upper()
    return name.capitalize()


class Forget(command.Text):
    """Free what a quarantined port keeps.

    For who knows that its interface is gone.
    """

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        ports.add_config(parser)
        ports.add_json(parser)
        parser.add_argument("port", metavar="PORT", help="its UUID")
        parser.add_argument(
            "--force",
            action="store_true",
            help="forget it; without, nothing is changed and the exit code "
            "is 2",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print what would be forgotten; change nothing",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Forget it."""
        port = validation.port(parsed_args.port)
        plugger = ports.plugger(parsed_args)
        if parsed_args.dry_run:
            found = [
                each
                for each in plugger.show()
                if each.port == port and each.state == State.QUARANTINED
            ]
            ports.print_ports(parsed_args, found)
            return 0
        if not parsed_args.force:
            faults.say(
                "if an interface of the port is left, the next port on its VF "
                "or parent shares a network with it; add --force if it is "
                "sure to be gone"
            )
            return EXIT_REFUSED
        done = plugger.forget(port)
        ports.print_done(parsed_args, port, "forgotten", done)
        return 0


class Recover(command.Text):
    """Finish or undo what a crash interrupted.

    The exit code is 1 if anything is left.
    """

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        ports.add_config(parser)
        ports.add_json(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Recover, and print what was done."""
        done = ports.plugger(parsed_args).recover()
        if parsed_args.json:
            print(json.dumps(dataclasses.asdict(done), indent=2))
        else:
            for name in (each.name for each in dataclasses.fields(done)):
                word = _WORDS.get(name, name).replace("_", " ")
                for each in getattr(done, name):
                    what = each if isinstance(each, str) else ": ".join(each)
                    print(f"{word}: {what}")
        return EXIT_LEFT if done.failed else 0


class LxcHook(command.Text):
    """Print the lines of a container's LXC configuration for a port.

    They plug it when the container starts and unplug it when it stops.
    """

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        ports.add_config(parser)
        ports.add_json(parser)
        ports.add(parser, namespace=False)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the lines."""
        lines = lxc.lines(
            ports.requested(parsed_args), parsed_args.config_file or ()
        )
        ports.print_lines(parsed_args, lines)
        return 0
