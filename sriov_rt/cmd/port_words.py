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


"""A port on a command line."""

import argparse

from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import asked
from sriov_rt.vif import lxc
from sriov_rt.vif.words import Kind
from sriov_rt.vif.words import Limits
from sriov_rt.vif.words import Plug


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
    arg("--vlan", type=_whole, default=0, help="0 is untagged, to 4094")
    arg("--mtu", type=_whole, help="bytes (default: the parent's)")
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
    arg("--out-kbps", type=_whole, help="limit of what leaves it, kbit/s")
    arg("--in-kbps", type=_whole, help="limit of what reaches it, kbit/s")
    arg("--numa-node", type=_whole, help="where its parent is to be")
    arg(
        "--onload",
        metavar="UUID",
        help="its owner runs over Onload: UUID of its network in Neutron, of "
        "which a NIC takes one such owner",
    )


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def want(args: argparse.Namespace) -> Plug:
    """Return the port that is asked for.

    :raises ParseError: for a value that no port can have.
    """
    routes = []
    for each in args.route:
        destination, equals, gateway = each.partition("=")
        if not equals:
            raise ParseError("route", each, "DEST=GW expected")
        routes.append((destination, gateway))
    return asked.checked(
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
