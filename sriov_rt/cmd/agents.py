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

"""``sriov-rt agent``: the agents of a cloud, over the message queue."""

import argparse
import dataclasses
from typing import Any

from sriov_rt import exceptions
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd.command import Found
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.facts import HostFacts
from sriov_rt.host import readiness
from sriov_rt.host import table
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Exit code of a host that is not ready.
EXIT_NOT_READY = 1

READY = "ready"
NOT_READY = "not ready"
STALE = "stale"
MISSING = "no facts"


class HostSilent(exceptions.SriovRtError):
    """A host did not report in time.

    :param host: its name.
    :param wait_s: seconds that it had.
    """

    def __init__(self, host: str, wait_s: float) -> None:
        self.host = host
        super().__init__(
            f"host {host!r} did not report within {wait_s:g} s; 'sriov-rt "
            "agent list' names those that do, and on the host 'systemctl "
            "status sriov-rt-agent' says whether it runs"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """A host's agent, and what its facts amount to.

    :param verdict: :data:`READY`, :data:`NOT_READY`, :data:`STALE` or
        :data:`MISSING`.
    :param reasons: what keeps the host from realtime instances.
    """

    host: str
    version: str
    facts_age_s: float | None
    verdict: str
    reasons: tuple[Reason, ...]

    def to_plain(self) -> dict[str, Any]:
        """Return the agent as a JSON object."""
        return {
            "host": self.host,
            "version": self.version or None,
            "facts_age_s": self.facts_age_s,
            "verdict": self.verdict,
            "reasons": [each.to_plain() for each in self.reasons],
        }


def judge(candidate: Candidate) -> Agent:
    """Return a host's agent with its verdict."""
    facts, age_s = candidate.facts, candidate.age_s
    if facts is None:
        silent = (reason("facts_missing"),)
        return Agent(candidate.host, "", None, MISSING, silent)
    age_s = round(age_s or 0.0, 1)
    if age_s > candidate.max_age_s:
        verdict = STALE
        reasons: tuple[Reason, ...] = (
            reason(
                "facts_stale",
                age_s=round(age_s),
                max_age_s=round(candidate.max_age_s),
            ),
        )
    else:
        reasons = _reasons(facts)
        verdict = NOT_READY if reasons else READY
    return Agent(candidate.host, facts.version, age_s, verdict, reasons)


def _reasons(facts: HostFacts) -> tuple[Reason, ...]:
    # As of a nova-compute: an agent stands beside one.
    return readiness.judge(facts, placed_by_nova=True).must


class List(command.Lister):
    """List the hosts of a cloud, as their agents report them."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the message queue."""
        collect.configure(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return a row for each host."""
        connection, expected = cloud.connection(self.app), None
        if connection is not None:
            expected = cloud.hosts(faults.say, connection)
        found = [judge(each) for each in collect.from_args(args, expected)]
        return Found(
            columns=("Host", "Version", "Facts age", "Verdict", "Problems"),
            rows=[
                (
                    each.host,
                    each.version,
                    _age(each.facts_age_s),
                    each.verdict,
                    ", ".join(why.code for why in each.reasons),
                )
                for each in found
            ],
            document=[each.to_plain() for each in found],
        )


class Show(command.ShowOne):
    """Show a host, as its agent reports it: its verdict and every fact."""

    epilog = (
        "Exit codes: 0 the host is ready for realtime instances, 1 it is "
        "not, 2 it did not report."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the host and the message queue."""
        parser.add_argument("host", metavar="HOST", help="as Nova names it")
        collect.configure(parser)

    def find(self, args: argparse.Namespace) -> Found:
        """Return the host's facts."""
        (candidate,) = (
            each
            for each in collect.from_args(
                args, [args.host], lambda facts: facts
            )
            if each.host == args.host
        )
        if candidate.facts is None:
            raise HostSilent(args.host, args.wait)
        found = judge(candidate)
        problems = [
            (f"problem.{why.code}", why.message) for why in found.reasons
        ]
        return command.one(
            (
                ("host", found.host),
                ("version", found.version),
                ("facts_age", _age(found.facts_age_s)),
                ("verdict", found.verdict),
                *problems,
                *(
                    row
                    for row in table.rows(candidate.facts)
                    if row[0] not in ("host", "version")
                ),
            ),
            {**found.to_plain(), "facts": candidate.facts.to_plain()},
            code=0 if found.verdict == READY else EXIT_NOT_READY,
        )


def _age(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"
