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


"""A port on a command line, plugged and unplugged: without cliff.

A container waits for it while it starts: see :mod:`sriov_rt.cmd.hook`.
"""

import argparse
import dataclasses
import json
import logging
from typing import TYPE_CHECKING

from sriov_rt.cmd import arguments
from sriov_rt.cmd import faults
from sriov_rt.exceptions import SriovRtError
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import lxc
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Limits
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged

if TYPE_CHECKING:
    from sriov_rt.vif.plugger import Plugger


#: Which of them a port can have, the port's own checks say.
_number = arguments.whole(0, 999_999_999)


def configure_plug(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``vif plug``."""
    add_config(parser)
    add(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print the plan; change nothing"
    )


def configure_unplug(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``vif unplug``."""
    add_config(parser)
    add_json(parser)
    parser.add_argument("port", metavar="PORT", help="its UUID")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be removed; change nothing",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add ``--config-file``."""
    parser.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="with the section [vif]; may be repeated (default: "
        "/etc/sriov_rt/sriov-rt.conf, if it is there)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` of a command that prints no table."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def plug(args: argparse.Namespace) -> int:
    """Plug a port, or print the plan, and return the exit code."""
    port = requested(args)
    if args.dry_run:
        print_lines(args, list(plugger(args).plan(port).lines()))
    else:
        print(json.dumps(dataclasses.asdict(plugged(args, port)), indent=2))
    return 0


def plugged(args: argparse.Namespace, port: Plug) -> Plugged:
    """Return a port as it was plugged."""
    works = plugger(args)
    _recover_first(works)
    return works.plug(port)


def unplug(args: argparse.Namespace) -> int:
    """Unplug a port, or print which it is, and return the exit code."""
    port = validation.port(args.port)
    works = plugger(args)
    if args.dry_run:
        print_ports(args, [e for e in works.show() if e.port == port])
        return 0
    _recover_first(works)
    done = works.unplug(port)
    print_done(args, port, "unplugged", done)
    return 0


def print_lines(args: argparse.Namespace, lines: list[str]) -> None:
    """Print lines of text, or their list as JSON."""
    print(json.dumps(lines, indent=2) if args.json else "\n".join(lines))


def print_ports(args: argparse.Namespace, ports: list[Plugged]) -> None:
    """Print what a dry run would remove."""
    if args.json:
        print(json.dumps([dataclasses.asdict(p) for p in ports], indent=2))
        return
    for each in ports:
        place = f" in {each.namespace}" if each.namespace else ""
        print(f"{each.port} {each.state}: {each.kind} {each.interface}{place}")


def print_done(
    args: argparse.Namespace, port: str, what: str, done: bool
) -> None:
    """Print whether something was done to a port."""
    if args.json:
        print(json.dumps({"port": port, what: done}, indent=2))
    else:
        print(f"{port} {what if done else 'was not plugged'}")


def plugger(args: argparse.Namespace) -> "Plugger":
    """Return what plugs ports, as this host's configuration has it."""
    # Here, for the kernel's interfaces take long to import.
    from sriov_rt.vif import host

    faults.log_warnings(logging.getLogger("sriov_rt"))
    return host.configured(args.config_file)


def _recover_first(works: "Plugger") -> None:
    """Clear up what an earlier command left; that is no part of this one."""
    try:
        works.recover_pending()
    except SriovRtError as error:
        faults.say(f"not recovered: {error}")


def add(parser: argparse.ArgumentParser, *, namespace: bool = True) -> None:
    """Add the arguments that describe a port.

    :param namespace: False where it is known.
    """
    arg = parser.add_argument
    arg("--port", required=True, metavar="UUID")
    arg("--owner", required=True, help="who has it: a guest's name or UUID")
    arg("--kind", required=True, choices=[str(each) for each in Kind])
    arg(
        "--mode", help="of the kind (default: bridge of macvlan, l2 of ipvlan)"
    )
    arg("--network", help="the physical network; picks a parent of its pool")
    arg("--parent", metavar="IF", help="the parent, or the whole VF's own")
    if namespace:
        arg(
            "--namespace",
            metavar="NAME|pid:N",
            help="a name of 'ip netns' or a process (default: this one)",
        )
    arg("--name", metavar="IF", help="of the interface (default: srt…)")
    arg("--mac", help="(default: the kernel's choice; none for ipvlan)")
    arg("--vlan", type=_number, default=0, help="0 is untagged, to 4094")
    arg("--mtu", type=_number, help="bytes (default: the parent's)")
    arg(
        "--address",
        action="append",
        default=[],
        metavar="IP/PREFIX",
        help="may be repeated",
    )
    arg(
        "--route",
        action="append",
        default=[],
        metavar="DEST=GW",
        help="such as default=192.0.2.254; may be repeated",
    )
    arg("--out-kbps", type=_number, help="limit of what leaves it, kbit/s")
    arg("--in-kbps", type=_number, help="limit of what reaches it, kbit/s")
    arg("--numa-node", type=_number, help="where its parent is to be")
    arg(
        "--onload",
        metavar="UUID",
        help="its owner runs over Onload: UUID of its network in Neutron, of "
        "which a NIC takes one such owner",
    )


def requested(args: argparse.Namespace) -> Plug:
    """Return the requested port.

    :raises ParseError: for a value that no port can have.
    """
    routes = []
    for each in args.route:
        destination, equals, gateway = each.partition("=")
        if not equals:
            raise ParseError("route", each, "DEST=GW expected")
        routes.append((destination, gateway))
    return validation.checked(
        Plug(
            port=args.port,
            owner=args.owner,
            kind=Kind(args.kind),
            mode=args.mode,
            physical_network=args.network,
            parent=args.parent,
            namespace=getattr(args, "namespace", lxc.NAMESPACE),
            name=args.name,
            mac=args.mac,
            vlan=args.vlan,
            mtu=args.mtu,
            addresses=tuple(args.address),
            routes=tuple(routes),
            limits=Limits(args.out_kbps, args.in_kbps),
            numa_node=args.numa_node,
            network=args.onload,
            onload=args.onload is not None,
        )
    )
