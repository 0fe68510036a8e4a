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

"""The ``sriov-rt`` command."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from sriov_rt import exceptions

#: Subcommand to its help line. Its module, ``sriov_rt.cmd.<name>``, is
#: imported only when it runs, so that ``--help`` stays quick.
COMMANDS = {
    "explain": "which hosts satisfy a flavor, and why the others do not",
    "guest": "strip, pin and schedule a libvirt domain",
    "host": "what this host is, and what keeps it from being realtime",
    "onload": "Onload's profiles, what is injected, and is it in effect",
    "vf": "the VFs of this host: list, plan, set, reset, provision, map",
    "vif": "ports of this host: plug, unplug, show, recover",
}

#: Exit code for input or an environment that the command cannot work with.
EXIT_ERROR = 2


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser, filled in for the subcommand that is asked for.

    :param arguments: the command line without the program's name.
    """
    parser = argparse.ArgumentParser(
        prog="sriov-rt",
        description="Realtime and low-latency networking for OpenStack.",
    )
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True
    )
    asked = next((each for each in arguments if each in COMMANDS), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if name == asked:
            module = importlib.import_module(f"sriov_rt.cmd.{name}")
            module.configure(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    :param arguments: without the program's name; ``sys.argv`` by default.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    args = build_parser(arguments).parse_args(arguments)
    try:
        code: int = args.run(args)
    except exceptions.SriovRtError as error:
        print(f"sriov-rt: error: {error}", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader of a pipe has seen enough; that is no fault of ours.
        sys.stderr.close()
        return EXIT_ERROR
    return code


if __name__ == "__main__":
    sys.exit(main())
