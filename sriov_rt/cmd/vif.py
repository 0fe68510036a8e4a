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
import logging
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

from sriov_rt.cmd import port_words
from sriov_rt.exceptions import SriovRtError
from sriov_rt.vif import lxc
from sriov_rt.vif import names
from sriov_rt.vif.words import Plugged

if TYPE_CHECKING:
    from sriov_rt.vif.plugger import Plugger

#: Exit code of a recovery that left something.
EXIT_LEFT = 1

#: Columns of the table of ports.
_COLUMNS = (
    "port", "owner", "kind", "mode", "interface", "namespace", "parent",
    "vf", "mac", "vlan", "mtu", "network",
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    plug = _action(
        actions, "plug", "make a port, or print it if it is there", _plug
    )
    port_words.add(plug)
    plug.add_argument(
        "--dry-run", action="store_true", help="print the plan; change nothing"
    )
    unplug = _action(
        actions, "unplug", "remove a port; it is no error if it is gone",
        _unplug,
    )  # fmt: skip
    unplug.add_argument("port", metavar="PORT", help="its UUID")
    unplug.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be removed; change nothing",
    )
    _action(actions, "show", "print the ports of this host", _show)
    _action(
        actions,
        "recover",
        "finish or undo what a crash interrupted; exit 1 if anything is left",
        _recover,
    )
    hook = _action(
        actions,
        "lxc-hook",
        "print the lines of a container's LXC configuration that plug a port"
        " when it starts and unplug it when it stops",
        _hook,
    )
    port_words.add(hook, namespace=False)


def _action(
    actions: Any, name: str, text: str, run: Any
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text
    )
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="with the section [vif]; may be repeated (default: "
        "/etc/sriov_rt/sriov-rt.conf, if it is there)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _plug(args: argparse.Namespace) -> int:
    want = port_words.want(args)
    plugger = _plugger(args)
    if args.dry_run:
        plan = plugger.plan(want)
        lines = list(plan.lines())
        print(json.dumps(lines, indent=2) if args.json else "\n".join(lines))
        return 0
    _recover_first(plugger)
    plugged = plugger.plug(want)
    if args.json:
        print(json.dumps(dataclasses.asdict(plugged), indent=2))
    else:
        print("\n".join(_table([plugged])))
    return 0


def _unplug(args: argparse.Namespace) -> int:
    port = names.port(args.port)
    plugger = _plugger(args)
    if args.dry_run:
        found = [each for each in plugger.show() if each.port == port]
        _print_ports(args, found)
        return 0
    _recover_first(plugger)
    done = plugger.unplug(port)
    if args.json:
        print(json.dumps({"port": port, "unplugged": done}, indent=2))
    else:
        print(f"{port} {'unplugged' if done else 'was not plugged'}")
    return 0


def _show(args: argparse.Namespace) -> int:
    _print_ports(args, _plugger(args).show())
    return 0


def _recover(args: argparse.Namespace) -> int:
    done = _plugger(args).recover()
    if args.json:
        print(json.dumps(dataclasses.asdict(done), indent=2))
    else:
        for field in dataclasses.fields(done):
            for each in getattr(done, field.name):
                told = each if isinstance(each, str) else ": ".join(each)
                print(f"{field.name.replace('_', ' ')}: {told}")
    return EXIT_LEFT if done.failed else 0


def _hook(args: argparse.Namespace) -> int:
    lines = lxc.lines(port_words.want(args), args.config_file or ())
    print(json.dumps(lines, indent=2) if args.json else "\n".join(lines))
    return 0


def _plugger(args: argparse.Namespace) -> "Plugger":
    # Here, for the kernel's interfaces take long to import.
    from sriov_rt.vif import host

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.getLogger("sriov_rt").handlers = [handler]
    return host.configured(args.config_file)


def _recover_first(plugger: "Plugger") -> None:
    """Clear up what an earlier command left; that is no part of this one."""
    try:
        plugger.recover_pending()
    except SriovRtError as error:
        print(f"sriov-rt: not recovered: {error}", file=sys.stderr)


def _print_ports(args: argparse.Namespace, ports: Iterable[Plugged]) -> None:
    if args.json:
        print(json.dumps([dataclasses.asdict(p) for p in ports], indent=2))
    else:
        print("\n".join(_table(ports)))


def _table(ports: Iterable[Plugged]) -> list[str]:
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for each in ports:
        values = [getattr(each, column) for column in _COLUMNS]
        rows.append(tuple("-" if v in (None, "") else str(v) for v in values))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
