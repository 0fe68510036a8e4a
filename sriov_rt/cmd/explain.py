# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt explain``: which hosts satisfy a flavor, and why others don't."""

import argparse
import collections
import dataclasses
import itertools
import pathlib
import time
import uuid
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt import decide
from sriov_rt import exceptions
from sriov_rt import facts as host_facts
from sriov_rt import request as requests
from sriov_rt.cmd import arguments
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import host
from sriov_rt.cmd import paths
from sriov_rt.cmd.command import Result
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.cmd.verdict import Verdict
from sriov_rt.host import archive
from sriov_rt.reason import REMEDY
from sriov_rt.reason import Reason

#: Exit code if no host satisfies the flavor.
EXIT_NO_HOST = 1

EPILOG = (
    "Exit codes: 0 a host passes, listed or not, 1 none does, 2 the extra "
    "specs are invalid, or there is nothing to go by. The cloud is found as "
    "the openstack command finds it (clouds.yaml, OS_* variables); the "
    "message queue as nova-scheduler finds it (--config-file "
    "/etc/nova/nova.conf)."
)


#: Printed above the hosts of a flavor that is left to Nova.
_NOT_OURS = (
    "no extra spec begins with 'sriov_rt:': sriov-rt lets every host pass, "
    "and Nova alone places such servers"
)


class NetworkMalformed(exceptions.SriovRtError):
    """A network on the command line is not UUID[:PHYSNET]."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            f"--network {text!r}: UUID[:PHYSNET] expected, as 'openstack "
            "network show' shows them (id, provider:physical_network)"
        )


class FlavorInvalid(exceptions.SriovRtError):
    """A flavor of the cloud has invalid extra specs.

    :param name: the flavor's name as it was given.
    """

    def __init__(self, name: str, error: requests.RequestError) -> None:
        self.name = name
        self.problems = error.problems
        keys = " ".join(f"--property {key}" for key in error.problems)
        super().__init__(
            f"flavor {name!r} has extra specs that cannot be, so that no host "
            f"takes its servers: {error}; correct them with 'openstack "
            "--os-compute-api-version 2.86 flavor set', which refuses a bad "
            f"value, or remove them with 'openstack flavor unset {keys} "
            f"{name}'"
        )


class Explain(command.Lister):
    """Print which hosts satisfy a flavor, and why the others do not."""

    epilog = EPILOG

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the request and the hosts."""
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument(
            "--flavor",
            metavar="NAME",
            help="the name or id of a flavor of the cloud",
        )
        source.add_argument(
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
        parser.add_argument(
            "--sos",
            metavar="ARCHIVE|DIR",
            action="append",
            type=pathlib.Path,
            help="the host of a sosreport, or all of a must-gather or of a "
            "directory of archives; may be repeated. What they do not have is "
            "unknown",
        )
        arguments.add_host_filters(parser, "--not-passing", "do not pass")
        collect.configure(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the hosts with their Reasons."""
        connection, flavor = None, None
        specs = _extra_specs(args.extra_spec or ())
        if args.flavor is not None:
            connection = cloud.connection(self.caller)
            flavor = cloud.flavor(args.flavor, connection)
            specs = flavor.extra_specs
        try:
            request = requests.parse(specs)
        except requests.RequestError as error:
            if flavor is None:
                raise
            raise FlavorInvalid(args.flavor, error) from error
        request = dataclasses.replace(
            request,
            attachments=tuple(_attachment(each) for each in args.network),
        )
        is_ours = requests.asks(specs)
        for key in requests.misspelt(specs):
            faults.say(
                f"warning: nothing reads the extra spec {key!r}; sriov-rt's "
                "begin with 'sriov_rt:'"
            )
        verdicts = [
            _judge(request, flavor, each, args.wait)
            if is_ours
            else Verdict(each.host, (), each.archive)
            for each in _candidates(self.caller, args, connection)
        ]
        passes = any(each.passes for each in verdicts)
        shown = [each for each in verdicts if _is_chosen(each, args)]
        names = collections.Counter(each.host for each in verdicts)
        return Result(
            columns=("Host", "Passes", "Code", "Problem", "Remedy"),
            shown=("Host", "Passes", "Problem", "Remedy"),
            rows=[
                row
                for each in shown
                for row in each.rows(
                    named=bool(each.archive)
                    and (names[each.host] > 1 or each.host == host.UNNAMED)
                )
            ],
            before=() if is_ours else [_NOT_OURS],
            document=[each.to_plain() for each in shown],
            code=0 if passes else EXIT_NO_HOST,
        )


def _is_chosen(found: Verdict, args: argparse.Namespace) -> bool:
    """Return whether a host passes the filters of the list."""
    if args.not_passing and found.passes:
        return False
    return arguments.has_reason(found.reasons, args)


def _judge(
    request: requests.Request,
    flavor: cloud.Flavor | None,
    candidate: Candidate,
    wait_s: float,
) -> Verdict:
    view = decide.View(
        now=time.time(),
        facts_age_s=candidate.age_s,
        max_age_s=candidate.max_age_s,
        agents=candidate.agents,
    )
    reasons = decide.why_not(request, candidate.facts, view)
    if candidate.problem:
        reasons = tuple(_unusable(each, candidate.problem) for each in reasons)
    elif candidate.facts is None and not candidate.agents:
        # The host may be slow, and schedulers may have its facts.
        reasons = tuple(_not_heard(each, wait_s) for each in reasons)
    if flavor is not None:
        reasons += decide.why_never(
            request, flavor.vcpus, flavor.memory_mib, candidate.facts
        )
    if candidate.archive:
        reasons = tuple(map(archive.collected, reasons))
    return Verdict(candidate.host, reasons, candidate.archive)


def _unusable(found: Reason, problem: str) -> Reason:
    """Return the Reason for an archive from which no host can be read."""
    remedy = archive.ArchiveUnusable.remedy
    return dataclasses.replace(
        found, message=f"unknown: {problem}{REMEDY}{remedy}", remedy=remedy
    )


def _not_heard(found: Reason, wait_s: float) -> Reason:
    """Return the Reason for a host that has not reported to this command."""
    problem = (
        f"unknown: it has not reported within {wait_s:g} s, which does not "
        "mean that schedulers have no facts of it"
    )
    remedy = (
        f"run it again with --wait {max(60, 2 * wait_s):g}; if it stays "
        "silent, start sriov-rt-agent there and check that it reaches the "
        "message queue"
    )
    return dataclasses.replace(
        found, message=f"{problem}{REMEDY}{remedy}", remedy=remedy
    )


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
            raise exceptions.SriovRtError(
                f"--extra-spec {text!r}: KEY=VALUE expected, such as "
                "sriov_rt:realtime=required"
            )
        specs[key] = value
    return specs


def _archived(path: pathlib.Path) -> Iterator[Candidate]:
    """Yield the hosts of archives, including unusable ones."""
    for root in archive.hosts(path):
        if isinstance(root, archive.ArchiveUnusable):
            yield Candidate(
                host.UNNAMED,
                None,
                archive=root.path,
                problem=root.problem,
            )
            continue
        facts = host.observed(root)[0].facts
        yield Candidate(
            facts.host, host_facts.decisive(facts), archive=root.name
        )


def _candidates(
    caller: command.Caller, args: argparse.Namespace, connection: Any
) -> list[Candidate]:
    """Return the hosts to be judged: those of ``--host``, or all."""
    if args.facts or args.sos:
        found = [
            Candidate(facts.host, host_facts.decisive(facts))
            for path in args.facts or ()
            for facts in paths.facts_in(path)
        ]
        found += itertools.chain.from_iterable(map(_archived, args.sos or ()))
    else:
        names = args.host
        if names is None and args.flavor is not None:
            expected = cloud.hosts(faults.say, connection)
            names = None if expected is None else list(expected)
        found = collect.from_args(caller, args, names)
    return [
        each for each in found if args.host is None or each.host in args.host
    ]
