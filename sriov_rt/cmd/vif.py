# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt vif``: ports of this host."""

import argparse
import dataclasses
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Result
from sriov_rt.exceptions import SriovRtError
from sriov_rt.kernel.tc import Limits
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import lxc
from sriov_rt.vif import model
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import State

if TYPE_CHECKING:
    from sriov_rt.vif.plugger import Plugger

#: Exit code if a recovery left something, or if the port does not exist.
EXIT_LEFT = 1

#: Words for what a recovery did, where JSON has another word.
_WORDS = {
    "standing": "existing",
    "damaged": "damaged record",
}

#: Columns that fit a narrow terminal, and a wide one with two UUIDs;
#: ``vif show PORT`` has all.
_NARROW = ("Port", "Interface", "Parent", "State")
_WIDE = (
    *("Port", "Owner", "Physical network", "Namespace", "Interface"),
    *("MAC", "VLAN", "State"),
)
_ROOM = 160

#: Parser of numbers; whether a port can have one is checked with the port.
_number = arguments.whole(0, 999_999_999)


class Plug(command.ShowOne):
    """Plug a port; show it if it is plugged already."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        command.add_config(parser, "vif")
        _add_port(parser)
        command.add_dry_run(parser, "the plan")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the port as it was plugged, or the plan."""
        port = _requested(args)
        plugger = _plugger(args)
        if args.dry_run:
            plan = list(plugger.plan(port).lines())
            return command.one([("plan", "\n".join(plan))], plan, text=plan)
        _recover_first(plugger)
        document = dataclasses.asdict(plugger.plug(port))
        return command.one(document.items(), document)


class Unplug(command.Lister):
    """Remove a port; it is no error if it is gone."""

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        command.add_config(parser, "vif")
        parser.add_argument(
            "port", metavar="PORT", help="the UUID of the port"
        )
        command.add_dry_run(parser, "what would be removed")

    def run(self, args: argparse.Namespace) -> Result:
        """Unplug the port, or return which it is."""
        port = validation.port(args.port)
        plugger = _plugger(args)
        if args.dry_run:
            found = [each for each in plugger.show() if each.port == port]
            return _plan(found, f"{port} is not plugged: nothing to do")
        _recover_first(plugger)
        return _done(
            port, "unplugged", plugger.unplug(port), "was not plugged"
        )


class List(command.Lister):
    """List the ports of this host, and which are quarantined."""

    of_root = True
    nothing = "no port is plugged on this host"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        command.add_config(parser, "vif")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the ports."""
        found = _plugger(args).show()
        return _ports(found, after=[*filter(None, map(_remark, found))])


class Show(List):
    """Show a port; all of them without one, as 'vif list'."""

    epilog = "Exit codes: 0 the port is there, 1 it is not, 2 it is unknown."

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        super().configure(parser)
        parser.add_argument(
            "port", metavar="PORT", nargs="?", help="the UUID of the port"
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the port, a row for each field."""
        if args.port is None:
            return super().run(args)
        port = validation.port(args.port)
        found = [each for each in _plugger(args).show() if each.port == port]
        if not found:
            none = (
                f"{port} is not plugged on this host; see 'sriov-rt vif list'"
            )
            return Result(
                ("Field", "Value"), (), None, after=[none], code=EXIT_LEFT
            )
        if args.columns and not args.json:
            return _ports(found)
        document = dataclasses.asdict(found[0])
        return Result(
            columns=("Field", "Value"),
            rows=list(document.items()),
            document=document,
            after=[*filter(None, map(_remark, found))],
        )


class Forget(command.Lister):
    """Free what a quarantined port keeps.

    Use it if you know that its interface is gone.
    """

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        command.add_config(parser, "vif")
        parser.add_argument(
            "port", metavar="PORT", help="the UUID of the port"
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="forget it; without, nothing is changed and the exit code "
            "is 2",
        )
        command.add_dry_run(parser, "what would be forgotten")

    def run(self, args: argparse.Namespace) -> Result:
        """Forget the port, or return which it is."""
        port = validation.port(args.port)
        plugger = _plugger(args)
        found = [each for each in plugger.show() if each.port == port]
        others = [x for x in found if x.state != State.QUARANTINED]
        if args.dry_run:
            plan = () if others else found
            return _plan(plan, f"{port} is not quarantined: nothing to do")
        for each in others:
            raise errors.NotForgotten(each.interface, port=port)
        if found and not args.force:
            raise SriovRtError(
                f"{port} is not forgotten: if an interface of the port is "
                "left, the next port on its VF or parent shares a network "
                "with it; add --force if it is sure to be gone"
            )
        return _done(
            port,
            "forgotten",
            args.force and plugger.forget(port),
            "is unknown here: nothing to forget",
        )


class Recover(command.Lister):
    """Finish or undo what a crash interrupted.

    The exit code is 1 if anything is left.
    """

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the configuration."""
        command.add_config(parser, "vif")

    def run(self, args: argparse.Namespace) -> Result:
        """Recover, and return what was done."""
        done = _plugger(args).recover()
        document = dataclasses.asdict(done)
        rows = [
            (
                _WORDS.get(name, name).replace("_", " "),
                *((each, "") if isinstance(each, str) else each),
            )
            for name, ports in document.items()
            for each in ports
        ]
        none = "nothing to do: no port was interrupted"
        return Result(
            columns=("Action", "Port", "Reason"),
            rows=rows,
            document=document,
            text=[": ".join(filter(None, row)) for row in rows] or [none],
            code=EXIT_LEFT if done.failed else 0,
        )


class LxcHook(command.Lister):
    """Print the lines of a container's LXC configuration for a port.

    They plug it when the container starts and unplug it when it stops.
    """

    of_root = True

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the port."""
        command.add_config(parser, "vif")
        _add_port(parser, namespace=False)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the lines."""
        return command.lines(
            lxc.lines(_requested(args), args.config_file or ())
        )


def _plugger(args: argparse.Namespace) -> "Plugger":
    """Return a plugger with this host's configuration."""
    # Imported here, since the kernel's interfaces take long to import.
    from sriov_rt.vif import plugger

    return plugger.configured(args.config_file)


def _recover_first(plugger: "Plugger") -> None:
    """Clean up after an earlier command; a failure does not stop this one."""
    try:
        plugger.recover_pending()
    except SriovRtError as error:
        faults.say(f"not recovered: {error}")


def _ports(found: Iterable[Plugged], **others: object) -> Result:
    """Return ports as rows and as a document."""
    ports = list(found)
    names = [each.name for each in dataclasses.fields(Plugged)]
    has_room = shutil.get_terminal_size((80, 24)).columns >= _ROOM
    return Result(
        columns=[_header(each) for each in names],
        shown=_WIDE if has_room else _NARROW,
        rows=[[getattr(each, name) for name in names] for each in ports],
        document=[dataclasses.asdict(each) for each in ports],
        **others,  # type: ignore[arg-type]
    )


def _remark(port: Plugged) -> str:
    """Return what to do about a port; empty if there is nothing."""
    if port.reason:
        return f"{port.port}: {port.reason}"
    if port.state == State.ABSENT:
        return (
            f"{port.port}: {port.interface} is not where it was plugged; "
            "start its owner again, or end it and run 'sriov-rt vif unplug "
            f"{port.port}'"
        )
    return ""


def _header(name: str) -> str:
    if name in ("mac", "mtu", "vf", "vlan"):
        return name.upper()
    return name.replace("_", " ").capitalize()


def _plan(found: Iterable[Plugged], none: str) -> Result:
    """Return what a dry run would remove.

    :param none: what to print if there is nothing to remove.
    """
    ports = list(found)
    text = []
    for each in ports:
        place = f" in {each.namespace}" if each.namespace else ""
        text.append(
            f"{each.port} {each.state}: {each.kind} {each.interface}{place}"
        )
    return _ports(ports, text=text or [none])


def _done(port: str, what: str, done: bool, otherwise: str) -> Result:
    """Return a result that says whether something was done to a port.

    :param otherwise: predicate of the port if it was not done.
    """
    return Result(
        columns=("Port", what.capitalize()),
        rows=[(port, done)],
        document={"port": port, what: done},
        text=[f"{port} {what if done else otherwise}"],
    )


def _add_port(
    parser: argparse.ArgumentParser, *, namespace: bool = True
) -> None:
    """Add the arguments that describe a port.

    :param namespace: whether to add the namespace; False if it is known.
    """
    arg = parser.add_argument
    arg("--port", required=True, metavar="UUID", help="the UUID of the port")
    arg("--owner", required=True, help="the owner: a guest's name or UUID")
    arg(
        "--kind",
        required=True,
        choices=[str(each) for each in Kind],
        help="how its interface is made",
    )
    arg(
        "--mode",
        help="mode of the macvlan or ipvlan (default: bridge, or l2)",
    )
    arg(
        "--network",
        help="the physical network, of whose pool a parent is chosen",
    )
    arg(
        "--parent",
        metavar="IF",
        help="the parent, or the interface of a whole VF",
    )
    if namespace:
        arg(
            "--namespace",
            metavar="NAME|pid:N",
            help="a name of 'ip netns' or a process (default: this one)",
        )
    arg(
        "--name",
        metavar="IF",
        help="the name of the interface (default: srt…)",
    )
    arg(
        "--mac", help="the MAC (default: the kernel's choice; none for ipvlan)"
    )
    arg(
        "--vlan",
        type=_number,
        default=0,
        help="the VLAN, 1 to 4094; 0 is untagged",
    )
    arg("--mtu", type=_number, help="the MTU, bytes (default: the parent's)")
    arg(
        "--address",
        action="append",
        default=[],
        metavar="IP/PREFIX",
        help="an address with its prefix; may be repeated",
    )
    arg(
        "--route",
        action="append",
        default=[],
        metavar="DEST=GW",
        help="a route, such as default=192.0.2.254; may be repeated",
    )
    arg("--out-kbps", type=_number, help="limit of egress traffic, kbit/s")
    arg("--in-kbps", type=_number, help="limit of ingress traffic, kbit/s")
    arg("--numa-node", type=_number, help="the NUMA node of its parent")
    arg(
        "--onload",
        metavar="UUID",
        help="accelerate with Onload; UUID of the Neutron network (one owner "
        "for each NIC and network)",
    )


def _requested(args: argparse.Namespace) -> model.Plug:
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
        model.Plug(
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
