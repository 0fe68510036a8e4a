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

#: Bytes that the facts of a host may take, in the mean over ``max_hosts``. Of
#: a host with 64 CPUs, 256 VFs and 80 labels they take half of it.
FACTS_BYTES = 64 * 1024

#: Seconds between two lines in the log about a table that is full.
_FULL_LOG_S = 60.0


class Entry:
    """One report of a host; the next report makes another Entry.

    :param facts: what decisions read of them.
    :param digest: of the facts that it sent.
    :param confirmed: monotonic time in seconds at which they last held.
    :param size: of its facts, in bytes.
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
    host one node: that node's name is of no consequence here.

    :param max_hosts: hosts beyond it are refused, and so are facts beyond
        that many times FACTS_BYTES.
    :param stale_s: seconds after which a host gives way when the table is
        full.
    :param monotonic: the clock, seconds.
    :ivar rivals: who reports as which host.
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
        #: What the facts of all entries take.
        self._bytes = 0

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The hosts, by Nova's name. To be read only."""
        return self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, host: str, digest: str, facts: HostFacts) -> bool:
        """Keep what decisions read of a host; False if the table is full.

        :param digest: names the facts in the heartbeats that follow, hex.
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
            self._drop(host)

    def refuse(self, host: str, problem: str) -> None:
        """Drop a host whose facts cannot be read.

        What it was is no longer what it is: it serves no realtime.

        :param problem: what is wrong with them.
        """
        self.forget(host)

    def _has_room(self, host: str, size: int) -> bool:
        """Return whether a host's facts may come in, in place of its old.

        :param size: of the facts, in bytes.
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
        # What the host was is no longer what it is.
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
