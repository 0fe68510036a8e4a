# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt verify certificate`` and ``watch``: the certificate in use."""

import argparse
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Iterator

from sriov_rt import codec
from sriov_rt.cmd import arguments
from sriov_rt.cmd import command
from sriov_rt.cmd import verify
from sriov_rt.cmd.command import Result
from sriov_rt.codec import Unknown
from sriov_rt.facts.certificate import PATH
from sriov_rt.facts.certificate import Certificate
from sriov_rt.facts.culprit import Culprit
from sriov_rt.host import compute
from sriov_rt.host import conditions
from sriov_rt.host import latency as host_latency
from sriov_rt.host.root import Root
from sriov_rt.parse import cpulist
from sriov_rt.parse import duration
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.text import printable
from sriov_rt.verify import errors
from sriov_rt.verify import guest
from sriov_rt.verify import results
from sriov_rt.verify import watch
from sriov_rt.verify.timerlat import Timerlat

LOG = logging.getLogger(__name__)

EPILOG = (
    "Exit codes: 0 the host has earned (or has) a certificate, 1 it has not, "
    "2 it could not be measured."
)

#: Columns for each CPU. At 95 %, a latency above the maximum comes less than
#: once in the given time; the estimate is for a run of the same length.
_CPU_COLUMNS = ("CPU", "Max µs", "Samples", "Worse once in", "Estimate µs")


class ShowCertificate(command.Lister):
    """Print the certificate of this host, and whether it counts."""

    epilog = EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add a certificate of another host."""
        parser.add_argument(
            "--file",
            type=pathlib.Path,
            metavar="FILE",
            help="judge the certificate of another host by itself: whether it "
            "was edited, expired or withdrawn; this host is not looked at",
        )

    def run(self, args: argparse.Namespace) -> Result:
        """Return the certificate, a row for each CPU."""
        root = Root("/")
        place = f"/{PATH}"
        why = ""
        found: Certificate | None | Unknown
        if args.file is not None:
            place = str(args.file)
            found = guest.host_certificate(args.file)
            why = host_latency.Status(found, None, "").withdrawn
        else:
            found = host_latency.read(root)
        if isinstance(found, Unknown):
            raise errors.CertificateUnusable(found.reason)
        if found is not None and args.file is None:
            nova = compute.observe(root)
            status = host_latency.status(found, root, nova)
            why = status.withdrawn
            if status.changes and os.geteuid() == 0:
                # Withdraw it even if the change is undone later.
                watch.record(found, status.withdrawal, root, results.LOCK)
        if found and not why and found.expires_at <= time.time():
            why = "it has expired"
        counts = found is not None and not why
        if found is None:
            why = "no certificate; measure with 'sriov-rt verify latency'"
            lines = [why]
        else:
            lines = list(certified(found, why, place))
            if args.file is not None:
                lines.insert(1, _of_where(found))
        return Result(
            columns=_CPU_COLUMNS,
            rows=_cpu_rows(found),
            document={
                "certificate": codec.to_plain(found) if found else None,
                "counts": counts,
                "why_not": why,
            },
            before=lines,
            after=list(_remarks(found)) if found else (),
            code=0 if counts else verify.EXIT_NO_CERTIFICATE,
        )


class Watch(command.Lister):
    """Probe an idle isolated or a housekeeping CPU at intervals.

    A latency above its bound withdraws the certificate.
    """

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add how often, and for how long."""
        verify.add_duration(parser, "each probe (default: 10s)", 10)
        parser.add_argument(
            "--interval",
            type=verify.duration_s,
            default=20,
            metavar="TIME",
            help="the time from the end of a probe to the next (default: 20s)",
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

    def run(self, args: argparse.Namespace) -> Result:
        """Return the result of one probe, or watch."""
        root = Root("/")
        emulated = conditions.emulated(root)
        if shutil.which(Timerlat.program) is None:
            raise errors.ToolsMissing([(Timerlat.program, Timerlat.package)])
        if args.once:
            found = watch.probe(
                root,
                args.duration,
                results.LOCK,
                args.housekeeping,
                compute.named_files(root),
            )
            document = {
                "cpu": found.cpu,
                "max_us": found.max_us,
                "message": found.said,
                "withdrawn": found.withdrawn,
                "culprit": (
                    codec.to_plain(found.culprit) if found.culprit else None
                ),
                "emulated": emulated,
            }
            note = [f"note: {verify.EMULATED}"] if emulated else []
            note = [*_culprit(found.culprit), *note]
            return command.one(
                document.items(),
                document,
                text=list(map(printable, (found.said, *note))),
                code=verify.EXIT_NO_CERTIFICATE if found.withdrawn else 0,
            )
        _log_what_happens()
        if emulated:
            LOG.warning("%s", verify.EMULATED)
        files = compute.named_files(root)
        return command.lines(
            (),
            apply=lambda: watch.watch(
                root,
                args.duration,
                args.interval,
                results.LOCK,
                args.housekeeping,
                files,
            ),
        )


def _log_what_happens() -> None:
    """Log more than warnings, unless -q, -v or --debug say what to log."""
    ours = logging.getLogger("sriov_rt")
    for each in ours.handlers:
        if each.level == logging.WARNING:
            each.setLevel(logging.INFO)
            ours.setLevel(logging.INFO)


def _of_where(found: Certificate) -> str:
    """Return a certificate's description of its measurement, as a line."""
    return (
        f"of {found.host}, kernel {found.kernel}, measured by profile "
        f"{found.profile} under load {found.load}"
    )


def certified(
    found: Certificate, why: str, place: str = f"/{PATH}"
) -> Iterator[str]:
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(found.expires_at))
    yield f"certificate: {found.max_latency_us} µs, until {until} ({place})"
    if why:
        yield f"it counts no more: {why}"
    yield from _culprit(found.culprit)


def _culprit(found: Culprit | None) -> Iterator[str]:
    if found is not None:
        yield f"culprit: {found.sentence}"
        yield from (f"  in {each}" for each in found.stack)


def _remarks(found: Certificate) -> Iterator[str]:
    """Yield remarks on a certificate that its table does not show."""
    without: dict[str, list[int]] = {}
    for each in found.cpus:
        if each.estimate_refused:
            without.setdefault(each.estimate_refused, []).append(each.cpu)
    for why, cpus in without.items():
        listed = cpulist.format_cpu_list(CpuSet(cpus))
        yield f"no estimate for CPU {listed}: {why}"
    if found.emulated:
        yield f"note: {verify.EMULATED}"


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
