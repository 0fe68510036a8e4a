# SPDX-License-Identifier: Apache-2.0

"""The facts table: the last report of each host."""

import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping

from sriov_rt import codec
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.scheduler.rivals import Rivals

LOG = logging.getLogger(__name__)

#: Bytes that the facts of a host may take, on average over ``max_hosts``. A
#: host with 64 CPUs, 256 VFs and 80 labels takes half of it.
FACTS_BYTES = 64 * 1024

#: Seconds between two log lines about a full table.
_FULL_LOG_S = 60.0


class Entry:
    """One report of a host; the next report makes another Entry.

    :param facts: the facts that decisions read.
    :param digest: digest of the facts that the host sent.
    :param confirmed: monotonic time of their last confirmation, seconds.
    :param size: size of ``facts`` in bytes.
    """

    __slots__ = ("__weakref__", "confirmed", "digest", "facts", "size")

    def __init__(
        self, facts: DecisiveFacts, digest: bytes, confirmed: float, size: int
    ) -> None:
        self.facts = facts
        self.digest = digest
        self.confirmed = confirmed
        self.size = size


class FactsTable:
    """Facts by host. One thread or several write; readers take no lock.

    Nova's name of a host is unique among all cells, and libvirt gives each
    host one node: the node's name does not matter here.

    :param max_hosts: most hosts in the table. Their facts may take FACTS_BYTES
        times this number.
    :param stale_s: seconds without a report after which a host is removed
        when the table is full.
    :param monotonic: the clock, seconds.
    :ivar rivals: the agents that report as each host.
    """

    def __init__(
        self,
        max_hosts: int,
        stale_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_hosts = max_hosts
        self._stale_s = stale_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._full_logged = -_FULL_LOG_S
        self.rivals = Rivals(max_hosts, stale_s, monotonic)
        #: Size of the facts of all entries.
        self._bytes = 0

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entries by Nova's name of the host; read-only."""
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, host: str, digest: str, facts: HostFacts) -> bool:
        """Store a host's decisive facts; return False if the table is full.

        :param digest: hex digest that later heartbeats use for these facts.
        :raises ValueError: for a digest that is not hex.
        """
        packed = bytes.fromhex(digest)
        kept = decisive(facts)
        size = codec.size(kept)
        with self._lock:
            if not self._has_room(host, size):
                return False
            self._bytes += size - self._size_of(host)
            # A new entry rather than new fields: readers see all or nothing.
            self._entries[host] = Entry(kept, packed, self._monotonic(), size)
        return True

    def confirm(self, host: str, digest: str) -> bool:
        """Confirm a host's facts; return False if the table has others.

        :param digest: hex digest of the host's current facts.
        """
        entry = self._entries.get(host)
        if entry is None or entry.digest.hex() != digest:
            return False
        entry.confirmed = self._monotonic()
        return True

    def forget(self, host: str) -> None:
        """Drop a host, if it is there."""
        with self._lock:
            self._drop(host)

    def refuse(self, host: str, problem: str) -> None:
        """Drop a host whose facts cannot be read.

        Its earlier facts no longer apply, so it serves no realtime.

        :param problem: what is wrong with the facts.
        """
        self.forget(host)

    def _has_room(self, host: str, size: int) -> bool:
        """Return whether a host's facts fit in place of its earlier ones.

        :param size: size of the facts in bytes.
        """
        if self._fits(host, size):
            return True
        now = self._monotonic()
        oldest = now - self._stale_s
        self._entries = {
            each: entry
            for each, entry in self._entries.items()
            if entry.confirmed >= oldest
        }
        self._bytes = sum(each.size for each in self._entries.values())
        if self._fits(host, size):
            return True
        # The host's earlier facts no longer apply.
        self._drop(host)
        if now - self._full_logged >= _FULL_LOG_S:
            self._full_logged = now
            LOG.error(
                "Facts of host %s refused: there are facts of %d hosts "
                "already, of %d kB. Raise [sriov_rt] facts_max_hosts if the "
                "cloud has more; otherwise find the sender of forged host "
                "names.",
                host,
                len(self._entries),
                self._bytes // 1000,
            )
        return False

    def _fits(self, host: str, size: int) -> bool:
        if host not in self._entries and len(self) >= self._max_hosts:
            return False
        total = self._bytes + size - self._size_of(host)
        return total <= self._max_hosts * FACTS_BYTES

    def _size_of(self, host: str) -> int:
        entry = self._entries.get(host)
        return 0 if entry is None else entry.size

    def _drop(self, host: str) -> None:
        self._bytes -= self._size_of(host)
        self._entries.pop(host, None)
