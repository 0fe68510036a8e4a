# SPDX-License-Identifier: Apache-2.0

"""``sriov-rt agent``: the agents of a cloud, read from the message queue."""

import argparse
import dataclasses
import datetime
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt import codec
from sriov_rt import decide
from sriov_rt import exceptions
from sriov_rt.cmd import arguments
from sriov_rt.cmd import cloud
from sriov_rt.cmd import collect
from sriov_rt.cmd import command
from sriov_rt.cmd import faults
from sriov_rt.cmd import fleet
from sriov_rt.cmd.command import Result
from sriov_rt.cmd.verdict import Candidate
from sriov_rt.codec import Unknown
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts.guests import AuditFacts
from sriov_rt.host import readiness
from sriov_rt.host import table
from sriov_rt.placement import host_traits
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Exit code of a host that is not ready.
EXIT_NOT_READY = 1

READY = "ready"
NOT_READY = "not ready"
STALE = "stale"
MISSING = "no facts"

#: Word for :data:`MISSING` in a table, as in Nova's list of services.
DOWN = "down"

_NO_QUEUE = (
    "no configuration names the message queue: each verdict is a trait that "
    "the host's agent has published in Placement; facts, their age and the "
    "problems of a host need --config-file or --transport-url"
)

_NO_CREDENTIALS = (
    "hosts whose agent is silent are not listed: only Nova names them, and "
    "no credentials are set (OS_CLOUD, or the OS_* variables)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """A host's agent, and the verdict on its facts.

    :param verdict: :data:`READY`, :data:`NOT_READY`, :data:`STALE` or
        :data:`MISSING`.
    :param reasons: why the host cannot take realtime instances.
    :param traits: traits that its agent has published in Placement; None if
        its facts are known.
    :param compute: its nova-compute; None without credentials, or if Nova has
        no such host.
    :param upkeep: what maintenance changes on it; None unless that is listed.
    """

    host: str
    version: str
    facts_age_s: float | None
    verdict: str
    reasons: tuple[Reason, ...]
    compute: cloud.ComputeService | None = None
    traits: tuple[str, ...] | None = None
    upkeep: fleet.Upkeep | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the agent as a JSON object."""
        return {
            "host": self.host,
            "version": self.version or None,
            "facts_age_s": self.facts_age_s,
            "verdict": self.verdict,
            "reasons": [each.to_plain() for each in self.reasons],
            "nova_compute": (
                None
                if self.compute is None
                else dataclasses.asdict(self.compute)
            ),
            "traits": None if self.traits is None else list(self.traits),
            "maintenance": codec.to_plain(self.upkeep),
        }

    def row(self, wait_s: float, now: float) -> tuple[str | None, ...]:
        """Return the agent as a row of the list.

        :param wait_s: seconds that the agent had to report.
        :param now: Unix time, seconds.
        """
        age, verdict = _age(self.facts_age_s), self.verdict
        if verdict == MISSING:
            age, verdict = f"none in {wait_s:g} s", DOWN
        codes = ", ".join(why.code for why in self.reasons)
        compute = "" if self.compute is None else self.compute.state
        if self.compute is not None and compute != "up":
            unseen_s = self.compute.unseen_s(now)
            compute += "" if unseen_s is None else f" for {_length(unseen_s)}"
        traits = " ".join(self.traits or ())
        long = [None] * len(fleet.COLUMNS)
        return (
            *(self.host, self.version, age, verdict, compute, codes, traits),
            *(long if self.upkeep is None else self.upkeep.row()),
        )


def judge(candidate: Candidate) -> Agent:
    """Return a host's agent with its verdict."""
    facts, age_s = candidate.facts, candidate.age_s
    if facts is None:
        silent = (decide.silent(candidate.agents),)
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
    return Agent(candidate.host, candidate.version, age_s, verdict, reasons)


def _reasons(facts: DecisiveFacts) -> tuple[Reason, ...]:
    # An agent runs next to nova-compute, so Nova places the guests.
    return readiness.judge(facts, placed_by_nova=True).must


def published(connection: Any) -> list[Agent]:
    """Return what Nova and Placement know about the hosts.

    :param connection: connection to the cloud; None to make one from the
        environment.
    :raises CloudUnreachable: if an API can't be reached, or refuses.
    """
    computes = cloud.hosts(faults.say, connection) or {}
    found = cloud.traits(host_traits.TRAITS, connection)
    return [
        Agent(
            host,
            "",
            None,
            READY if host_traits.REALTIME in found[host] else NOT_READY,
            (),
            computes.get(host),
            tuple(sorted(found[host])),
        )
        for host in sorted(found)
    ]


_COMPUTE = "nova-compute"
#: The columns of ``--long``.
_LONG = ("Host", "Verdict", *fleet.COLUMNS)
_TRAITS = "Traits"

COLUMNS = (
    *("Host", "Version", "Facts age", "Verdict", _COMPUTE, "Problems"),
    _TRAITS,
    *fleet.COLUMNS,
)


class List(command.Lister):
    """List the hosts of a cloud, as their agents report them."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the message queue and the filters."""
        arguments.add_host_filters(parser, "--not-ready", "are not ready")
        parser.add_argument(
            "--long",
            action="store_true",
            help="list what maintenance changes on each host (kernel, "
            "microcode, profile of tuned, latency certificate, hold, boot "
            "owed); those that differ most from most hosts come first",
        )
        collect.configure(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return a row for each host."""
        connection = cloud.connection(self.caller)
        is_known = connection is not None or cloud.has_credentials()
        try:
            found = self._reported(args, connection, is_known=is_known)
        except collect.QueueUnnamed:
            if not is_known:
                raise
            found = published(connection)
            faults.say(_NO_QUEUE)
        if args.long:
            # Before the filters, since hosts are compared with all hosts.
            found = _most_differing(found)
        found = [each for each in found if _is_chosen(each, args)]
        hidden = {_COMPUTE} if not is_known else set()
        if all(each.traits is None for each in found):
            hidden.add(_TRAITS)
        if not args.long:
            hidden.update(fleet.COLUMNS)
        now = time.time()
        return Result(
            columns=COLUMNS,
            shown=[
                name
                for name in (_LONG if args.long else COLUMNS)
                if name not in hidden
            ],
            rows=[each.row(args.wait, now) for each in found],
            document=[each.to_plain() for each in found],
        )

    def _reported(
        self, args: argparse.Namespace, connection: Any, *, is_known: bool
    ) -> list[Agent]:
        """Return the hosts whose agents report, and those that Nova names."""
        computes: Mapping[str, cloud.ComputeService] | None = None
        if is_known:
            computes = cloud.hosts(faults.say, connection)
        expected = args.host
        if expected is None and computes is not None:
            expected = list(computes)
        candidates = collect.from_args(
            self.caller, args, expected, whole=args.long
        )
        if not is_known:
            report = faults.progress(is_quiet=self.caller.is_quiet)
            report(_NO_CREDENTIALS)
        now = time.time()
        return [
            dataclasses.replace(
                judge(each),
                compute=(computes or {}).get(each.host),
                upkeep=(
                    fleet.of(each.reported, now)
                    if args.long and each.reported is not None
                    else None
                ),
            )
            for each in candidates
        ]


def _most_differing(hosts: Sequence[Agent]) -> list[Agent]:
    """Return hosts, starting with those that differ most from the others."""
    compared = iter(fleet.compared(e.upkeep for e in hosts if e.upkeep))
    found = [
        dataclasses.replace(each, upkeep=each.upkeep and next(compared))
        for each in hosts
    ]
    found.sort(key=lambda e: -len(e.upkeep.differs) if e.upkeep else 1)
    return found


def _is_chosen(found: Agent, args: argparse.Namespace) -> bool:
    """Return whether a host passes the filters of the list."""
    if args.host is not None and found.host not in args.host:
        return False
    if args.not_ready and found.verdict == READY:
        return False
    return arguments.has_reason(found.reasons, args)


class Show(command.ShowOne):
    """Show a host, as its agent reports it: its verdict and every fact."""

    epilog = (
        "Exit codes: 0 the host is ready for realtime instances, 1 it is "
        "not, 2 it did not report."
    )

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the host and the message queue."""
        parser.add_argument(
            "host", metavar="HOST", help="the host, as Nova names it"
        )
        collect.configure(parser)

    def run(self, args: argparse.Namespace) -> Result:
        """Return the host's facts."""
        connection = cloud.connection(self.caller)
        try:
            candidates = collect.from_args(
                self.caller, args, [args.host], whole=True
            )
        except collect.QueueUnnamed:
            if connection is None and not cloud.has_credentials():
                raise
            return _published_host(args.host, connection)
        (candidate,) = (x for x in candidates if x.host == args.host)
        if candidate.reported is None:
            raise exceptions.SriovRtError(
                f"host {args.host!r} did not report within {args.wait:g} s; "
                "'sriov-rt agent list' names those that do, and on the host "
                "'systemctl status sriov-rt-agent' says whether it runs"
            )
        found = judge(candidate)
        problems = [
            (f"problem.{why.code}", why.message) for why in found.reasons
        ]
        problems += _drifts(candidate.reported.audit)
        return command.one(
            (
                ("host", found.host),
                ("version", found.version),
                ("facts_age", _age(found.facts_age_s)),
                ("verdict", found.verdict),
                *problems,
                *(
                    row
                    for row in table.rows(candidate.reported)
                    if row[0] not in ("host", "version")
                    and not row[0].startswith("audit.drifts.")
                ),
            ),
            {**found.to_plain(), "facts": candidate.reported.to_plain()},
            after=table.occupancy(candidate.reported),
            code=0 if found.verdict == READY else EXIT_NOT_READY,
        )


def _published_host(host: str, connection: Any) -> Result:
    """Return what Nova and Placement know about a host.

    :raises SriovRtError: if Nova has no host of this name.
    """
    named = {each.host: each for each in published(connection)}
    if host not in named:
        raise exceptions.SriovRtError(
            f"no compute host {host!r}; 'openstack hypervisor list' names them"
        )
    faults.say(_NO_QUEUE)
    found = named[host]
    return command.one(
        (
            ("host", found.host),
            ("verdict", found.verdict),
            ("nova-compute", found.compute and found.compute.state),
            ("traits", "\n".join(found.traits or ())),
        ),
        {**found.to_plain(), "facts": None},
        code=0 if found.verdict == READY else EXIT_NOT_READY,
    )


def _drifts(audit: AuditFacts) -> list[tuple[str, str]]:
    """Return a field for each guest that differs from its request."""
    if isinstance(audit.drifts, Unknown):
        return []
    return [
        (
            f"drift.{number}",
            f"{each.instance or 'host'}: {each.message} ({each.code} since "
            f"{_time(each.since)})",
        )
        for number, each in enumerate(audit.drifts)
    ]


def _time(at: float) -> str:
    """Return a Unix time as text, in UTC."""
    return f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%F %T} UTC"


def _length(seconds: float) -> str:
    """Return a duration in the largest unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _age(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"
