# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify network``: throughput to another host."""

import argparse
import re
import time
from collections.abc import Iterable

from sriov_rt import codec
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import paths
from sriov_rt.cmd import progress
from sriov_rt.cmd import verify
from sriov_rt.cmd.command import Result
from sriov_rt.host.root import Root
from sriov_rt.kernel import namespaces
from sriov_rt.verify import errors
from sriov_rt.verify import iperf3
from sriov_rt.verify import netperf
from sriov_rt.verify import network
from sriov_rt.verify import results

#: Greatest value of --port: sockperf's streams use the ports after it.
MAX_PORT = 64_999

_namespace = arguments.reader(namespaces.parse)


class Network(verify.Measure):
    """Measure throughput, requests and packets to another host."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the other end, and what to measure."""
        parser.add_argument(
            "--to",
            metavar="ADDRESS",
            help="the address where 'sriov-rt verify network serve' runs, or "
            "an address in --server-namespace",
        )
        _add_port(parser)
        parser.add_argument(
            "--name",
            type=_name,
            default=network.BASE,
            help="what the traffic passes, such as vf or macvlan; others are "
            "compared with 'host' (default: %(default)s)",
        )
        parser.add_argument(
            "--namespace",
            type=_namespace,
            help="network namespace to measure from: its name, or pid:N of a "
            "container's process (default: this one)",
        )
        parser.add_argument(
            "--server-namespace",
            type=_namespace,
            metavar="NAMESPACE",
            help="network namespace of this host to serve in meanwhile; as "
            "--namespace",
        )
        parser.add_argument(
            "--streams",
            type=arguments.whole(1, network.MAX_STREAMS),
            action="append",
            metavar="N",
            help="parallel requests and responses; may be repeated (default: "
            "1, 2, 4, 9, 18 and 36)",
        )
        verify.add_duration(
            parser, "each run (default: 20s)", iperf3.DURATION_S
        )
        parser.add_argument(
            "--onload",
            action="store_true",
            help="measure requests and responses over Onload as well",
        )
        parser.add_argument(
            "--packets",
            nargs=2,
            metavar=("FROM", "TO"),
            help="interfaces between which pktgen sends packets of 64 bytes, "
            "in both namespaces",
        )
        verify.add_output(parser)
        verify.add_published(parser)
        super().configure(parser)

    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return what would run, and for how long."""
        return network.planned(*_network_cells(args))

    def measure(self, args: argparse.Namespace) -> Result:
        """Measure, and return the results."""
        chosen, ends = _network_cells(args)
        namespaces = (ends.namespace, ends.server)
        if missing := list(network.missing(args.onload, namespaces)):
            raise errors.ToolsMissing(missing)
        paths.make_directory(args.output)
        kept = network.Results(args.output)
        packets = network.Packets(*args.packets) if args.packets else None
        with (
            results.exclusive(),
            progress.Cells(is_quiet=self.caller.is_quiet) as cells,
        ):
            found, interrupted = network.NetworkRun(
                Root("/"), ends, kept, packets
            ).run(
                chosen,
                resume=args.resume,
                progress=lambda cell, left: cells.begin(
                    cell.file, cell.duration_s, left
                ),
            )
        return Result(
            columns=network.TABLE.names,
            shown=network.TABLE.shown(published=args.published),
            rows=list(network.TABLE.rows(kept.all())),
            document=codec.to_plain(tuple(found)),
            after=[
                *(network.TABLE.remarks(kept.all()) if args.published else ()),
                *verify.notes(found),
            ],
            code=verify.cells_code(found, len(chosen), interrupted),
        )


class NetworkServe(command.Lister):
    """Run the server for 'verify network', until Ctrl-C."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add where to serve."""
        parser.add_argument(
            "address",
            metavar="ADDRESS",
            help="an address of this host to listen on",
        )
        _add_port(parser)
        parser.add_argument(
            "--onload", action="store_true", help="serve over Onload as well"
        )
        command.add_dry_run(parser, "the servers' command lines")

    def run(self, args: argparse.Namespace) -> Result:
        """Serve, or return the servers' command lines."""
        address = network.resolve(args.address)
        commands = list(
            network.servers(
                address,
                args.port,
                network.MAX_STREAMS,
                onload=args.onload,
            )
        )
        lines = [" ".join(each) for each in commands]
        if args.dry_run:
            return command.lines(lines, column="Command")
        if missing := list(network.missing(args.onload, ())):
            raise errors.ToolsMissing(missing)
        with network.serving(commands) as children:
            print(
                f"serving on {address}{_with_netperf()}; measure with "
                f"'sriov-rt verify network --to {address} --port "
                f"{args.port}'",
                flush=True,
            )
            while True:
                time.sleep(1)
                network.check(children)


def _add_port(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port",
        type=arguments.whole(1, MAX_PORT),
        default=network.PORT,
        help="the first of the servers' ports (default: %(default)s)",
    )


def _network_cells(
    args: argparse.Namespace,
) -> tuple[list[network.Cell], network.Ends]:
    _check_ends(args)
    chosen = network.cells(
        args.name,
        sorted(set(args.streams or network.STREAMS)),
        args.duration,
        onload=args.onload,
        packets=bool(args.packets),
    )
    ends = network.Ends(
        network.resolve(args.to),
        args.port,
        args.namespace or "",
        args.server_namespace or "",
    )
    return list(chosen), ends


def _check_ends(args: argparse.Namespace) -> None:
    if args.to is None:
        raise ValueError(
            "specify --to ADDRESS, where 'sriov-rt verify network serve' runs"
        )
    if args.packets and not args.server_namespace:
        raise ValueError("--packets needs --server-namespace")
    if args.server_namespace and not args.namespace:
        raise ValueError("--server-namespace needs --namespace")


def _with_netperf() -> str:
    return ", netperf as well" if netperf.serves() else ""


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise argparse.ArgumentTypeError(
            "letters, digits, '.', '_' and '-' expected"
        )
    return text
