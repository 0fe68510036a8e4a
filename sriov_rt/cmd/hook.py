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

"""Commands that run as hooks: without cliff, so that they start quickly.

A container or a domain waits for them while it starts. They take the same
options as their classes of :mod:`sriov_rt.cmd.shell`, which print tables and
help.
"""

import argparse
import importlib
import types
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.cmd import faults

#: Command to the module and function that run it; ``configure_<function>``
#: beside it adds its arguments.
COMMANDS: Mapping[tuple[str, ...], tuple[str, str]] = types.MappingProxyType(
    {
        ("vif", "plug"): ("sriov_rt.cmd.port", "plug"),
        ("vif", "unplug"): ("sriov_rt.cmd.port", "unplug"),
        ("onload", "lxc-hook"): ("sriov_rt.cmd.onload_hook", "lxc_hook"),
        ("guest", "render"): ("sriov_rt.cmd.domain", "render"),
    }
)

#: Those that print a table without ``--json``.
TABLES = frozenset({("vif", "plug")})

_HELP = frozenset({"-h", "--help"})


Run = Callable[[argparse.Namespace], int]


def load(name: tuple[str, ...]) -> tuple[argparse.ArgumentParser, Run]:
    """Return the parser of a hook, and what runs it.

    :param name: a key of :data:`COMMANDS`.
    """
    place, function = COMMANDS[name]
    module = importlib.import_module(place)
    parser = argparse.ArgumentParser(
        prog=f"sriov-rt {' '.join(name)}", add_help=False
    )
    getattr(module, f"configure_{function}")(parser)
    if name in TABLES:
        parser.add_argument("--json", action="store_true")
    return parser, getattr(module, function)


def main(arguments: Sequence[str]) -> int | None:
    """Run a hook and return its exit code.

    :param arguments: without the program's name.
    :returns: None for what is no hook, or asks for what only cliff has.
    """
    name = tuple(arguments[:2])
    if name not in COMMANDS or _HELP.intersection(arguments):
        return None
    parser, run = load(name)
    args, unknown = parser.parse_known_args(arguments[2:])
    if unknown or (name in TABLES and not (args.json or args.dry_run)):
        return None
    if name[0] == "vif":
        faults.warn_unless_root()
    return run(args)
