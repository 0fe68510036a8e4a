# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt vf``: the VFs of this host, and operations on them."""

import argparse
import contextlib
import dataclasses
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sriov_rt import codec
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import paths
from sriov_rt.cmd.command import Result
from sriov_rt.codec import Unknown
from sriov_rt.facts import CountedVf
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import MAX_VFS
from sriov_rt.nic import mapping
from sriov_rt.nic import plan
from sriov_rt.nic import settings_text
from sriov_rt.nic import table
from sriov_rt.nic import tenancy
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from sriov_rt.nic.vfs import Vfs
from sriov_rt.parse.errors import ParseError

if TYPE_CHECKING:
    from sriov_rt.nic import provision

_FRESH = tenancy.Reset(fresh=True)

_VF = "a PCI address, PF/index such as enp1s0/3, or the VF's interface"


_HEADERS = (
    *("VF", "Address", "Driver", "Interface", "MAC", "VLAN"),
    *("Held by", "Owner"),
)
_MAP = (
    *("VF", "Address", "Interface", "Driver", "Group"),
    *("Instance", "Port", "Alias"),
)


_COUNTERS = (
    *("VF", "Address", "Port", "Instance", "RX packets", "RX bytes"),
    *("TX packets", "TX bytes", "RX dropped", "TX dropped", "Differing"),
)


class _OfPf(command.Lister):
    of_root = True
    nothing = (
        "there is no VF; 'sriov-rt host show -c nics' names its NICs, and "
        "'sriov-rt vf provision' makes what [nic] vfs says"
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the PF."""
        parser.add_argument(
            "pf", nargs="?", metavar="PF", help="list the VFs of this PF only"
        )


class List(_OfPf):
    """List the VFs of this host."""

    def run(self, args: argparse.Namespace) -> Result:
        """Return the VFs."""
        states = Vfs.of_host().list(args.pf)
        return Result(
            columns=_HEADERS,
            shown=("VF", "Driver", "Interface", "VLAN", "Held by"),
            rows=[table.row(each) for each in states],
            document=[table.to_plain(each) for each in states],
        )


class Map(_OfPf):
    """List VFs with their owners: instance and port."""

    def run(self, args: argparse.Namespace) -> Result:
        """Return the VFs with their owners."""
        # Imported here, since it takes long to import.
        from sriov_rt.vif import tenants

        states = Vfs.of_host().list(args.pf)
        ports = tenants.of_host(states, faults.say)
        owners = mapping.Owners(Root())
        found = tuple(mapping.of(states, owners, ports))
        return Result(
            columns=_MAP,
            shown=("VF", "Interface", "Driver", "Instance"),
            rows=[mapping.row(each) for each in found],
            document=[dataclasses.asdict(each) for each in found],
        )


class Counters(_OfPf):
    """List the counters of VFs by their owners."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the PF, and a file for an exporter."""
        super().configure(parser)
        parser.add_argument(
            "--textfile",
            type=pathlib.Path,
            metavar="FILE",
            help="also replace FILE by these metrics, for the textfile "
            "collector of Prometheus' node exporter",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the VFs with what they have received and transmitted."""
        # Imported here, since it takes long to import.
        from sriov_rt.agent import vf_series
        from sriov_rt.vif import vf_counters

        root = Root()
        found = vf_series.owned(vf_counters.of_host(args.pf), root)
        if args.textfile is not None:
            text = vf_series.text(vf_series.samples(found, root))
            paths.write(args.textfile, text.encode())
        return Result(
            columns=_COUNTERS,
            shown=("VF", "Instance", *_COUNTERS[4:8]),
            rows=[_counters_row(each) for each in found],
            document=[codec.to_plain(each) for each in found],
        )


def _counters_row(each: CountedVf) -> tuple[object, ...]:
    counted: tuple[object, ...] = ("unknown",) * 6
    if not isinstance(each.counters, Unknown):
        counted = dataclasses.astuple(each.counters)
    differing = "-" if each.differing is None else each.differing
    name = f"{each.pf}/{each.index}"
    owner = (each.port or "-", each.instance or "-")
    # Packets and bytes come first, since they fit a terminal.
    order = (0, 1, 3, 4, 2, 5)
    return (
        *(name, each.address, *owner),
        *(counted[i] for i in order),
        differing,
    )


class Show(command.ShowOne):
    """Show a VF."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF."""
        parser.add_argument("vf", metavar="VF", help=_VF)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the VF."""
        vfs = Vfs.of_host()
        state = vfs.observe(vfs.locate(args.vf))
        return command.one(table.fields(state), table.to_plain(state))


class Plan(command.Lister):
    """Print what 'vf set' would do; changes nothing."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF and its attributes."""
        _add_settings(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the plan."""
        _, made = _planned(args)
        return _plan(made.lines(), table.plan_to_plain(made))


class Set(command.Lister):
    """Set attributes of a VF."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VF and its attributes."""
        _add_settings(parser)
        command.add_dry_run(parser, "the plan")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the plan, and how to carry it out."""
        vfs, made = _planned(args)

        def apply() -> None:
            with _locked(vfs, [made.vf]):
                vfs.apply(made)

        return _plan(
            made.lines(),
            table.plan_to_plain(made),
            None if args.dry_run else apply,
        )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("vf", metavar="VF", help=_VF)
    parser.add_argument(
        "settings",
        nargs="+",
        metavar="ATTRIBUTE=VALUE",
        help="attributes, such as mac=52:54:00:12:34:56 vlan=7 "
        "max_tx_rate=1000",
    )
    parser.add_argument(
        "--wait",
        type=arguments.seconds(3600),
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for the PF's link if a rate needs it",
    )


def _planned(args: argparse.Namespace) -> tuple[Vfs, plan.Plan]:
    """Return the VFs of this host, and the plan for one of them."""
    requested = settings_text.parse(args.settings)
    vfs = Vfs.of_host(_uses)
    return vfs, vfs.plan(vfs.locate(args.vf), requested, wait_s=args.wait)


def _plan(
    lines: Iterable[str],
    document: object,
    apply: Callable[[], object] | None = None,
) -> Result:
    """Return a plan with the function that carries it out."""
    return command.lines(lines, document, column="Step", apply=apply)


class Reset(command.Lister):
    """Make VFs clean, as before each use; this ends their quarantine."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the VFs."""
        parser.add_argument("vf", nargs="+", metavar="VF", help=_VF)
        parser.add_argument(
            "--flr", action="store_true", help="reset the PCI function first"
        )
        parser.add_argument(
            "--driver", help="bind this driver (default: the one that it has)"
        )
        command.add_dry_run(parser, "the plans")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the plans, and how to carry them out."""
        vfs = Vfs.of_host(_uses)
        chosen = [vfs.locate(each) for each in args.vf]
        words = [] if args.driver is None else [f"driver={args.driver}"]
        driver = settings_text.parse(words).driver
        plans = vfs.plan_resets(chosen, driver, _FRESH)
        if args.flr and not args.dry_run:
            for each in plans:
                faults.say(f"resetting the function of {each.vf}")
                if not each.flr:
                    with _locked(vfs, [each.vf]):
                        vfs.flr(each.vf)
            plans = vfs.plan_resets(chosen, driver, _FRESH)

        def apply() -> None:
            with _locked(vfs, chosen):
                for each in chosen:
                    vfs.check(each, Act.RESET)
                vfs.apply_all(plans)
                for each in chosen:
                    vfs.tenancies.reset(each.address)

        return _plan(
            (line for each in plans for line in each.lines()),
            [table.plan_to_plain(each) for each in plans],
            None if args.dry_run else apply,
        )


@contextlib.contextmanager
def _locked(vfs: Vfs, some: Iterable[VfId]) -> Iterator[None]:
    """Lock VFs, in the order of their addresses."""
    with contextlib.ExitStack() as stack:
        for address in sorted({each.address for each in some}):
            stack.enter_context(vfs.tenancies.locked(address))
        yield


def _uses(states: Sequence[VfState]) -> Mapping[str, Use]:
    """Return the use of VFs, in any network namespace, by address."""
    # Imported here, since it takes long to import.
    from sriov_rt.vif import tenants

    return tenants.uses(states, guests=True)


class Provision(command.Lister):
    """Make the VFs that [nic] vfs names; those in use stay."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        command.add_config(parser, "nic")
        command.add_dry_run(parser, "the plans")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the plans, and how to carry them out."""
        # Imported here, since oslo.config takes long to import.
        from sriov_rt.nic import provision

        amounts, timeout = provision.configured(args.config_file)
        owners = mapping.Owners(Root())
        work = provision.Provisioning(
            Vfs.of_host(), owners.of, _uses, faults.say
        )
        plans = work.plan(amounts, 0.0 if args.dry_run else timeout)
        lines = [line for each in plans for line in each.lines()]
        return _plan(
            lines or ("[nic] vfs names no PF: nothing to do",),
            [each.to_plain() for each in plans],
            None if args.dry_run else lambda: _carry_out(work, plans),
        )


def _carry_out(
    work: "provision.Provisioning", plans: "Sequence[provision.Provision]"
) -> None:
    """Make the VFs of one PF after the other.

    :raises KeyboardInterrupt: after Ctrl-C, once the PF that it came at is
        done.
    """
    done: list[str] = []
    with faults.Interrupt() as interrupt:
        for each in plans:
            if interrupt.came():
                break
            work.apply([each])
            done.append(each.pf.name)
    if interrupt.came():
        left = ", ".join(each.pf.name for each in plans[len(done) :])
        faults.say(
            f"done: {', '.join(done)}; not begun: {left or 'none'}; run "
            "'sriov-rt vf provision' again to go on"
        )
        raise KeyboardInterrupt


class Xml(command.ShowOne):
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
            help="format: a domain's interface or hostdev, "
            "a network of VFs for 'virsh net-define', or a domain's interface "
            "with a VF of that network (default: %(default)s)",
        )
        parser.add_argument(
            "--mac", help="the MAC (default: the VF's own, if it has one)"
        )
        parser.add_argument(
            "--vlan", help="the VLAN, 0 to 4094 (default: the VF's own)"
        )
        parser.add_argument(
            "--pool",
            type=arguments.whole(1, MAX_VFS),
            metavar="NUMBER",
            help="the number of VFs in the network (default: all)",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the XML."""
        text = _xml(args)
        return command.one([("xml", text)], {"xml": text}, text=[text])


def _xml(args: argparse.Namespace) -> str:
    # Imported here, since lxml takes long to import.
    from sriov_rt.nic import libvirt_xml

    words = [
        f"{name}={value}"
        for name in ("mac", "vlan")
        if (value := getattr(args, name)) is not None
    ]
    requested = settings_text.parse(words)
    vfs = Vfs.of_host()
    _check_way(args)
    if args.way == libvirt_xml.Way.NETWORK:
        text = libvirt_xml.network(
            vfs.pf(args.device), args.pool, requested.vlan
        )
    elif args.way == libvirt_xml.Way.POOLED:
        text = libvirt_xml.pooled(vfs.pf(args.device), requested.mac)
    else:
        vf = vfs.locate(args.device)
        has = vfs.observe(vf).settings
        mac = has.mac if requested.mac is None else requested.mac
        vlan = has.vlan if requested.vlan is None else requested.vlan
        render = (
            libvirt_xml.interface
            if args.way == "interface"
            else libvirt_xml.hostdev
        )
        text = render(vf, mac, vlan)
    return text


def _check_way(args: argparse.Namespace) -> None:
    """Refuse options that the chosen document has no place for.

    :raises ParseError: if there is such an option.
    """
    if args.way == "network" and args.mac is not None:
        raise ParseError("--mac", args.mac, "it is for --as pooled")
    if args.way == "pooled" and args.vlan is not None:
        raise ParseError("--vlan", args.vlan, "it is for --as network")
