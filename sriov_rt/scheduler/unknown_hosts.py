# SPDX-License-Identifier: Apache-2.0

"""Hosts whose agents report, but which Nova does not know."""

import logging
import math
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable

from sriov_rt.reason import first_of

LOG = logging.getLogger(__name__)

#: Seconds between two queries of Nova's database, and names in one line.
INTERVAL_S = 60.0
_LISTED = 10


class UnknownHosts:
    """Logs each such host once, which reveals an agent with a wrong name.

    :param reported: returns the hosts whose agents report.
    :param mapped: returns the hosts of all cells; it may block or fail.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        reported: Callable[[], Collection[str]],
        mapped: Callable[[], Iterable[str]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reported = reported
        self._mapped = mapped
        self._monotonic = monotonic
        self._next = -math.inf
        self._known: frozenset[str] = frozenset()
        self._logged: frozenset[str] = frozenset()

    def look(self) -> threading.Thread | None:
        """Look for new hosts in a thread; return the thread if one started.

        Scheduling does not wait for it.
        """
        now = self._monotonic()
        if now < self._next:
            return None
        self._next = now + INTERVAL_S
        if self._known.issuperset(self._reported()):
            return None
        thread = threading.Thread(
            target=self._look, name="sriov-rt-hosts", daemon=True
        )
        thread.start()
        return thread

    def _look(self) -> None:
        try:
            self._known = frozenset(self._mapped())
        except Exception:
            # Nova's database may be unreachable, and raise anything.
            LOG.debug("The hosts of Nova were not read", exc_info=True)
            return
        unknown = {*self._reported()} - self._known
        if new := unknown - self._logged:
            LOG.warning(
                "Agents report as %s, and Nova has no such host: compare "
                "'nova-manage cell_v2 list_hosts' with [DEFAULT] host of "
                "nova.conf there, or run 'nova-manage cell_v2 discover_hosts'",
                first_of(sorted(new), _LISTED),
            )
        self._logged = frozenset(unknown)
