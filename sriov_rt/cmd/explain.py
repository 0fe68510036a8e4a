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

"""``sriov-rt explain``: which hosts satisfy a flavor, and why others don't."""

import argparse
import dataclasses
import json
import pathlib
import sys
import time
import uuid
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt import decide
from sriov_rt import exceptions
from sriov_rt import facts as host_facts
from sriov_rt import request as requests
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.cmd.verdict import Verdict
from sriov_rt.cmd.verdict import lines

#: Exit code if no host satisfies the flavor.
EXIT_NO_HOST = 1

#: Seconds that agents have to report. Their answers are spread over 2 s.
WAIT_S = 6.0

_EPILOG = (
    "Exit codes: 0 a host passes, 1 none does, 2 the extra specs are "
    "invalid, or there is nothing to go by. The cloud is found as the "
    "openstack command finds it (clouds.yaml, OS_* variables); the message "
    "queue as nova-scheduler finds it (--config-file /etc/nova/nova.conf)."
)


class FactsUnusable(exceptions.SriovRtError):
    """A file or directory of facts can't be used.

    :param path: as it was given.
    :param problem: a clause.
    """

    def __init__(self, path: pathlib.Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"{path}: {problem}; give what 'sriov-rt host show --json' prints"
        )


class ExtraSpecMalformed(exceptions.SriovRtError):
    """An extra spec on the command line is not KEY=VALUE."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            f"--extra-spec {text!r}: KEY=VALUE expected, such as "
            "sriov_rt:realtime=required"
        )


class NetworkMalformed(exceptions.SriovRtError):
    """A network on the command line is not UUID[:PHYSNET]."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            f"--network {text!r}: UUID[:PHYSNET] expected, as 'openstack "
            "network show' tells them (id, provider:physical_network)"
        )


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sriov-rt explain``."""
    parser.epilog = _EPILOG
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--flavor",
        metavar="NAME",
        help="the name or id of a flavor of the cloud",
    )
    asked.add_argument(
        "--extra-spec",
        metavar="KEY=VALUE",
        action="append",
        help="an extra spec of a flavor that need not exist; may be repeated",
    )
    parser.add_argument(
        "--network",
        metavar="UUID[:PHYSNET]",
        action="append",
        default=[],
        help="a network that the instance is to have a port on, and its "
        "physical network; may be repeated. Hosts are then judged by the "
        "same-host rule of Onload too",
    )
    _add_hosts(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--facts",
        metavar="FILE|DIR",
        action="append",
        type=pathlib.Path,
        help="a host, as 'sriov-rt host show --json' prints it, or a "
        "directory of *.json files; may be repeated. Without it, the agents "
        "are asked",
    )
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        help="a configuration file that names the message queue",
    )
    parser.add_argument(
        "--transport-url",
        metavar="URL",
        help="the message queue on which the agents report",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=WAIT_S,
        help="how long agents have to report (default: %(default)g)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("0 to 3600 seconds expected")
    return seconds


def _run(args: argparse.Namespace) -> int:
    if args.flavor is None:
        specs: Mapping[str, str] = _extra_specs(args.extra_spec)
    else:
        from sriov_rt.cmd import cloud

        specs = cloud.extra_specs(args.flavor)
    request = dataclasses.replace(
        requests.parse(specs),
        attachments=tuple(_attachment(each) for each in args.network),
    )
    verdicts = [_judge(request, each) for each in _candidates(args)]
    if args.json:
        plain = [each.to_plain() for each in verdicts]
        print(json.dumps(plain, indent=2, ensure_ascii=False))
    else:
        print("\n".join(lines(verdicts)))
    return 0 if any(each.passes for each in verdicts) else EXIT_NO_HOST


def _judge(request: requests.Request, candidate: Candidate) -> Verdict:
    view = decide.View(
        now=time.time(),
        facts_age_s=candidate.age_s,
        max_age_s=candidate.max_age_s,
    )
    reasons = decide.why_not(request, candidate.facts, view)
    return Verdict(candidate.host, reasons)


def _attachment(text: str) -> requests.Attachment:
    network, colon, physical = text.partition(":")
    try:
        name = str(uuid.UUID(network))
    except ValueError:
        raise NetworkMalformed(text) from None
    if colon and not physical:
        raise NetworkMalformed(text)
    return requests.Attachment(name, physical or None)


def _extra_specs(given: Iterable[str]) -> dict[str, str]:
    specs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ExtraSpecMalformed(text)
        specs[key] = value
    return specs


def _candidates(args: argparse.Namespace) -> list[Candidate]:
    if args.facts:
        return [
            Candidate(facts.host, facts)
            for path in args.facts
            for facts in _read(path)
        ]
    from sriov_rt.cmd import cloud
    from sriov_rt.cmd import collect

    expected = None if args.flavor is None else cloud.hosts(_tell)
    return collect.collect(
        expected,
        config_files=args.config_file,
        transport_url=args.transport_url,
        wait_s=args.wait,
        tell=_tell,
    )


def _read(path: pathlib.Path) -> Iterator[host_facts.HostFacts]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise FactsUnusable(path, "no *.json file in this directory")
    for file in files:
        try:
            with file.open("rb") as source:
                # One byte more than is taken in shows that it is too much.
                text = source.read(host_facts.MAX_DOCUMENT + 1)
            yield host_facts.from_json(text)
        except OSError as error:
            raise FactsUnusable(file, f"{error.strerror}") from None
        except codec.SchemaError as error:
            raise FactsUnusable(file, str(error)) from None


def _tell(text: str) -> None:
    print(f"sriov-rt: {text}", file=sys.stderr, flush=True)
