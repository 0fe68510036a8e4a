# SPDX-License-Identifier: Apache-2.0

"""Verdicts: which hosts satisfy a request, and why the others do not."""

import collections
import dataclasses
import functools
import math
import time
import weakref
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Protocol
from typing import TypeVar

from sriov_rt import decide
from sriov_rt import request as requests
from sriov_rt.codec import Unknown
from sriov_rt.decide import onload
from sriov_rt.facts import DecisiveFacts
from sriov_rt.reason import Reason
from sriov_rt.request import Request
from sriov_rt.scheduler.facts_table import Entry
from sriov_rt.scheduler.facts_table import FactsTable

#: Hosts named in one line of the log.
HOSTS_A_LINE = 50

#: Requests whose verdicts are kept. Clouds have some dozen realtime flavors.
MAX_REQUESTS = 32

_BEFORE_ALL_TIME = -math.inf


@dataclasses.dataclass(slots=True)
class Refusal:
    """Hosts that fail a request for the same Reasons."""

    reasons: tuple[Reason, ...]
    hosts: list[str]


class Host(Protocol):
    """Attributes of Nova's HostState that are read."""

    host: str


H = TypeVar("H", bound=Host)


class Verdicts:
    """Verdicts on hosts, from the facts table.

    :param max_age_s: seconds from which facts are stale.
    :param monotonic: the table's clock, seconds.
    :param wall: Unix time, seconds.
    """

    def __init__(
        self,
        table: FactsTable,
        max_age_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._max_age_s = max_age_s
        self._monotonic = monotonic
        self._wall = wall
        # Verdicts by request and report. A host's next report is another
        # object, so the verdicts on its last one are not used again.
        self._kept = functools.lru_cache(MAX_REQUESTS)(_kept)

    def passing(
        self,
        request: Request,
        hosts: Iterable[H],
        instance: str | None = None,
    ) -> list[H]:
        """Return the hosts that satisfy the request, in their order.

        :param instance: UUID of the instance to be placed.
        """
        if not request.attachments:
            return self._passing(request, hosts)
        passing = self._passing(_without_networks(request), hosts)
        entry_of = self._table.entries.get
        return [
            host
            for host in passing
            if not any(self._same_host(request, entry_of(host.host), instance))
        ]

    def _passing(self, request: Request, hosts: Iterable[H]) -> list[H]:
        entry_of = self._table.entries.get
        verdicts = self._kept(request)
        oldest = self._monotonic() - self._max_age_s
        now = self._wall()
        passing = []
        for host in hosts:
            entry = entry_of(host.host)
            if entry is None or entry.confirmed < oldest:
                continue
            until = verdicts.get(entry)
            if until is None:
                until = verdicts[entry] = _satisfies_until(
                    request, entry.facts
                )
            if now < until:
                passing.append(host)
        return passing

    def endpoints_of(self, instance: str) -> tuple[requests.Attachment, ...]:
        """Return where an instance has accelerated endpoints now.

        :param instance: its UUID.
        """
        found: dict[requests.Attachment, None] = {}
        for entry in tuple(self._table.entries.values()):
            endpoints = entry.facts.vifs.endpoints
            if isinstance(endpoints, Unknown):
                continue
            for each in endpoints:
                if each.instance == instance:
                    physical = onload.physical_network(entry.facts, each.nic)
                    found[requests.Attachment(each.network, physical)] = None
        return tuple(found)

    def known(self, hosts: Iterable[Host]) -> bool:
        """Return whether there are fresh facts of every host."""
        entries = self._table.entries
        oldest = self._monotonic() - self._max_age_s
        for host in hosts:
            entry = entries.get(host.host)
            if entry is None or entry.confirmed < oldest:
                return False
        return True

    def why_not(
        self, request: Request, host: Host, instance: str | None = None
    ) -> tuple[Reason, ...]:
        """Return every Reason why a host does not satisfy the request."""
        entry = self._table.entries.get(host.host)
        return (
            *self._reasons(request, host.host, entry),
            *self._same_host(request, entry, instance),
        )

    def refusals(
        self,
        request: Request,
        hosts: Iterable[Host],
        instance: str | None = None,
    ) -> Sequence[Refusal]:
        """Return why hosts fail; hosts with the same Reasons are grouped."""
        hosts = list(hosts)
        passing = {
            each.host for each in self.passing(request, hosts, instance)
        }
        found: dict[tuple[str, ...], Refusal] = {}
        for host in hosts:
            if host.host in passing:
                continue
            reasons = self.why_not(request, host, instance)
            same = found.setdefault(
                tuple(each.message for each in reasons), Refusal(reasons, [])
            )
            same.hosts.append(host.host)
        return [each for each in found.values() if each.reasons]

    def _reasons(
        self, request: Request, host: str, entry: Entry | None
    ) -> tuple[Reason, ...]:
        request, now = _without_networks(request), self._wall()
        if entry is None:
            view = decide.View(now, agents=self._table.rivals.of(host))
            return decide.why_not(request, None, view)
        view = decide.View(
            now=now,
            facts_age_s=self._monotonic() - entry.confirmed,
            max_age_s=self._max_age_s,
        )
        return decide.why_not(request, entry.facts, view)

    def _same_host(
        self,
        request: Request,
        entry: Entry | None,
        instance: str | None,
    ) -> Iterator[Reason]:
        """Yield the networks for which the host has no NIC left.

        A newly placed instance is not in the facts yet; the compute host
        checks again when it plugs the port, and Nova tries another host.
        """
        if entry is None or not request.onload or not request.attachments:
            return
        endpoints = entry.facts.vifs.endpoints
        if not isinstance(endpoints, Unknown):
            endpoints = tuple(e for e in endpoints if e.instance != instance)
        yield from onload.same_host(
            entry.facts, request.attachments, endpoints
        )


def _kept(
    request: Request,
) -> weakref.WeakKeyDictionary[Entry, float]:
    return weakref.WeakKeyDictionary()


def _satisfies_until(request: Request, facts: DecisiveFacts) -> float:
    """Return the Unix time from which a host no longer satisfies a request.

    Minus infinity if it does not now, infinity if time changes nothing. A
    decision depends on time only through the expiry of a certificate.
    """
    view = decide.View(now=_BEFORE_ALL_TIME)
    if not decide.satisfies(request, facts, view):
        return -math.inf
    certificate = facts.latency.certificate
    if (
        request.max_latency_us is None
        or certificate is None
        or isinstance(certificate, Unknown)
    ):
        return math.inf
    return certificate.expires_at


def _without_networks(request: Request) -> Request:
    """Return the part of a request whose verdicts are kept.

    It has the physical networks; where the accelerated ports of each network
    are is decided again for each instance.
    """
    if not request.attachments:
        return request
    physical = dict.fromkeys(a.physical_network for a in request.attachments)
    return dataclasses.replace(
        request,
        attachments=tuple(requests.Attachment(None, p) for p in physical),
    )


def lines(refusals: Iterable[Refusal]) -> Iterator[str]:
    """Yield the refusals as text: each host once, with all its Reasons."""
    for refusal in refusals:
        why = "; ".join(f"{r.code}: {r.message}" for r in refusal.reasons)
        hosts = refusal.hosts
        for start in range(0, len(hosts), HOSTS_A_LINE):
            yield f"{', '.join(hosts[start : start + HOSTS_A_LINE])}: {why}"


def summary(refusals: Iterable[Refusal]) -> str:
    """Return how many hosts fail for each Reason, the most common first."""
    counts: collections.Counter[str] = collections.Counter()
    for refusal in refusals:
        for code in {reason.code for reason in refusal.reasons}:
            counts[code] += len(refusal.hosts)
    return ", ".join(f"{code} × {n}" for code, n in counts.most_common())
