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

"""``sriov-rt verify``: measure this host, and certify its latency."""

import argparse
import logging
import pathlib
import re
import shutil
import sys
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt import codec
from sriov_rt import files
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Found
from sriov_rt.codec import Unknown
from sriov_rt.facts.certificate import PATH
from sriov_rt.facts.certificate import Certificate
from sriov_rt.host import conditions
from sriov_rt.host import latency as host_latency
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import duration
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import certificate
from sriov_rt.verify import collection
from sriov_rt.verify import compare
from sriov_rt.verify import disk
from sriov_rt.verify import errors
from sriov_rt.verify import fio
from sriov_rt.verify import guest
from sriov_rt.verify import hotplug
from sriov_rt.verify import iperf3
from sriov_rt.verify import latency
from sriov_rt.verify import netperf
from sriov_rt.verify import network
from sriov_rt.verify import pictures
from sriov_rt.verify import report
from sriov_rt.verify import results
from sriov_rt.verify import timerlat
from sriov_rt.verify import watch
from sriov_rt.verify.load import DEFAULT as DEFAULT_LOAD
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.load import Load
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.measurement import Tool
from sriov_rt.verify.profiles import DEFAULT as DEFAULT_PROFILE
from sriov_rt.verify.profiles import PROFILES
from sriov_rt.verify.profiles import Profile
from sriov_rt.vif import validation

LOG = logging.getLogger(__name__)

EXIT_NO_CERTIFICATE = 1

#: Greatest port of --port: each stream of sockperf takes one from there on.
MAX_PORT = 64_999

#: Where results are kept unless another directory is named.
DIRECTORY = pathlib.Path("/var/lib/sriov-rt-verify/results")

_seconds = arguments.reader(duration.parse_duration)
_namespace = arguments.reader(validation.namespace)

_EPILOG = (
    "Exit codes: 0 the host has earned (or has) a certificate, 1 it has not, "
    "2 it could not be measured."
)

#: Of a certificate: a latency above the greatest that was seen comes less
#: than once in so long, at 95 %; the estimate is for a run as long.
_CPU_COLUMNS = ("CPU", "Max µs", "Samples", "Worse once in", "Estimate µs")

_EMULATED = (
    "this host is itself a virtual machine: these figures say nothing of any "
    "hardware"
)


class _Measure(command.Lister):
    """Measure this host, or print the plan of it."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of every measurement."""
        parser.add_argument(
            "--resume",
            action="store_true",
            help="keep what was measured in the same way before",
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print what would run, and for how long; measure nothing",
        )

    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return the lines of what would run, and for how long."""
        raise NotImplementedError

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Measure, or print the plan."""
        if not parsed_args.dry_run:
            return super().run(parsed_args)
        print("\n".join(self.plan(parsed_args)))
        return 0


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=DIRECTORY,
        metavar="DIR",
        help="where the results are kept (default: %(default)s)",
    )


class Latency(_Measure):
    """Measure the isolated CPUs under load, and write a certificate."""

    epilog = _EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to measure, and how."""
        parser.add_argument(
            "--profile",
            choices=tuple(PROFILES),
            default=DEFAULT_PROFILE,
            help="whose tools and parameters (default: %(default)s)",
        )
        parser.add_argument(
            "--duration",
            type=_seconds,
            metavar="TIME",
            help="of each tool, such as 15m or 12h (default: the profile's)",
        )
        parser.add_argument(
            "--load",
            choices=tuple(LOADS),
            default=DEFAULT_LOAD,
            help="what the housekeeping CPUs do meanwhile; 'none' earns no "
            "certificate (default: %(default)s)",
        )
        parser.add_argument(
            "--hotplug",
            type=_domain,
            metavar="DOMAIN",
            help="a running libvirt guest, of which a vCPU is plugged and "
            "unplugged every few seconds meanwhile (default: none)",
        )
        parser.add_argument(
            "--skip",
            action="append",
            choices=tuple(map(str, Tool)),
            default=[],
            help="a tool to leave out; may be repeated",
        )
        _add_output(parser)
        parser.add_argument(
            "--validity",
            type=_seconds,
            default=certificate.VALIDITY_S,
            metavar="TIME",
            help="how long the certificate counts (default: 30d)",
        )
        parser.add_argument(
            "--min-duration",
            type=_seconds,
            default=certificate.MIN_DURATION_S,
            metavar="TIME",
            help="the shortest measurement that earns one (default: 15m)",
        )
        parser.add_argument(
            "--per-boot",
            action="store_true",
            help="the certificate counts until the next boot",
        )
        super().configure(parser)

    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return what would run, and for how long."""
        return _planned(*_checked(args))

    def find(self, args: argparse.Namespace) -> Found:
        """Measure, and return what was found."""
        profile, cpus, load = _checked(args)
        certificate.prepare(Root("/").path)
        # A probe that withdraws a certificate holds the lock as well.
        with results.exclusive():
            measured, emulated, issued, refused = _earn(
                args, profile, cpus, load
            )
        return Found(
            columns=("Tool", "CPU", "Max µs", "Samples"),
            rows=list(_rows(measured)),
            document={
                "measurements": codec.to_plain(tuple(measured)),
                "certificate": codec.to_plain(issued) if issued else None,
                "refused": list(refused),
                "emulated": emulated,
            },
            after=[
                *_problems(measured, emulated),
                *_verdict(issued, refused),
            ],
            code=0 if issued else EXIT_NO_CERTIFICATE,
        )


_Earned = tuple[
    Sequence[Measurement], bool, Certificate | None, tuple[str, ...]
]


def _earn(
    args: argparse.Namespace, profile: Profile, cpus: latency.Cpus, load: Load
) -> _Earned:
    """Measure this host, and write the certificate that it earns.

    :returns: what was measured, whether the host is emulated, the
        certificate, and why there is none.
    """
    root = Root("/")
    show = _progress if sys.stderr.isatty() else None
    before = conditions.observe(root, boot=args.per_boot)
    found = latency.LatencyRun(
        root, cpus, load, results.Results(args.output), show
    ).run(profile, resume=args.resume)
    measured = [each.measurement for each in found]
    subject = certificate.Subject(
        host=_line(root, "proc/sys/kernel/hostname"),
        kernel=_line(root, "proc/sys/kernel/osrelease"),
        cpus=cpus.measured,
        before=before,
        after=conditions.observe(root, boot=args.per_boot),
        emulated=conditions.emulated(root),
    )
    try:
        issued = certificate.issue(
            subject,
            measured,
            profile.name,
            load,
            time.time(),
            validity_s=args.validity,
            min_duration_s=args.min_duration,
        )
    except errors.CertificateRefused as error:
        return measured, subject.emulated, None, error.reasons
    certificate.write(issued, root.path)
    return measured, subject.emulated, issued, ()


class ShowCertificate(command.Lister):
    """Print the certificate of this host, and whether it counts."""

    epilog = _EPILOG

    def find(self, args: argparse.Namespace) -> Found:
        """Return the certificate, a row for each CPU."""
        root = Root("/")
        found = host_latency.read(root)
        if isinstance(found, Unknown):
            raise errors.CertificateUnusable(found.reason)
        why = host_latency.withdrawn(found, root) if found else ""
        if found and not why and found.expires_at <= time.time():
            why = "it has expired"
        counts = found is not None and not why
        lines = ["no certificate; measure with 'sriov-rt verify latency'"]
        return Found(
            columns=_CPU_COLUMNS,
            rows=_cpu_rows(found),
            document={
                "certificate": codec.to_plain(found) if found else None,
                "counts": counts,
                "why_not": why,
            },
            before=lines if found is None else list(_certified(found, why)),
            after=list(_remarks(found)) if found else (),
            code=0 if counts else EXIT_NO_CERTIFICATE,
        )


#: What of disk.COLUMNS fits a terminal.
_DISK_COLUMNS = tuple(
    each
    for each in disk.COLUMNS
    if each not in ("Suite", "p99 µs", "Seed", "Same way")
)


class Disk(_Measure):
    """Measure a file system with fio, here and in a container."""

    epilog = (
        "Exit codes: 0 all was measured, 1 something was not, 2 nothing could "
        "be."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to measure, and how."""
        parser.add_argument(
            "directory",
            type=pathlib.Path,
            metavar="DIR",
            help="empty or missing; data and results go there, nowhere else",
        )
        parser.add_argument(
            "--suite",
            action="append",
            choices=disk.SUITES,
            help="'matrix' of clients and patterns, 'sweep' of block sizes; "
            "may be repeated (default: both)",
        )
        parser.add_argument(
            "--place",
            action="append",
            choices=("here", disk.CONTAINER),
            help="'here', on this host or in this guest, or in a 'container' "
            "on it; may be repeated (default: both)",
        )
        parser.add_argument(
            "--clients",
            type=arguments.whole(1, 9999),
            action="append",
            metavar="N",
            help="of the matrix, four workers each; may be repeated (default: "
            "1, 8 and 64)",
        )
        parser.add_argument(
            "--pattern",
            action="append",
            choices=fio.PATTERNS,
            help="of the matrix; may be repeated (default: all)",
        )
        parser.add_argument(
            "--size",
            type=_mebibytes,
            default=1024,
            metavar="SIZE",
            help="of each worker's file, such as 256m or 32g (default: 1g)",
        )
        parser.add_argument(
            "--duration",
            type=_seconds,
            default=30,
            metavar="TIME",
            help="of each run (default: 30s)",
        )
        super().configure(parser)

    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return what would run, and for how long."""
        return disk.planned(_disk_cells(args))

    def find(self, args: argparse.Namespace) -> Found:
        """Measure, and return what was found."""
        root, target = Root("/"), disk.Target(args.directory)
        wanted = _disk_cells(args)
        if missing := list(disk.missing(wanted)):
            raise errors.ToolsMissing(missing)
        show = _cell_progress if sys.stderr.isatty() else disk.silent
        with results.exclusive():
            target.prepare(disk.space(wanted), resume=args.resume)
            found, interrupted = disk.run(
                target, wanted, root, resume=args.resume, progress=show
            )
        return Found(
            columns=disk.COLUMNS,
            shown=_DISK_COLUMNS,
            rows=list(disk.rows(found)),
            document=codec.to_plain(tuple(found)),
            after=list(_notes(found)),
            code=_cells_code(found, len(wanted), interrupted),
        )


def _disk_cells(args: argparse.Namespace) -> list[disk.Cell]:
    here = disk.place_of(args.directory, Root("/"))
    places = args.place or ["here", disk.CONTAINER]
    return list(
        disk.cells(
            args.suite or disk.SUITES,
            [here if each == "here" else each for each in places],
            args.clients or disk.CLIENTS,
            args.pattern or fio.PATTERNS,
            args.size,
            args.duration,
        )
    )


def _notes(
    found: Sequence[disk.Measured | network.Measured],
) -> Iterator[str]:
    for each in found:
        if each.problem:
            yield f"{_file(each.cell)}: {each.problem}"
    if any(each.emulated for each in found):
        yield f"note: {_EMULATED}"


def _cells_code(
    found: Sequence[disk.Measured | network.Measured],
    wanted: int,
    interrupted: bool,
) -> int:
    if interrupted:
        faults.say("interrupted; go on with --resume")
    whole = len(found) == wanted and not any(x.problem for x in found)
    return 0 if whole else EXIT_NO_CERTIFICATE


def _file(cell: disk.Cell | network.Cell) -> str:
    return cell.name if isinstance(cell, disk.Cell) else cell.file


def _cell_progress(cell: disk.Cell | network.Cell, left: int) -> None:
    print(f"\r{_file(cell)}: {left} left\033[K", end="", file=sys.stderr)


class Network(_Measure):
    """Measure throughput, requests and packets to another host."""

    epilog = (
        "Exit codes: 0 all was measured, 1 something was not, 2 nothing could "
        "be."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the other end, and what to measure."""
        parser.add_argument(
            "--to",
            metavar="ADDRESS",
            help="where 'sriov-rt verify network serve' runs, or an address "
            "in --server-namespace",
        )
        parser.add_argument(
            "--port",
            type=arguments.whole(1, MAX_PORT),
            default=network.PORT,
            help="the first of the servers' ports (default: %(default)s)",
        )
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
            help="of requests and responses; may be repeated (default: 1, 2, "
            "4, 9, 18 and 36)",
        )
        parser.add_argument(
            "--duration",
            type=_seconds,
            default=iperf3.DURATION_S,
            metavar="TIME",
            help="of each run (default: 20s)",
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
        _add_output(parser)
        super().configure(parser)

    def plan(self, args: argparse.Namespace) -> Iterable[str]:
        """Return what would run, and for how long."""
        return network.planned(*_network_cells(args))

    def find(self, args: argparse.Namespace) -> Found:
        """Measure, and return what was found."""
        wanted, ends = _network_cells(args)
        namespaces = (ends.namespace, ends.server)
        if missing := list(network.missing(args.onload, namespaces)):
            raise errors.ToolsMissing(missing)
        kept = network.Results(args.output)
        packets = network.Packets(*args.packets) if args.packets else None
        show = _cell_progress if sys.stderr.isatty() else network.silent
        with results.exclusive():
            found, interrupted = network.NetworkRun(
                Root("/"), ends, kept, packets
            ).run(wanted, resume=args.resume, progress=show)
        return Found(
            columns=network.COLUMNS,
            rows=list(network.rows(kept.all())),
            document=codec.to_plain(tuple(found)),
            after=list(_notes(found)),
            code=_cells_code(found, len(wanted), interrupted),
        )


def _network_cells(
    args: argparse.Namespace,
) -> tuple[list[network.Cell], network.Ends]:
    _check_ends(args)
    wanted = network.cells(
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
    return list(wanted), ends


def _check_ends(args: argparse.Namespace) -> None:
    if args.to is None:
        raise errors.RunFailed("network", "specify --to")
    if args.packets and not args.server_namespace:
        raise errors.RunFailed("network", "--packets needs --server-namespace")
    if args.server_namespace and not args.namespace:
        raise errors.RunFailed(
            "network", "--server-namespace needs --namespace"
        )


class NetworkServe(command.Text):
    """Be the other end of 'verify network', until Ctrl-C."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add where to serve."""
        parser.add_argument(
            "address", metavar="ADDRESS", help="of this host, to listen on"
        )
        parser.add_argument(
            "--port", type=arguments.whole(1, MAX_PORT), default=network.PORT
        )
        parser.add_argument(
            "--onload", action="store_true", help="serve over Onload as well"
        )
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="print what would run; serve nothing",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Serve."""
        address = network.resolve(parsed_args.address)
        commands = list(
            network.servers(
                address,
                parsed_args.port,
                network.MAX_STREAMS,
                onload=parsed_args.onload,
            )
        )
        if parsed_args.dry_run:
            print("\n".join(" ".join(each) for each in commands))
            return 0
        if missing := list(network.missing(parsed_args.onload, ())):
            raise errors.ToolsMissing(missing)
        with network.serving(commands) as children:
            print(
                f"serving on {address}{_with_netperf()}; measure with "
                f"'sriov-rt verify network --to {address} --port "
                f"{parsed_args.port}'",
                flush=True,
            )
            while True:
                time.sleep(1)
                network.check(children)


def _with_netperf() -> str:
    return ", netperf as well" if netperf.serves() else ""


class Report(command.Text):
    """Show measurements as text, or as a page with pictures."""

    epilog = "Exit codes: 0 it was written, 2 it could not be."

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what was measured, and what to write."""
        parser.add_argument(
            "directories",
            type=pathlib.Path,
            nargs="+",
            metavar="DIR",
            help="with results; several are compared, as before and after",
        )
        parser.add_argument(
            "-o",
            "--output",
            type=pathlib.Path,
            metavar="FILE",
            help="write a page of HTML that needs nothing else; needs "
            "sriov-rt[report]",
        )
        parser.add_argument(
            "--pictures",
            type=pathlib.Path,
            metavar="DIR",
            help="write each picture there as well, as SVG and as PNG",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Show it."""
        found = collection.read(parsed_args.directories)
        if parsed_args.output is None and parsed_args.pictures is None:
            for each in found:
                _print_measured(each)
            if any(each.emulated for each in found):
                print(f"note: {_EMULATED}")
            return 0
        drawn = list(pictures.draw(found))
        if parsed_args.pictures is not None:
            parsed_args.pictures.mkdir(parents=True, exist_ok=True)
            for picture in drawn:
                for kind, data in picture.images.items():
                    path = parsed_args.pictures / f"{picture.name}.{kind}"
                    files.replace(path, data, 0o644)
        if parsed_args.output is not None:
            page = report.page(found, drawn).encode()
            files.replace(parsed_args.output, page, 0o644)
        return 0


def _print_measured(found: collection.Collection) -> None:
    print(f"== {found.label}")
    for line in collection.latency_text(found):
        print(line)
    command.print_table(network.COLUMNS, network.rows(found.network))
    command.print_table(
        disk.COLUMNS, disk.rows(found.disk), shown=_DISK_COLUMNS
    )


class Compare(command.Lister):
    """Print how one measurement differs from another."""

    epilog = (
        "Exit codes: 0 nothing is worse, 1 something is by more than its "
        "uncertainty, 2 they could not be compared."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the measurements."""
        parser.add_argument("before", type=pathlib.Path, metavar="BEFORE")
        parser.add_argument("after", type=pathlib.Path, metavar="AFTER")

    def find(self, args: argparse.Namespace) -> Found:
        """Return the differences."""
        before, after = collection.read((args.before, args.after))
        found = list(compare.differences(before, after))
        rows = [tuple(compare.row(each)) for each in found]
        emulated = before.emulated or after.emulated
        worse = any(each.worse for each in found)
        return Found(
            columns=compare.COLUMNS,
            rows=rows,
            document=[
                {
                    **dict(
                        zip(map(str.lower, compare.COLUMNS), row, strict=True)
                    ),
                    "emulated": emulated,
                }
                for row in rows
            ],
            after=[f"note: {_EMULATED}"] if emulated else (),
            code=EXIT_NO_CERTIFICATE if worse else 0,
        )


class Watch(command.Text):
    """Probe an idle isolated or a housekeeping CPU, again and again.

    A latency above its bound withdraws the certificate.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add how often, and for how long."""
        parser.add_argument(
            "--duration",
            type=_seconds,
            default=10,
            metavar="TIME",
            help="of each probe (default: 10s)",
        )
        parser.add_argument(
            "--interval",
            type=_seconds,
            default=20,
            metavar="TIME",
            help="from the end of a probe to the next (default: 20s)",
        )
        parser.add_argument(
            "--housekeeping",
            type=arguments.whole(1, 99_999_999),
            metavar="US",
            help="probe a housekeeping CPU in place of an isolated one; a "
            "latency above US µs withdraws the certificate",
        )
        parser.add_argument(
            "--once",
            action="store_true",
            help="probe once; exit 1 if the certificate was withdrawn",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Watch."""
        root = Root("/")
        emulated = conditions.emulated(root)
        if shutil.which(timerlat.PROGRAM) is None:
            raise errors.ToolsMissing([(timerlat.PROGRAM, "rtla")])
        if parsed_args.once:
            found = watch.probe(
                root,
                parsed_args.duration,
                results.LOCK,
                parsed_args.housekeeping,
            )
            print(found.said)
            if emulated:
                print(f"note: {_EMULATED}")
            return EXIT_NO_CERTIFICATE if found.withdrawn else 0
        _log_what_happens()
        if emulated:
            LOG.warning("%s", _EMULATED)
        watch.watch(
            root,
            parsed_args.duration,
            parsed_args.interval,
            results.LOCK,
            parsed_args.housekeeping,
        )
        return 0


def _log_what_happens() -> None:
    """Log more than warnings, unless -q, -v or --debug say what to log."""
    ours = logging.getLogger("sriov_rt")
    for each in ours.handlers:
        if each.level == logging.WARNING:
            each.setLevel(logging.INFO)
            ours.setLevel(logging.INFO)


class Guest(command.Lister):
    """Measure inside a realtime server or pod."""

    epilog = (
        "Exit codes: 0 it was measured, 1 it does not count, 2 it could not "
        "be measured."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to measure, and how."""
        parser.add_argument(
            "--profile",
            choices=tuple(PROFILES),
            default=DEFAULT_PROFILE,
            help="whose parameters (default: %(default)s)",
        )
        parser.add_argument(
            "--duration",
            type=_seconds,
            metavar="TIME",
            help="of each tool (default: the profile's)",
        )
        parser.add_argument(
            "--host",
            type=pathlib.Path,
            metavar="FILE",
            help="the host's latency certificate, to show its figures as well",
        )
        parser.add_argument(
            "--output",
            type=pathlib.Path,
            default=pathlib.Path("sriov-rt-guest"),
            metavar="DIR",
            help="where the results are kept (default: %(default)s)",
        )
        parser.add_argument(
            "--resume",
            action="store_true",
            help="keep what was measured in the same way since the last boot",
        )

    def find(self, args: argparse.Namespace) -> Found:
        """Measure, and return what was found."""
        root = Root("/")
        host = guest.host_certificate(args.host) if args.host else None
        profile = PROFILES[args.profile]
        if args.duration is not None:
            profile = profile.lasting(args.duration)
        profile = profile.without(tuple(set(Tool) - set(guest.TOOLS)))
        cpus = guest.cpus_of(root)
        load = LOADS["none"]
        if missing := list(latency.missing(profile, load)):
            raise errors.ToolsMissing(missing)
        args.output.mkdir(parents=True, exist_ok=True)
        show = _progress if sys.stderr.isatty() else None
        with results.exclusive(args.output / ".lock"):
            found = latency.LatencyRun(
                root, cpus, load, results.Results(args.output), show
            ).run(profile, resume=args.resume)
        measured = [each.measurement for each in found]
        problems = [
            f"{each.tool}: does not count: {problem}"
            for each in measured
            for problem in each.problems
        ]
        return Found(
            columns=guest.COLUMNS,
            rows=list(guest.rows(measured, host)),
            document=[
                {**each, "emulated": host.emulated if host else None}
                for each in codec.to_plain(tuple(measured))
            ],
            after=[*problems, f"note: {guest.note(host)}"],
            code=EXIT_NO_CERTIFICATE if problems else 0,
        )


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text):
        raise argparse.ArgumentTypeError(
            "letters, digits, '.', '_' and '-' expected"
        )
    return text


def _domain(text: str) -> str:
    if not hotplug.DOMAIN.fullmatch(text):
        raise argparse.ArgumentTypeError("a guest's name or UUID expected")
    return text


def _mebibytes(text: str) -> int:
    scale = {"m": 1, "g": 1024, "t": 1024 * 1024}.get(text[-1:].lower())
    if scale is None:
        raise argparse.ArgumentTypeError("a size such as 256m or 32g expected")
    return scale * arguments.whole(1, 2**30 // scale)(text[:-1])


def _checked(
    args: argparse.Namespace,
) -> tuple[Profile, latency.Cpus, Load]:
    """Return what is to be measured, and under which load.

    :raises ToolsMissing: if this host does not have what it takes.
    """
    profile, cpus = _profile(args), latency.cpus_of(Root("/"))
    load = LOADS[args.load]
    if args.hotplug is not None:
        if not load.stressors:
            raise errors.RunFailed("latency", "--hotplug needs another --load")
        load = load.with_hotplug(args.hotplug)
    if missing := list(latency.missing(profile, load)):
        raise errors.ToolsMissing(missing)
    return profile, cpus, load


def _profile(args: argparse.Namespace) -> Profile:
    profile = PROFILES[args.profile]
    if args.duration is not None:
        profile = profile.lasting(args.duration)
    return profile.without(tuple(map(Tool, args.skip)))


def _planned(
    profile: Profile, cpus: latency.Cpus, load: Load
) -> Iterator[str]:
    whole = sum(each.duration_s for each in profile.steps)
    yield f"profile {profile.name} ({profile.source}), load {load.name}"
    yield f"{latency.describe(cpus)}; {duration.format_duration(whole)}"
    for each in profile.steps:
        yield f"  {each.tool:10} {duration.format_duration(each.duration_s)}"
    if load.domain:
        found = hotplug.plan(load.domain)
        yield (
            f"guest {found.domain}: {found.vcpus} or {found.other} vCPUs, "
            f"changed every {hotplug.PAUSE_S} s"
        )


def _rows(
    found: Sequence[Measurement],
) -> Iterator[tuple[str, object, object, object]]:
    for run in found:
        for each in run.cpus:
            yield str(run.tool), each.cpu, each.max_us, each.samples
        if not run.cpus:
            yield str(run.tool), None, None, None


def _problems(found: Sequence[Measurement], emulated: bool) -> Iterator[str]:
    for run in found:
        for problem in run.problems:
            yield f"{run.tool}: does not count: {problem}"
    if emulated:
        yield f"note: {_EMULATED}"


def _verdict(
    issued: Certificate | None, refused: Sequence[str]
) -> Iterator[str]:
    if issued is None:
        yield "no certificate:"
        yield from (f"  {each}" for each in refused)
        return
    yield from _certified(issued, "")


def _certified(found: Certificate, why: str) -> Iterator[str]:
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.expires_at))
    yield f"certificate: {found.max_latency_us} µs, until {until} (/{PATH})"
    if why:
        yield f"it counts no more: {why}"


def _remarks(found: Certificate) -> Iterator[str]:
    """Yield what the table of a certificate does not show."""
    without: dict[str, list[int]] = {}
    for each in found.cpus:
        if each.estimate_refused:
            without.setdefault(each.estimate_refused, []).append(each.cpu)
    for why, cpus in without.items():
        listed = cpulist.format_cpu_list(CpuSet(cpus))
        yield f"no estimate for CPU {listed}: {why}"
    if found.emulated:
        yield f"note: {_EMULATED}"


def _cpu_rows(found: Certificate | None) -> list[tuple[object, ...]]:
    return [
        (
            each.cpu,
            each.max_us,
            each.samples,
            duration.format_duration(int(each.once_in_s)),
            each.estimate_us,
        )
        for each in (found.cpus if found else ())
    ]


def _progress(found: latency.Progress) -> None:
    left = duration.format_duration(int(found.left_s))
    print(f"\r{found.tool}: {left} left   ", end="", file=sys.stderr)


def _line(root: Root, path: str) -> str:
    found = root.read_text(path)
    return "" if isinstance(found, Unknown) else found.strip()
