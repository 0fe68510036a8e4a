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

"""A libvirt domain made as extra specs request: without cliff.

A domain waits for it while it starts: see :mod:`sriov_rt.cmd.hook`.
"""

import argparse
import pathlib
import sys

from sriov_rt import facts as host_facts
from sriov_rt import request as requests
from sriov_rt.cmd import faults
from sriov_rt.guest import engine
from sriov_rt.guest.domain import MAX_DOCUMENT
from sriov_rt.parse import errors
from sriov_rt.parse.pinning import parse_pinning

EXIT_REFUSED = 3

EPILOG = (
    "Exit codes: 0 done (check: nothing to do), 1 check found something to "
    "do, 2 the arguments or the input are wrong, 3 the domain can't be made "
    "what is requested."
)

_STDIN = "-"


def configure_render(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``guest render``."""
    add_inputs(parser)
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=pathlib.Path,
        help="where the report goes, JSON; standard error by default",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write the report only, and no domain",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add a domain and what it is to become."""
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


def render(args: argparse.Namespace) -> int:
    """Write a domain and its report, and return the exit code."""
    try:
        found = rendered(args)
    except engine.Refused as refused:
        return refuse(refused)
    text = found.report.to_json() + "\n"
    if args.report is None:
        sys.stderr.write(text)
    elif not _write(args.report, text):
        return faults.EXIT_ERROR
    if not args.dry_run:
        sys.stdout.write(found.xml + "\n")
    return 0


def rendered(args: argparse.Namespace) -> engine.Rendered:
    """Return the domain with what was done to it."""
    request = requests.parse(_extra_specs(args.extra_spec))
    facts = None
    if args.facts is not None:
        facts = host_facts.from_json(
            _read(args.facts, "facts file", host_facts.MAX_DOCUMENT)
        )
    pinning = None
    if args.pinning is not None:
        pinning = parse_pinning(args.pinning)
    if args.domain == _STDIN:
        xml = sys.stdin.buffer.read(MAX_DOCUMENT + 1)
    else:
        path = pathlib.Path(args.domain)
        xml = _read(path, "domain file", MAX_DOCUMENT)
    return engine.render(xml, request, facts, pinning)


def _extra_specs(given: list[str]) -> dict[str, str]:
    specs = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise errors.ParseError("extra spec", each, "KEY=VALUE expected")
        specs[key] = value
    return specs


def _read(path: pathlib.Path, what: str, limit: int) -> bytes:
    """Return what is in a file, one byte more than the limit at the most.

    That byte shows whoever parses it that there is too much.
    """
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise errors.ParseError(
            what, str(path), f"can't be read ({error.strerror})"
        ) from None


def _write(path: pathlib.Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError as error:
        faults.say(f"error: {path}: {error.strerror}")
        return False
    return True


def refuse(refused: engine.Refused) -> int:
    """Print why a domain cannot be, and return the exit code."""
    for each in refused.reasons:
        faults.say(f"refused: {each.message}")
    return EXIT_REFUSED
