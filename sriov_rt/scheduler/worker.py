# SPDX-License-Identifier: Apache-2.0

"""The facts table of a nova-scheduler process, and its listener."""

import functools
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable

from oslo_config import cfg

from sriov_rt.scheduler import options
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.scheduler.listener import Listener
from sriov_rt.scheduler.verdicts import Verdicts
from sriov_rt.service import messaging

LOG = logging.getLogger(__name__)

#: Seconds between attempts to listen. oslo.messaging restores lost
#: connections; this is for a queue that can't be used as it is configured.
RETRY_S = 10.0

#: Seconds between two checks whether the hosts in question have reported.
_POLL_S = 0.05

_ONE_AT_A_TIME = threading.Lock()


class Worker:
    """Listener and facts table, from the first request on.

    Nothing is started before that, since nova-scheduler makes its filters
    before it forks.

    :param monotonic: the clock, seconds.
    :param server: the listener's name; None for the common name of this
        host's workers.
    :param listen: makes a listener from configuration, name and table.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        monotonic: Callable[[], float] = time.monotonic,
        server: str | None = None,
        listen: Callable[..., Listener] = Listener,
    ) -> None:
        options.register(conf)
        group = conf[options.GROUP]
        self.table = FactsTable(
            group.facts_max_hosts,
            group.facts_max_age,
            monotonic,
        )
        self.verdicts = Verdicts(self.table, group.facts_max_age, monotonic)
        self._conf = conf
        self._warmup_s = group.warmup_timeout
        self._monotonic = monotonic
        # All workers of a host may have one name: reports come by fanout, for
        # which each worker has its own queue, and a name with a process id
        # would leave a queue behind at each restart.
        self._server = server or f"nova-scheduler.{socket.gethostname()}"
        self._listen = listen
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._began = math.inf

    def start(self) -> None:
        """Start to listen, unless started already; return immediately."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._began = self._monotonic()
                # A daemon thread does not keep nova-scheduler from exiting.
                self._thread = threading.Thread(
                    target=self._run, name="sriov-rt-facts", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        with self._lock:
            self._stopping.set()
            listener, thread = self._listener, self._thread
        if listener is not None:
            listener.stop()
        if thread is not None:
            thread.join()

    def warm_up(self, known: Callable[[], bool]) -> None:
        """Wait for the first reports, if they were requested only just now.

        :param known: returns whether all that is needed has been reported.
        """
        self.start()
        deadline = self._began + self._warmup_s
        while self._monotonic() < deadline and not known():
            self._stopping.wait(_POLL_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                listener = self._listen(self._conf, self._server, self.table)
                with self._lock:
                    self._listener = listener
                    if self._stopping.is_set():
                        return
                LOG.info("Listening for reports as %s", self._server)
                listener.run()
            except Exception:
                # Anything, as in ReportRequests.send; nova-scheduler keeps
                # running and places all other flavors.
                LOG.exception(
                    "No facts of hosts can be received from %s, so that no "
                    "sriov_rt flavor can be placed; correct [sriov_rt] "
                    "transport_url",
                    messaging.brokers(self._conf),
                )
                self._stopping.wait(RETRY_S)


@functools.lru_cache(maxsize=1)
def _of_process(pid: int) -> Worker:
    return Worker(cfg.CONF)


def of_this_process() -> Worker:
    """Return the worker of this process; a fork gets one of its own."""
    with _ONE_AT_A_TIME:
        return _of_process(os.getpid())
