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

"""``sriov-rt vf``: the VFs of this host, and the verbs on them."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable
from typing import Any

from sriov_rt.host.root import Root
from sriov_rt.nic import mapping
from sriov_rt.nic import settings_text
from sriov_rt.nic import table
from sriov_rt.nic.settings import BASELINE
from sriov_rt.nic.vfs import Vfs

_VF = "a PCI address, PF/index such as enp1s0/3, or the VF's interface"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    found = _action(actions, "list", "print the VFs", _list)
    found.add_argument("pf", nargs="?", metavar="PF", help="of this PF only")
    show = _action(actions, "show", "print all of one VF", _show)
    show.add_argument("vf", metavar="VF", help=_VF)
    planned = _action(
        actions, "plan", "print what 'set' would do; changes nothing", _set
    )
    _add_settings(planned)
    planned.set_defaults(dry_run=True)
    change = _action(actions, "set", "set attributes of a VF", _set)
    _add_settings(change)
    _add_dry_run(change)
    reset = _action(
        actions, "reset", "make VFs clean: as they are before each use", _reset
    )
    reset.add_argument("vf", nargs="+", metavar="VF", help=_VF)
    reset.add_argument(
        "--flr", action="store_true", help="reset the PCI function first"
    )
    reset.add_argument(
        "--driver", help="bind this one (default: the one that it has)"
    )
    _add_dry_run(reset)
    mapped = _action(
        actions, "map", "print whose each VF is: instance and port", _map
    )
    mapped.add_argument("pf", nargs="?", metavar="PF", help="of this PF only")
    _add_provision(actions)
    _add_xml(actions)


def _add_provision(actions: Any) -> None:
    provision = _action(
        actions,
        "provision",
        "make the VFs that [nic] vfs says; those in use stay",
        _provision,
    )
    provision.add_argument(
        "--config-file",
        action="append",
        metavar="FILE",
        help="may be repeated (default: /etc/sriov_rt/sriov-rt.conf)",
    )
    _add_dry_run(provision)


def _add_xml(actions: Any) -> None:
    xml = _action(
        actions, "xml", "print libvirt's XML that attaches a VF", _xml
    )
    xml.add_argument(
        "device", metavar="VF|PF", help=f"{_VF}; the PF for a network"
    )
    xml.add_argument(
        "--as",
        dest="way",
        choices=("interface", "hostdev", "network"),
        default="interface",
        help="which of libvirt's three ways (default: %(default)s)",
    )
    xml.add_argument("--mac", help="(default: the VF's own, if it has one)")
    xml.add_argument("--vlan", help="0 to 4094 (default: the VF's own)")
    xml.add_argument(
        "--pool",
        type=int,
        metavar="NUMBER",
        help="how many VFs of the PF the network has (default: all)",
    )


def _action(
    actions: Any, name: str, text: str, run: Any
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text
    )
    parser.add_argument(
        "--root",
        default="/",
        metavar="DIR",
        help="where sysfs and procfs are (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vf", metavar="VF", help=_VF)
    parser.add_argument(
        "settings",
        nargs="+",
        metavar="ATTRIBUTE=VALUE",
        help="such as mac=52:54:00:12:34:56 vlan=7 max_tx_rate=1000",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for the PF's link if a rate needs it",
    )


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be done, and do nothing",
    )


def _list(args: argparse.Namespace) -> int:
    states = Vfs.of_host(args.root).list(args.pf)
    plain = [table.to_plain(each) for each in states]
    _print(args, plain, table.listed(states))
    return 0


def _show(args: argparse.Namespace) -> int:
    vfs = Vfs.of_host(args.root)
    state = vfs.observe(vfs.locate(args.vf))
    _print(args, table.to_plain(state), table.shown(state))
    return 0


def _set(args: argparse.Namespace) -> int:
    vfs = Vfs.of_host(args.root)
    wanted = settings_text.parse(args.settings)
    made = vfs.plan(vfs.locate(args.vf), wanted, wait_s=args.wait)
    _print(args, table.plan_to_plain(made), made.lines())
    if not args.dry_run:
        vfs.apply(made)
    return 0


def _reset(args: argparse.Namespace) -> int:
    vfs = Vfs.of_host(args.root)
    asked = [vfs.locate(each) for each in args.vf]
    if args.flr and not args.dry_run:
        for each in asked:
            _tell(f"resetting the function of {each}")
            vfs.kernel.flr(each)
    words = [] if args.driver is None else [f"driver={args.driver}"]
    driver = settings_text.parse(words).driver
    wanted = dataclasses.replace(BASELINE, driver=driver)
    plans = vfs.plan_all(dict.fromkeys(asked, wanted), required=False)
    plain = [table.plan_to_plain(each) for each in plans]
    _print(args, plain, (line for each in plans for line in each.lines()))
    if not args.dry_run:
        vfs.apply_all(plans)
    return 0


def _map(args: argparse.Namespace) -> int:
    # Here, for what reads links takes long to import.
    from sriov_rt.vif import tenants

    states = Vfs.of_host(args.root).list(args.pf)
    ports = tenants.here(states, _tell) if args.root == "/" else {}
    owners = mapping.Owners(Root(args.root))
    found = tuple(mapping.of(states, owners, ports))
    plain = [dataclasses.asdict(each) for each in found]
    _print(args, plain, mapping.lines(found))
    return 0


def _provision(args: argparse.Namespace) -> int:
    # Here, for oslo.config takes long to import.
    from sriov_rt.nic import provisioning

    amounts, timeout = provisioning.configured(args.config_file)
    owners = mapping.Owners(Root(args.root))
    work = provisioning.Provisioning(Vfs.of_host(args.root), owners.of, _tell)
    plans = work.plan(amounts, 0.0 if args.dry_run else timeout)
    plain = [each.to_plain() for each in plans]
    lines = [line for each in plans for line in each.lines()]
    _print(args, plain, lines or ("[nic] vfs names no PF: nothing to do",))
    if not args.dry_run:
        work.apply(plans)
    return 0


def _xml(args: argparse.Namespace) -> int:
    # Here, for lxml takes long to import.
    from sriov_rt.nic import xml

    words = [
        f"{name}={value}"
        for name in ("mac", "vlan")
        if (value := getattr(args, name)) is not None
    ]
    asked = settings_text.parse(words)
    vfs = Vfs.of_host(args.root)
    if args.way == xml.Way.NETWORK:
        pf = vfs.pf(args.device)
        text = xml.network(pf, args.pool, asked.mac, asked.vlan)
    else:
        vf = vfs.locate(args.device)
        has = vfs.observe(vf).settings
        mac = has.mac if asked.mac is None else asked.mac
        vlan = has.vlan if asked.vlan is None else asked.vlan
        render = xml.interface if args.way == "interface" else xml.hostdev
        text = render(vf, mac, vlan)
    _print(args, {"xml": text}, (text,))
    return 0


def _print(
    args: argparse.Namespace, plain: object, lines: Iterable[str]
) -> None:
    if args.json:
        print(json.dumps(plain, indent=2))
    else:
        print("\n".join(lines))


def _tell(text: str) -> None:
    """Tell what takes long, where it does not mix with the result."""
    print(f"sriov-rt: {text}", file=sys.stderr)
