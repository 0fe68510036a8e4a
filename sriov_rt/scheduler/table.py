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

"""The facts table: what each host was when it was last heard of."""

import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import Endpoint
from sriov_rt.facts import HostFacts
from sriov_rt.request import Request
from sriov_rt.scheduler.kinds import Kind
from sriov_rt.scheduler.kinds import Kinds

LOG = logging.getLogger(__name__)

#: Requests whose answers are kept. Clouds have some dozen realtime flavors.
MAX_REQUESTS = 64

#: Answers that are kept over all requests; one takes some 100 bytes.
MAX_ANSWERS = 200_000

#: Seconds between two lines in the log about a table that is full.
_FULL_LOG_S = 60.0


class Entry:
    """One host.

    :param kind: what it is.
    :param digest: of the facts that it sent.
    :param confirmed: monotonic time in seconds at which they last held.
    :param endpoints: its accelerated ports, which are no matter of its kind.
    """

    __slots__ = ("confirmed", "digest", "endpoints", "kind")

    def __init__(
        self,
        kind: Kind,
        digest: bytes,
        confirmed: float,
        endpoints: tuple[Endpoint, ...] | Unknown = (),
    ) -> None:
        self.kind = kind
        self.digest = digest
        self.confirmed = confirmed
        self.endpoints = endpoints


class FactsTable:
    """Facts by host. One thread or several write; readers take no lock.

    Nova's name of a host is unique among all cells, and libvirt gives each
    host one node: that node's name is of no consequence here.

    :param max_hosts: hosts beyond it are refused.
    :param stale_s: seconds after which a host gives way when the table is
        full.
    :param monotonic: the clock, seconds.
    :param arrived: told of a host and the instances that it has accelerated
        endpoints of.
    """

    def __init__(
        self,
        max_hosts: int,
        stale_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        arrived: Callable[[str, frozenset[str]], None] | None = None,
    ) -> None:
        self._max_hosts = max_hosts
        self._stale_s = stale_s
        self._monotonic = monotonic
        self._arrived = arrived
        self._lock = threading.Lock()
        self._kinds = Kinds()
        self._entries: dict[str, Entry] = {}
        self._answers: dict[Request, dict[int, float]] = {}
        self._full_logged = -_FULL_LOG_S

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The hosts, by Nova's name. To be read only."""
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, host: str, digest: str, facts: HostFacts) -> bool:
        """Take in a host's facts; return False if the table is full.

        :param digest: names the facts in the heartbeats that follow, hex.
        :raises ValueError: for a digest that is not hex.
        """
        packed = bytes.fromhex(digest)
        with self._lock:
            if host not in self._entries and not self._has_room(host):
                return False
            # A new entry rather than new fields: readers see all or nothing.
            self._entries[host] = Entry(
                self._kinds.of(facts),
                packed,
                self._monotonic(),
                facts.vifs.endpoints,
            )
        endpoints = facts.vifs.endpoints
        if endpoints and not isinstance(endpoints, Unknown) and self._arrived:
            self._arrived(host, frozenset(e.instance for e in endpoints))
        return True

    def confirm(self, host: str, digest: str) -> bool:
        """Note that a host's facts hold; return False if it has others.

        :param digest: of the facts that hold, hex.
        """
        entry = self._entries.get(host)
        if entry is None or entry.digest.hex() != digest:
            return False
        entry.confirmed = self._monotonic()
        return True

    def forget(self, host: str) -> None:
        """Drop a host, if it is there."""
        with self._lock:
            self._entries.pop(host, None)

    def answers(self, request: Request) -> dict[int, float]:
        """Return the answers so far, by the number of the kind.

        New facts make new kinds, so that no answer ever has to be taken
        back. See :meth:`Kind.passes_until` for what an answer is.
        """
        found = self._answers.get(request)
        if found is not None and len(found) <= MAX_ANSWERS:
            return found
        with self._lock:
            kept = self._answers
            if (
                len(kept) >= MAX_REQUESTS
                or sum(map(len, kept.values())) > MAX_ANSWERS
            ):
                self._answers = kept = {}
            return kept.setdefault(request, {})

    def _has_room(self, host: str) -> bool:
        if len(self._entries) < self._max_hosts:
            return True
        now = self._monotonic()
        oldest = now - self._stale_s
        self._entries = {
            each: entry
            for each, entry in self._entries.items()
            if entry.confirmed >= oldest
        }
        if len(self._entries) < self._max_hosts:
            return True
        if now - self._full_logged >= _FULL_LOG_S:
            self._full_logged = now
            LOG.error(
                "Facts of host %s refused: there are facts of %d hosts "
                "already. Raise [sriov_rt] facts_max_hosts if the cloud has "
                "more; otherwise see who sends made-up host names.",
                host,
                len(self._entries),
            )
        return False
