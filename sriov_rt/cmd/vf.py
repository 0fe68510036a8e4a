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
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Found
from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import MAX_VFS
from sriov_rt.host.vfs import VFIO
from sriov_rt.nic import mapping
from sriov_rt.nic import settings_text
from sriov_rt.nic import table
from sriov_rt.nic.model import VfState
from sriov_rt.nic.vfs import Vfs
from sriov_rt.parse.errors import ParseError

_VF = "a PCI address, PF/index such as enp1s0/3, or the VF's interface"


_HEADERS = ("VF", "Address", "Driver", "Interface", "MAC", "VLAN", "Owner")
_MAP = (
    *("VF", "Address", "Interface", "Driver", "Group"),
    *("Instance", "Port", "Alias"),
)


class _OfPf(command.Lister):
    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the PF."""
        parser.add_argument(
            "pf", nargs="?", metavar="PF", help="of this PF only"
        )


class List(_OfPf):
    """List the VFs of this host."""

    def find(self, args: argparse.Namespace) -> Found:
        """Return the VFs."""
        states = Vfs.of_host().list(args.pf)
        return Found(
            columns=_HEADERS,
            shown=_HEADERS[:-1],
            rows=[table.row(each) for each in states],
            document=[table.to_plain(each) for each in states],
        )


class Map(_OfPf):
    """Print whose each VF is: instance and port."""

    def find(self, args: argparse.Namespace) -> Found:
        """Return the VFs with their owners."""
        # Here, for what reads links takes long to import.
        from sriov_rt.vif import tenants

        states = Vfs.of_host().list(args.pf)
        ports = tenants.of_host(states, faults.say)
        owners = mapping.Owners(Root())
        found = tuple(mapping.of(states, owners, ports))
        return Found(
            columns=_MAP,
            shown=("VF", "Interface", "Driver", "Instance"),
            rows=[mapping.row(each) for each in found],
            document=[dataclasses.asdict(each) for each in found],
        )


class Show(command.ShowOne):
    """Show all of one VF."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF."""
        parser.add_argument("vf", metavar="VF", help=_VF)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the VF."""
        vfs = Vfs.of_host()
        state = vfs.observe(vfs.locate(args.vf))
        return command.one(table.fields(state), table.to_plain(state))


class _Act(command.Text):
    """A command that prints a plan, and carries it out."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add ``--dry-run`` and ``--json``."""
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print what would be done, and do nothing",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")


class Set(_Act):
    """Set attributes of a VF."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF and its attributes."""
        _add_settings(parser)
        super().configure(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the plan, and carry it out."""
        return _set(parsed_args)


class Plan(command.Text):
    """Print what 'vf set' would do; changes nothing."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF and its attributes."""
        _add_settings(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(dry_run=True)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the plan."""
        return _set(parsed_args)


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
        type=arguments.seconds(3600),
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for the PF's link if a rate needs it",
    )


def _set(args: argparse.Namespace) -> int:
    wanted = settings_text.parse(args.settings)
    # A guest goes on with a VF that is set through its PF, and without one
    # that is taken from vfio-pci.
    takes = wanted.driver is not None
    vfs = Vfs.of_host(_users_and_guests if takes else _users)
    made = vfs.plan(vfs.locate(args.vf), wanted, wait_s=args.wait)
    _print(args, table.plan_to_plain(made), made.lines())
    if not args.dry_run:
        vfs.apply(made)
    return 0


class Reset(_Act):
    """Make VFs clean: as they are before each use."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VFs."""
        parser.add_argument("vf", nargs="+", metavar="VF", help=_VF)
        parser.add_argument(
            "--flr", action="store_true", help="reset the PCI function first"
        )
        parser.add_argument(
            "--driver", help="bind this one (default: the one that it has)"
        )
        super().configure(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the plans, and carry them out."""
        args = parsed_args
        vfs = Vfs.of_host(_users_and_guests)
        asked = [vfs.locate(each) for each in args.vf]
        words = [] if args.driver is None else [f"driver={args.driver}"]
        driver = settings_text.parse(words).driver
        plans = vfs.plan_resets(asked, driver, fresh=True)
        if args.flr and not args.dry_run:
            for each in asked:
                faults.say(f"resetting the function of {each}")
                vfs.flr(each)
            plans = vfs.plan_resets(asked, driver, fresh=True)
        plain = [table.plan_to_plain(each) for each in plans]
        _print(args, plain, (line for each in plans for line in each.lines()))
        if not args.dry_run:
            vfs.apply_all(plans)
        return 0


def _users(states: Sequence[VfState]) -> Mapping[str, Sequence[str]]:
    """Return who uses VFs, in any network namespace, by address."""
    # Here, for what reads links takes long to import.
    from sriov_rt.vif import tenants

    return tenants.users(states)


def _users_and_guests(
    states: Sequence[VfState],
) -> Mapping[str, Sequence[str]]:
    """Return who uses VFs, and the guests that hold them as a whole."""
    found = dict(_users(states))
    owners = mapping.Owners(Root())
    for state in states:
        if state.driver != VFIO:
            continue
        owner = owners.of(state.id, state.device)
        if isinstance(owner, Unknown):
            owner = f"a guest perhaps ({owner.reason})"
        if owner is not None:
            found[state.id.address] = [owner]
    return found


class Provision(_Act):
    """Make the VFs that [nic] vfs names; those in use stay."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            help="may be repeated (default: /etc/sriov_rt/sriov-rt.conf)",
        )
        super().configure(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the plans, and carry them out."""
        # Here, for oslo.config takes long to import.
        from sriov_rt.nic import provision

        args = parsed_args
        amounts, timeout = provision.configured(args.config_file)
        owners = mapping.Owners(Root())
        work = provision.Provisioning(
            Vfs.of_host(), owners.of, _users, faults.say
        )
        plans = work.plan(amounts, 0.0 if args.dry_run else timeout)
        plain = [each.to_plain() for each in plans]
        lines = [line for each in plans for line in each.lines()]
        _print(args, plain, lines or ("[nic] vfs names no PF: nothing to do",))
        if not args.dry_run:
            work.apply(plans)
        return 0


class Xml(command.Text):
    """Print libvirt's XML that attaches a VF."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF and the form of the XML."""
        parser.add_argument(
            "device",
            metavar="VF|PF",
            help=f"{_VF}; the PF for network and pooled",
        )
        parser.add_argument(
            "--as",
            dest="way",
            choices=("interface", "hostdev", "network", "pooled"),
            default="interface",
            help="which of libvirt's ways: a domain's interface or hostdev, "
            "a network of VFs for 'virsh net-define', or a domain's interface "
            "with a VF of that network (default: %(default)s)",
        )
        parser.add_argument(
            "--mac", help="(default: the VF's own, if it has one)"
        )
        parser.add_argument("--vlan", help="0 to 4094 (default: the VF's own)")
        parser.add_argument(
            "--pool",
            type=arguments.whole(1, MAX_VFS),
            metavar="NUMBER",
            help="how many VFs of the PF the network has (default: all)",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print it."""
        text = _xml(parsed_args)
        _print(parsed_args, {"xml": text}, (text,))
        return 0


def _xml(args: argparse.Namespace) -> str:
    # Here, for lxml takes long to import.
    from sriov_rt.nic import libvirt_xml

    words = [
        f"{name}={value}"
        for name in ("mac", "vlan")
        if (value := getattr(args, name)) is not None
    ]
    asked = settings_text.parse(words)
    vfs = Vfs.of_host()
    _check_way(args)
    if args.way == libvirt_xml.Way.NETWORK:
        text = libvirt_xml.network(vfs.pf(args.device), args.pool, asked.vlan)
    elif args.way == libvirt_xml.Way.POOLED:
        text = libvirt_xml.pooled(vfs.pf(args.device), asked.mac)
    else:
        vf = vfs.locate(args.device)
        has = vfs.observe(vf).settings
        mac = has.mac if asked.mac is None else asked.mac
        vlan = has.vlan if asked.vlan is None else asked.vlan
        render = (
            libvirt_xml.interface
            if args.way == "interface"
            else libvirt_xml.hostdev
        )
        text = render(vf, mac, vlan)
    return text


def _check_way(args: argparse.Namespace) -> None:
    """Refuse what the chosen document has no place for.

    :raises ParseError: see there.
    """
    if args.way == "network" and args.mac is not None:
        raise ParseError("--mac", args.mac, "it is for --as pooled")
    if args.way == "pooled" and args.vlan is not None:
        raise ParseError("--vlan", args.vlan, "it is for --as network")


def _print(
    args: argparse.Namespace, plain: object, lines: Iterable[str]
) -> None:
    if args.json:
        print(json.dumps(plain, indent=2))
    else:
        print("\n".join(lines))
