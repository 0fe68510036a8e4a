# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify latency`` and ``guest``: latency of CPUs."""

import argparse
import pathlib
import time
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from sriov_rt import codec
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import paths
from sriov_rt.cmd import progress
from sriov_rt.cmd import verify
from sriov_rt.cmd import verify_certificate
from sriov_rt.cmd.command import Result
from sriov_rt.codec import Unknown
from sriov_rt.facts.certificate import Certificate
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host import latency as host_latency
from sriov_rt.host.root import Root
from sriov_rt.parse import duration
from sriov_rt.verify import certificate
from sriov_rt.verify import errors
from sriov_rt.verify import figures
from sriov_rt.verify import guest
from sriov_rt.verify import hotplug
from sriov_rt.verify import latency
from sriov_rt.verify import packages
from sriov_rt.verify import results
from sriov_rt.verify import tools
from sriov_rt.verify.load import DEFAULT as DEFAULT_LOAD
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.load import Load
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Measurement
from sriov_rt.verify.profiles import DEFAULT as DEFAULT_PROFILE
from sriov_rt.verify.profiles import PROFILES
from sriov_rt.verify.profiles import Profile

_Earned = tuple[
    Sequence[Measurement], bool, Certificate | None, tuple[str, ...]
]


def _add_profile(parser: argparse.ArgumentParser, what: str) -> None:
    """Add options for the profile and its duration.

    :param what: what the profile determines.
    """
    parser.add_argument(
        "--profile",
        choices=tuple(PROFILES),
        default=DEFAULT_PROFILE,
        help=f"the profile that gives {what} (default: %(default)s)",
    )
    verify.add_duration(
        parser, "each tool, such as 15m or 12h (default: the profile's)"
    )


class Latency(verify.Measure):
    """Measure the isolated CPUs under load, and write a certificate."""

    epilog = verify_certificate.EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to measure, and how."""
        _add_profile(parser, "tools and parameters")
        parser.add_argument(
            "--load",
            choices=tuple(LOADS),
            default=DEFAULT_LOAD,
            help="load on the housekeeping CPUs; 'none' earns no "
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
            choices=tuple(tools.TOOLS),
            default=[],
            help="a tool to leave out; may be repeated",
        )
        parser.add_argument(
            "--bound",
            type=arguments.whole(1, 99_999_999),
            metavar="US",
            help="look for the culprits of the worst samples above US µs; "
            "the CPUs are traced meanwhile (default: none)",
        )
        verify.add_output(parser)
        parser.add_argument(
            "--validity",
            type=verify.duration_s,
            default=certificate.VALIDITY_S,
            metavar="TIME",
            help="how long the certificate counts (default: 30d)",
        )
        parser.add_argument(
            "--min-duration",
            type=verify.duration_s,
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

    def measure(self, args: argparse.Namespace) -> Result:
        """Measure, and return what was found."""
        profile, cpus, load, left_out = _checked(args)
        certificate.prepare(Root("/").path)
        paths.make_directory(args.output)
        # A probe that withdraws a certificate takes the lock as well.
        with (
            results.exclusive(),
            progress.Line(is_quiet=self.caller.is_quiet) as line,
        ):
            measured, emulated, issued, refused = _earn(
                args, profile, cpus, load, line
            )
        return Result(
            columns=("Tool", "CPU", "Max µs", "Samples"),
            rows=list(_rows(measured)),
            document={
                "measurements": codec.to_plain(tuple(measured)),
                "certificate": codec.to_plain(issued) if issued else None,
                "refused": list(refused),
                "left_out": list(left_out),
                "emulated": emulated,
            },
            after=[
                *left_out,
                *_problems(measured, emulated),
                *_verdict(issued, refused),
            ],
            code=_code(measured, 0 if issued else verify.EXIT_NO_CERTIFICATE),
        )


class Guest(command.Lister):
    """Measure inside a realtime server or pod."""

    epilog = (
        "Exit codes: 0 it was measured, 1 it does not count, 2 it could not "
        "be measured."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add what to measure, and how."""
        _add_profile(parser, "parameters")
        parser.add_argument(
            "--host",
            type=pathlib.Path,
            metavar="FILE",
            help="the host's latency certificate, to show its figures as well",
        )
        verify.add_output(parser, pathlib.Path("sriov-rt-guest"))
        parser.add_argument(
            "--resume",
            action="store_true",
            help="reuse results of the same measurement since the last boot",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Measure, and return what was found."""
        root = Root("/")
        host = guest.host_certificate(args.host) if args.host else None
        profile = PROFILES[args.profile]
        if args.duration is not None:
            profile = profile.lasting(args.duration)
        profile = profile.without(tools.TOOLS.keys() - tools.IN_GUESTS)
        cpus = guest.cpus_of(root)
        load = LOADS["none"]
        if missing := list(latency.missing(profile, load)):
            raise errors.ToolsMissing(missing)
        paths.make_directory(args.output)
        with (
            results.exclusive(args.output / ".lock"),
            progress.Line(is_quiet=self.caller.is_quiet) as line,
        ):
            found = latency.LatencyRun(
                root, cpus, load, results.Results(args.output), line.latency
            ).run(profile, resume=args.resume)
        measured = [each.measurement for each in found]
        problems = [
            f"{each.tool}: does not count: {problem}"
            for each in measured
            for problem in each.problems
        ]
        return Result(
            columns=guest.COLUMNS,
            rows=list(guest.rows(measured, host)),
            document=[
                {**each, "emulated": host.emulated if host else None}
                for each in codec.to_plain(tuple(measured))
            ],
            after=[*problems, f"note: {guest.note(host)}"],
            code=_code(
                measured, verify.EXIT_NO_CERTIFICATE if problems else 0
            ),
        )


def _code(found: Sequence[Measurement], code: int) -> int:
    """Return an exit code, or that of a measurement that Ctrl-C ended."""
    if any(latency.INTERRUPTED in each.problems for each in found):
        return verify.say_interrupted()
    return code


def _earn(
    args: argparse.Namespace,
    profile: Profile,
    cpus: Cpus,
    load: Load,
    line: progress.Line,
) -> _Earned:
    """Measure this host, and write the certificate that it earns.

    :returns: the measurements, whether the host is emulated, the
        certificate, and the reasons if there is none.
    """
    root = Root("/")
    nova_files = compute.named_files(root)
    nova = compute.observe(root, nova_files)
    before = conditions.observe(root, nova, boot=args.per_boot)
    found = latency.LatencyRun(
        root,
        cpus,
        load,
        results.Results(args.output),
        line.latency,
        host_latency.withdrawn_at(root),
        nova_files,
        args.bound,
    ).run(profile, resume=args.resume)
    measured = [each.measurement for each in found]
    installed = packages.observe(root)
    subject = certificate.Subject(
        host=_line(root, "proc/sys/kernel/hostname"),
        kernel=_line(root, "proc/sys/kernel/osrelease"),
        cpus=cpus.measured,
        before=before,
        after=conditions.observe(root, nova, boot=args.per_boot),
        emulated=conditions.emulated(root),
        packages=() if isinstance(installed, Unknown) else installed,
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
    figures.keep(root.path, issued.issued_at, found)
    return measured, subject.emulated, issued, ()


def _domain(text: str) -> str:
    if not hotplug.DOMAIN.fullmatch(text):
        raise argparse.ArgumentTypeError("a guest's name or UUID expected")
    return text


def _checked(
    args: argparse.Namespace,
) -> tuple[Profile, Cpus, Load, tuple[str, ...]]:
    """Return what to measure, under which load, and what is left out.

    :raises CpusOffline: if CPUs of guests are offline.
    :raises ToolsMissing: if programs are not installed.
    """
    root = Root("/")
    profile, cpus = _profile(args), latency.cpus_of(root)
    latency.check_online(root, cpus, compute.named_files(root))
    load = LOADS[args.load]
    if args.hotplug is not None:
        if not load.stressors:
            raise errors.RunFailed("latency", "--hotplug needs another --load")
        load = load.with_hotplug(args.hotplug)
    profile, left_out = latency.without_tracers(profile, root)
    if missing := list(latency.missing(profile, load)):
        raise errors.ToolsMissing(missing)
    return profile, cpus, load, left_out


def _profile(args: argparse.Namespace) -> Profile:
    profile = PROFILES[args.profile]
    if args.duration is not None:
        profile = profile.lasting(args.duration)
    return profile.without(args.skip)


def _planned(
    profile: Profile, cpus: Cpus, load: Load, left_out: Sequence[str]
) -> Iterator[str]:
    whole = sum(each.duration_s for each in profile.steps)
    yield f"profile {profile.name} ({profile.source}), load {load.name}"
    yield f"{latency.describe(cpus)}; {duration.format_duration(whole)}"
    for each in profile.steps:
        yield f"  {each.tool:10} {duration.format_duration(each.duration_s)}"
    yield from left_out
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
        for each in run.culprits:
            yield f"{run.tool}: {each.of_sample}"
    if emulated:
        yield f"note: {verify.EMULATED}"


def _verdict(
    issued: Certificate | None, refused: Sequence[str]
) -> Iterator[str]:
    if issued is None:
        yield "no certificate:"
        yield from (f"  {each}" for each in refused)
        return
    yield from verify_certificate.certified(issued, "")


def _line(root: Root, path: str) -> str:
    found = root.read_text(path)
    return "" if isinstance(found, Unknown) else found.strip()
