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
import pathlib
import time
import uuid
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt import codec
from sriov_rt import decide
from sriov_rt import exceptions
from sriov_rt import facts as host_facts
from sriov_rt import request as requests
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Found
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.cmd.verdict import Verdict

#: Exit code if no host satisfies the flavor.
EXIT_NO_HOST = 1

EPILOG = (
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
            "network show' shows them (id, provider:physical_network)"
        )


class Explain(command.Lister):
    """Print which hosts satisfy a flavor, and why the others do not."""

    epilog = EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the request and the hosts."""
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
            help="an extra spec of a flavor that need not exist; may be "
            "repeated",
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
        parser.add_argument(
            "--facts",
            metavar="FILE|DIR",
            action="append",
            type=pathlib.Path,
            help="a host, as 'sriov-rt host show --json' prints it, or a "
            "directory of *.json files; may be repeated. By default the "
            "agents report theirs",
        )
        collect.configure(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the hosts with their Reasons."""
        connection, specs = None, _extra_specs(args.extra_spec or ())
        if args.flavor is not None:
            connection = cloud.connection(self.app)
            specs = cloud.extra_specs(args.flavor, connection)
        request = dataclasses.replace(
            requests.parse(specs),
            attachments=tuple(_attachment(each) for each in args.network),
        )
        verdicts = [
            _judge(request, each) for each in _candidates(args, connection)
        ]
        passes = any(each.passes for each in verdicts)
        return Found(
            columns=("Host", "Passes", "Code", "Problem", "Remedy"),
            shown=("Host", "Passes", "Problem", "Remedy"),
            rows=[row for each in verdicts for row in each.rows()],
            document=[each.to_plain() for each in verdicts],
            code=0 if passes else EXIT_NO_HOST,
        )


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


def _extra_specs(given: Iterable[str]) -> Mapping[str, str]:
    specs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ExtraSpecMalformed(text)
        specs[key] = value
    return specs


def _candidates(args: argparse.Namespace, connection: Any) -> list[Candidate]:
    if args.facts:
        return [
            Candidate(facts.host, facts)
            for path in args.facts
            for facts in _read(path)
        ]
    expected = None
    if args.flavor is not None:
        expected = cloud.hosts(faults.say, connection)
    return collect.from_args(args, expected)


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
