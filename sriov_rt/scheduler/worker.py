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

"""What one process of nova-scheduler has: a table, and who feeds it."""

import functools
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from oslo_config import cfg

from sriov_rt.request import Request
from sriov_rt.scheduler import options
from sriov_rt.scheduler.judge import Judge
from sriov_rt.scheduler.listener import Listener
from sriov_rt.scheduler.placements import Placement
from sriov_rt.scheduler.placements import Placements
from sriov_rt.scheduler.table import FactsTable
from sriov_rt.scheduler.teller import Teller

LOG = logging.getLogger(__name__)

#: Seconds between attempts to listen. Lost connections are oslo.messaging's
#: to restore; this is for a queue that can't be used as it is configured.
RETRY_S = 10.0

#: Seconds without a report after which all agents that are there have
#: answered; their answers are spread over 2 s by default.
QUIET_S = 3.0

#: Seconds between two looks at whether the hosts in question have answered.
_POLL_S = 0.05

#: Hosts that a request yields to others before it finds no host.
MAX_YIELDS = 10

_ONE_AT_A_TIME = threading.Lock()


class Worker:
    """Hear the agents from the first request on, in threads of its own.

    Nothing is started before that: nova-scheduler makes its filters and
    only then forks.

    :param conf: the configuration of nova-scheduler.
    :param monotonic: the clock, seconds.
    :param server: the listener's name; None for that of all workers here.
    :param listen: makes a listener, from what feeds it and is fed by it.
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
        self.placements = Placements(group.placement_hold, monotonic)
        self.table = FactsTable(
            group.facts_max_hosts,
            group.facts_max_age,
            monotonic,
            self.placements.arrived,
        )
        self.judge = Judge(
            self.table, group.facts_max_age, self.placements, monotonic
        )
        self._teller = Teller()
        self._conf = conf
        self._settle_s = group.placement_settle
        self._warmup_s = group.warmup_timeout
        self._monotonic = monotonic
        # All workers of a host may have one name: reports come by fanout,
        # for which each has a queue of its own, and a name with a process id
        # would leave a queue behind at each restart.
        self._server = server or f"nova-scheduler.{socket.gethostname()}"
        self._listen = listen
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._began = self._heard = math.inf

    def start(self) -> None:
        """Start to hear the agents, once; returns at once."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._began = self._monotonic()
                # A daemon: it must not keep nova-scheduler from ending.
                self._thread = threading.Thread(
                    target=self._run, name="sriov-rt-facts", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Hear the agents no more."""
        with self._lock:
            self._stopping.set()
            listener, thread = self._listener, self._thread
        if listener is not None:
            listener.stop()
        if thread is not None:
            thread.join()

    def place(
        self, request: Request, instance: str, hosts: Sequence[str]
    ) -> Placement | None:
        """Place an instance that Onload will accelerate, and tell the others.

        :param instance: its UUID.
        :param hosts: Nova's names of those that satisfy the request, the
            best one first.
        :returns: where it goes; None if no host is left whose endpoints it
            would reach.
        """
        known = self.placements.of(instance)
        if known is not None and known.networks:
            # Nova asks again, for alternates to the host that it has.
            return known
        for _ in range(MAX_YIELDS):
            placement = self._choose(request, instance, hosts)
            if placement is None:
                return None
            self._teller.tell(placement)
            # What others placed meanwhile, not knowing of this, comes in.
            self._stopping.wait(self._settle_s)
            if self.judge.is_apart(
                request, placement.host, instance, settling=True
            ):
                LOG.info(
                    "Placed instance=%s on host=%s, networks=%s",
                    instance,
                    placement.host,
                    ",".join(placement.networks),
                )
                return placement
            LOG.debug("Yielding host=%s instance=%s", placement.host, instance)
            nowhere = Placement(placement.host, instance, ())
            self.placements.note(nowhere)
            self._teller.tell(nowhere)
        return None

    def _choose(
        self, request: Request, instance: str, hosts: Iterable[str]
    ) -> Placement | None:
        networks = (each.network for each in request.attachments)
        return self.placements.choose(
            instance,
            tuple(dict.fromkeys(n for n in networks if n is not None)),
            hosts,
            lambda host: self.judge.is_apart(request, host, instance),
        )

    def warm_up(self, known: Callable[[], bool]) -> None:
        """Wait for the first reports, if the agents were only just asked.

        :param known: tells whether all that is needed has been reported.
        """
        self.start()
        deadline = self._began + self._warmup_s
        while (now := self._monotonic()) < deadline:
            if now - self._heard > QUIET_S or known():
                return
            self._stopping.wait(_POLL_S)

    def _note(self) -> None:
        self._heard = self._monotonic()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                listener = self._listen(
                    self._conf,
                    self._server,
                    self.table,
                    self._note,
                    self.placements.note,
                    self._teller,
                )
                with self._lock:
                    self._listener = listener
                    if self._stopping.is_set():
                        return
                LOG.info("Listening for reports as %s", self._server)
                listener.run()
            except Exception:
                # As in asker.Asker.ask; nova-scheduler lives on, and
                # places all other flavors.
                LOG.exception(
                    "No facts of hosts can be heard, so that no sriov_rt "
                    "flavor can be placed; see [sriov_rt] transport_url"
                )
                self._stopping.wait(RETRY_S)


@functools.lru_cache(maxsize=1)
def _of_process(pid: int) -> Worker:
    return Worker(cfg.CONF)


def of_this_process() -> Worker:
    """Return the worker of this process; a fork gets one of its own."""
    with _ONE_AT_A_TIME:
        return _of_process(os.getpid())
