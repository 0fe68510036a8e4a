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

"""``sriov-rt guest``: strip, pin and schedule a libvirt domain."""

import argparse
import json
import pathlib
import sys

from sriov_rt import facts as host_facts
from sriov_rt import request as requests
from sriov_rt.guest import document
from sriov_rt.guest import engine
from sriov_rt.guest.report import Report
from sriov_rt.parse import errors
from sriov_rt.parse import topology

EXIT_CHANGES = 1
EXIT_ERROR = 2
EXIT_REFUSED = 3

_EPILOG = (
    "Exit codes: 0 done (check: nothing to do), 1 check found something to "
    "do, 2 the arguments or the input are wrong, 3 the domain can't be made "
    "what is asked."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sriov-rt guest``."""
    parser.epilog = _EPILOG
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True
    )
    render = actions.add_parser(
        "render",
        help="write the domain as the extra specs want it",
        description="Read a domain from standard input and write it to "
        "standard output as the extra specs want it.",
        epilog=_EPILOG,
    )
    _add_inputs(render)
    render.add_argument(
        "--report",
        metavar="FILE",
        type=pathlib.Path,
        help="where the report goes, JSON; standard error by default",
    )
    render.add_argument(
        "--dry-run",
        action="store_true",
        help="write the report only, and no domain",
    )
    render.set_defaults(run=_render)
    check = actions.add_parser(
        "check",
        help="tell what the extra specs would change",
        description="Read a domain from standard input and tell what "
        "'render' would change in it.",
        epilog=_EPILOG,
    )
    _add_inputs(check)
    check.add_argument(
        "--json", action="store_true", help="print JSON and no table"
    )
    check.set_defaults(run=_check)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--extra-spec",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an extra spec of the flavor; may be given many times",
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


def _render(args: argparse.Namespace) -> int:
    try:
        rendered = _rendered(args)
    except engine.Refused as refused:
        return _refuse(refused)
    text = rendered.report.to_json() + "\n"
    if args.report is None:
        sys.stderr.write(text)
    elif not _write(args.report, text):
        return EXIT_ERROR
    if not args.dry_run:
        sys.stdout.write(rendered.xml + "\n")
    return 0


def _check(args: argparse.Namespace) -> int:
    try:
        report = _rendered(args).report
    except engine.Refused as refused:
        if args.json:
            reasons = [each.to_plain() for each in refused.reasons]
            print(json.dumps({"refused": reasons}, ensure_ascii=False))
        return _refuse(refused)
    print(report.to_json() if args.json else _table(report))
    return EXIT_CHANGES if report.changes else 0


def _rendered(args: argparse.Namespace) -> engine.Rendered:
    request = requests.parse(_extra_specs(args.extra_spec))
    facts = None
    if args.facts is not None:
        facts = host_facts.from_json(_read(args.facts))
    pinning = None
    if args.pinning is not None:
        pinning = topology.parse_pinning(args.pinning)
    # One byte more than is taken in shows that there is too much.
    xml = sys.stdin.buffer.read(document.MAX_DOCUMENT + 1)
    return engine.render(xml, request, facts, pinning)


def _extra_specs(given: list[str]) -> dict[str, str]:
    specs = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise errors.ParseError("extra spec", each, "KEY=VALUE expected")
        specs[key] = value
    return specs


def _read(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(host_facts.MAX_DOCUMENT + 1)
    except OSError as error:
        raise errors.ParseError(
            "facts file", str(path), f"can't be read ({error.strerror})"
        ) from None


def _write(path: pathlib.Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError as error:
        print(f"sriov-rt: error: {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _refuse(refused: engine.Refused) -> int:
    for each in refused.reasons:
        print(f"sriov-rt: refused: {each.message}", file=sys.stderr)
    return EXIT_REFUSED


def _table(report: Report) -> str:
    rows = [
        (change.action, f"{change.element} {change.detail}", change.why)
        for change in report.changes
    ]
    rows += [("left alone", note.message, "") for note in report.notes]
    if not rows:
        return "nothing to change"
    first = max(len(row[0]) for row in rows)
    second = max(len(row[1]) for row in rows if row[2] or len(rows) == 1)
    return "\n".join(
        f"{action:{first}}  {what:{second}}  {why}".rstrip()
        for action, what, why in rows
    )
