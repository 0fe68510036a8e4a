# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt guest``: domains as extra specs request them."""

import argparse
import json
import pathlib
import sys

from sriov_rt import request as requests
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import paths
from sriov_rt.cmd.command import Result
from sriov_rt.guest import engine
from sriov_rt.guest import metadata
from sriov_rt.guest import thread_plan
from sriov_rt.guest.domain import MAX_DOCUMENT
from sriov_rt.guest.domain import parse_domain
from sriov_rt.guest.report import Report
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse.pinning import parse_pinning
from sriov_rt.request.guest_request import GuestRequest

EXIT_CHANGES = 1
EXIT_REFUSED = 3

_EPILOG = (
    "Exit codes: 0 done (check: nothing to do), 1 check found something to "
    "do, 2 the arguments or the input are wrong, 3 the domain can't be made "
    "what is requested."
)

_STDIN = "-"


class Render(command.ShowOne):
    """Write a domain as the extra specs request.

    It is read from a file or standard input, and written to standard output.
    """

    epilog = _EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the domain, the request and where the report goes."""
        _add_inputs(parser)
        parser.add_argument(
            "--report",
            metavar="FILE",
            type=pathlib.Path,
            help="where the report goes, JSON; standard error by default",
        )
        command.add_dry_run(parser, "the report only, and no domain")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the domain, once its report is written."""
        try:
            found = _rendered(args)
        except engine.Refused as refused:
            return _refused(refused)
        report = found.report.to_json()
        if args.report is None:
            sys.stderr.write(report + "\n")
        else:
            paths.write(args.report, f"{report}\n".encode())
        xml = None if args.dry_run else found.xml
        return command.one(
            [("domain", xml), ("report", report)],
            {"domain": xml, "report": json.loads(report)},
            shown=("domain",),
            text=() if xml is None else (xml,),
        )


class Check(command.Lister):
    """Print what 'guest render' would change in a domain."""

    epilog = _EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the domain and the request."""
        _add_inputs(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the changes, or why there can be none."""
        try:
            report = _rendered(args).report
        except engine.Refused as refused:
            return _refused(refused)
        return _changes(report)


def _changes(report: Report) -> Result:
    rows = [
        (each.action, each.element, each.detail, each.why)
        for each in report.changes
    ]
    rows += [("left alone", "", "", note.message) for note in report.notes]
    return Result(
        columns=("Action", "Element", "Detail", "Why"),
        rows=rows,
        document=json.loads(report.to_json()),
        before=() if rows else ("nothing to change",),
        code=EXIT_CHANGES if report.changes else 0,
    )


def _refused(refused: engine.Refused) -> Result:
    """Print why a domain is refused, and return the Reasons."""
    for each in refused.reasons:
        faults.say(f"refused: {each.message}")
    reasons = [each.to_plain() for each in refused.reasons]
    return command.one(
        [("refused", "\n".join(each.message for each in refused.reasons))],
        {"refused": reasons},
        text=(),
        code=EXIT_REFUSED,
    )


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add arguments for a domain and what is requested of it."""
    parser.add_argument(
        "domain",
        metavar="FILE",
        nargs="?",
        default=_STDIN,
        help="the domain XML; '-' or none is standard input",
    )
    parser.add_argument(
        "--extra-spec",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an extra spec of the flavor; may be given many times (default: "
        "the request in the domain's own metadata)",
    )
    parser.add_argument(
        "--facts",
        metavar="FILE",
        type=pathlib.Path,
        help="the host, as 'sriov-rt host show --json' prints it; without "
        "it, what needs it is left alone",
    )
    parser.add_argument(
        "--pinning",
        metavar="V#P_V#P",
        help="pCPUs of the vCPUs of a domain without pins, such as 0#6_1#7",
    )


def _rendered(args: argparse.Namespace) -> engine.Rendered:
    """Return the rendered domain with its report."""
    facts = None
    if args.facts is not None:
        facts = paths.facts(args.facts)
    if args.domain == _STDIN:
        xml = faults.read_input("a libvirt domain", MAX_DOCUMENT)
    else:
        path = pathlib.Path(args.domain)
        xml = paths.read(path, MAX_DOCUMENT, "the XML of a libvirt domain")
    given = _requested(args, xml)
    pinning = given.pinning if args.pinning is None else args.pinning
    return engine.render(
        xml,
        requests.parse(given.extra_specs),
        facts,
        None if pinning is None else parse_pinning(pinning),
    )


def _requested(args: argparse.Namespace, xml: bytes) -> GuestRequest:
    """Return the request in the command line, or that in the domain."""
    if args.extra_spec:
        return GuestRequest(_extra_specs(args.extra_spec), args.pinning)
    return metadata.requested(parse_domain(xml)) or GuestRequest({})


def _extra_specs(given: list[str]) -> dict[str, str]:
    specs = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise errors.ParseError("extra spec", each, "KEY=VALUE expected")
        specs[key] = value
    return specs


class Repin(command.Lister):
    """Bring the threads of a running guest back to where its domain has them.

    Prints the changes first, carries them out, and reads them back.
    """

    of_root = True
    nothing = "every thread is as the domain has it"
    epilog = (
        "Exit codes: 0 every thread is as the domain has it, 1 --dry-run "
        "found something to change, 2 a change failed."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the instance."""
        parser.add_argument(
            "instance", metavar="UUID", help="the UUID of the instance"
        )
        command.add_dry_run(parser, "the changes")

    def run(self, args: argparse.Namespace) -> Result:
        """Return the changes, and how to carry them out."""
        root = Root()
        guest = thread_plan.find(root, args.instance.lower())
        steps = thread_plan.plan(thread_plan.observe(root, guest))
        is_dry = bool(args.dry_run) or not steps
        return Result(
            columns=("Thread", "Role", "CPUs", "Schedule"),
            rows=[each.row() for each in steps],
            document=[each.to_plain() for each in steps],
            code=EXIT_CHANGES if steps and args.dry_run else 0,
            apply=(
                None
                if is_dry
                else lambda: thread_plan.apply(root, guest, steps)
            ),
        )
