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

"""Which hosts satisfy a request, and why the others do not."""

import collections
import dataclasses
import time
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
from sriov_rt.reason import Reason
from sriov_rt.request import Request
from sriov_rt.scheduler.placements import Placements
from sriov_rt.scheduler.refusals import Refusal
from sriov_rt.scheduler.table import Entry
from sriov_rt.scheduler.table import FactsTable

#: What hosts that fail alike have in common.
Key = tuple[int | str, ...]


class Host(Protocol):
    """What is asked of Nova's HostState."""

    host: str


H = TypeVar("H", bound=Host)


class Judge:
    """Decide on hosts by the facts table.

    :param table: the facts.
    :param max_age_s: seconds from which facts are stale.
    :param placements: what was placed of late.
    :param monotonic: the table's clock, seconds.
    :param wall: Unix time, seconds.
    """

    def __init__(
        self,
        table: FactsTable,
        max_age_s: float,
        placements: Placements,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._table = table
        self._max_age_s = max_age_s
        self._placements = placements
        self._monotonic = monotonic
        self._wall = wall

    def passing(
        self,
        request: Request,
        hosts: Iterable[H],
        instance: str | None = None,
    ) -> list[H]:
        """Return the hosts that satisfy the request, in their order.

        :param instance: UUID of the one to be placed.
        """
        if not request.attachments:
            return self._passing(request, hosts)
        passing = self._passing(_without_networks(request), hosts)
        return [
            host
            for host in passing
            if self.is_apart(request, host.host, instance)
        ]

    def is_apart(
        self,
        request: Request,
        host: str,
        instance: str | None,
        *,
        settling: bool = False,
    ) -> bool:
        """Tell whether an instance would reach all of its networks.

        It would not those of which the host has no NIC left for one more
        accelerated endpoint.

        :param host: Nova's name of it.
        :param instance: UUID of the one to be placed.
        :param settling: it was placed there, and may have to yield.
        """
        entry = self._table.entries.get(host)
        found = self._same_host(
            request, host, entry, instance, settling=settling
        )
        return next(found, None) is None

    def _passing(self, request: Request, hosts: Iterable[H]) -> list[H]:
        # Ten thousand hosts come through here while a user waits: one
        # look-up of the host and one of the answer to its kind.
        entry_of = self._table.entries.get
        answers = self._table.answers(request)
        answer_of = answers.get
        oldest = self._monotonic() - self._max_age_s
        now = self._wall()
        passing = []
        for host in hosts:
            entry = entry_of(host.host)
            if entry is None or entry.confirmed < oldest:
                continue
            kind = entry.kind
            until = answer_of(kind.number)
            if until is None:
                until = answers[kind.number] = kind.passes_until(request)
            if now < until:
                passing.append(host)
        return passing

    def endpoints_of(self, instance: str) -> tuple[requests.Attachment, ...]:
        """Return where an instance has accelerated endpoints now.

        :param instance: its UUID.
        """
        found: dict[requests.Attachment, None] = {}
        for entry in tuple(self._table.entries.values()):
            if not entry.endpoints or isinstance(entry.endpoints, Unknown):
                continue
            for each in entry.endpoints:
                if each.instance == instance:
                    physical = onload.physical_network(
                        entry.kind.facts, each.nic
                    )
                    found[requests.Attachment(each.network, physical)] = None
        return tuple(found)

    def known(self, hosts: Iterable[Host]) -> bool:
        """Tell whether there are fresh facts of every one of the hosts."""
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
            *self._reasons(request, entry),
            *self._same_host(request, host.host, entry, instance),
        )

    def refusals(
        self,
        request: Request,
        hosts: Iterable[Host],
        instance: str | None = None,
    ) -> Sequence[Refusal]:
        """Return why hosts fail, those that fail alike together."""
        entries, now = self._table.entries, self._monotonic()
        alike: dict[Key, list[str]] = collections.defaultdict(list)
        why: dict[Key, tuple[Reason, ...]] = {}
        own: tuple[Reason, ...] = ()
        for host in hosts:
            entry = entries.get(host.host)
            key: Key = (-1, 0)
            if entry is not None:
                age_s = now - entry.confirmed
                stale = age_s > self._max_age_s
                key = (-2, int(age_s)) if stale else (entry.kind.number, 0)
            if request.attachments:
                found = self._same_host(request, host.host, entry, instance)
                own = tuple(found)
                key = (*key, *(each.message for each in own))
            alike[key].append(host.host)
            if key not in why:
                why[key] = (*self._reasons(request, entry), *own)
        refusals = (
            Refusal(why[key], tuple(names)) for key, names in alike.items()
        )
        return [refusal for refusal in refusals if refusal.reasons]

    def _reasons(
        self, request: Request, entry: Entry | None
    ) -> tuple[Reason, ...]:
        request, now = _without_networks(request), self._wall()
        if entry is None:
            return decide.why_not(request, None, decide.View(now))
        view = decide.View(
            now=now,
            facts_age_s=self._monotonic() - entry.confirmed,
            max_age_s=self._max_age_s,
        )
        return entry.kind.why_not(request, view)

    def _same_host(
        self,
        request: Request,
        host: str,
        entry: Entry | None,
        instance: str | None,
        *,
        settling: bool = False,
    ) -> Iterator[Reason]:
        if entry is None or not request.onload or not request.attachments:
            return
        endpoints = entry.endpoints
        coming = self._placements.coming(host, instance, settling=settling)
        if not endpoints and not coming:
            return
        if not isinstance(endpoints, Unknown):
            endpoints = tuple(e for e in endpoints if e.instance != instance)
        yield from onload.same_host(
            entry.kind.facts, request.attachments, endpoints, coming
        )


def _without_networks(request: Request) -> Request:
    """Return what is asked of a kind of host: few differ in this.

    The physical networks count, and where each network's endpoints are is
    no matter of the kind.
    """
    if not request.attachments:
        return request
    physical = dict.fromkeys(a.physical_network for a in request.attachments)
    return dataclasses.replace(
        request,
        attachments=tuple(requests.Attachment(None, p) for p in physical),
    )
