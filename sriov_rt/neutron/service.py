# SPDX-License-Identifier: Apache-2.0

"""The agent's threads: ports, state reports and quarantined ports."""

import logging
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sriov_rt import exceptions
from sriov_rt.host.compute_driver_socket import Driver
from sriov_rt.neutron.ports import Ports
from sriov_rt.neutron.ports import PortState
from sriov_rt.neutron.ports import Work
from sriov_rt.neutron.this_host import ThisHost
from sriov_rt.service.backoff import Backoff
from sriov_rt.service.worker import Worker
from sriov_rt.vif.model import Plugged

if TYPE_CHECKING:
    # It imports neutron.
    from sriov_rt.neutron.server import Server

LOG = logging.getLogger(__name__)

#: Seconds from a device's event to the look: events of its alias and of other
#: devices follow in a burst.
DEBOUNCE_S = 0.1

#: Delays after a failure, seconds: the first and the longest. An instance
#: waits for its port 300 s (Nova's [DEFAULT] vif_plugging_timeout).
FIRST_DELAY_S = 1.0
DELAY_LIMIT_S = 10.0

#: Seconds between checks of quarantined ports.
QUARANTINE_S = 10.0

UNBOUND = "not bound to this host"


class Agent:
    """Report the ports that are really on this host to neutron-server.

    :param host: the name that Neutron calls this host by.
    :param polling_s: seconds between looks at the ports.
    :param report_s: seconds between reports of the agent's state.
    :param crashed: called if a thread meets an unexpected error.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        host: str,
        local: ThisHost,
        server: "Server",
        ports: Ports,
        *,
        polling_s: float,
        report_s: float,
        crashed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._local = local
        self._server = server
        self._ports = ports
        self._polling_s = polling_s
        self._report_s = report_s
        self._monotonic = monotonic
        self._starting = True
        self._driver: Driver | None = None
        self._ports_backoff = Backoff(FIRST_DELAY_S, DELAY_LIMIT_S)
        self._state_backoff = Backoff(FIRST_DELAY_S, DELAY_LIMIT_S)
        self._looking = Worker("ports", self.look, crashed, monotonic)
        self._living = Worker("reports", self.report, crashed, monotonic)
        # A separate thread: it may have to wait for a plug on a parent.
        self.quarantine = Worker(
            "quarantine", self._recheck, crashed, monotonic
        )

    def start(self) -> None:
        """Start all threads."""
        self._living.start()
        self._looking.start()
        self.quarantine.start()

    def stop(self) -> None:
        """Stop the threads, without waiting for calls that block them."""
        self.quarantine.stop()
        self._looking.stop()
        self._living.stop()

    def changed(self) -> None:
        """Look soon, because an interface appeared or disappeared."""
        self._looking.wake(DEBOUNCE_S)

    def touched(self, port: str) -> None:
        """Look now, because neutron-server reports a change of a port."""
        self._ports.touch(port)
        self._looking.wake()

    def resync(self) -> None:
        """Report every port again."""
        self._ports.resync()
        self._looking.wake()

    def report(self) -> float:
        """Report the agent's state; return the seconds until the next."""
        try:
            self._driver = self._local.driver()
            offer = self._local.offer()
            revived = self._server.report(
                offer.to_configurations(), starting=self._starting
            )
        except exceptions.SriovRtError as error:
            return self._failed(
                self._state_backoff, "its state was not reported", error
            )
        if self._starting:
            LOG.info(
                "host=%s reported with parents %s (VFs: %s) for %s",
                self._host,
                dict(offer.parents),
                dict(offer.vfs),
                ", ".join(sorted(offer.kinds)) or "no kind of port",
            )
        if revived or self._state_backoff.failures:
            LOG.info("host=%s resending the status of all ports", self._host)
            self.resync()
        self._starting = False
        self._state_backoff.succeeded()
        return self._report_s

    def _recheck(self) -> float:
        self._local.recheck()
        return QUARANTINE_S

    def look(self) -> float:
        """Report plugged and unplugged ports; return the seconds to wait."""
        if not self._starting and self._local.driver() != self._driver:
            # A new server must not find the host without parents.
            self._living.wake()
        try:
            found = {each.port: each for each in self._local.ports()}
        except exceptions.SriovRtError as error:
            return self._failed(
                self._ports_backoff, "the ports were not read", error
            )
        work = self._ports.look(found, self._monotonic())
        if work == Work():
            return self._polling_s
        try:
            self._report_ports(work, found)
        except exceptions.SriovRtError as error:
            self._ports.lost(work)
            return self._failed(
                self._ports_backoff, "the ports were not reported", error
            )
        self._ports_backoff.succeeded()
        return self._polling_s

    def _report_ports(self, work: Work, found: Mapping[str, Plugged]) -> None:
        requested = (
            self._server.port_states(work.requests) if work.requests else {}
        )
        by: dict[PortState, list[str]] = {each: [] for each in PortState}
        for port in work.requests:
            by[requested.get(port, PortState.ELSEWHERE)].append(port)
        up, down = by[PortState.UP], by[PortState.DOWN]
        refused = self._server.set_status(up, [*down, *work.gone])
        now = self._monotonic()
        for port in work.requests:
            bound = port in up or port in down
            if bound and port not in refused:
                self._ports.reported(port, found[port])
            else:
                self._ports.wait(port, found[port], now)
        self._ports.reported_gone(set(work.gone) - refused)
        self._ports.wait_gone(set(work.gone) & refused, now)
        for word, ports in (
            ("up", up),
            ("down", down),
            ("gone", work.gone),
            (UNBOUND, by[PortState.ELSEWHERE]),
        ):
            self._log(word, ports, found, refused)

    def _log(
        self,
        word: str,
        ports: Sequence[str],
        found: Mapping[str, Plugged],
        refused: frozenset[str],
    ) -> None:
        for port in ports:
            if port in refused:
                LOG.warning(
                    "port=%s host=%s neutron-server rejected its status %s; "
                    "retrying. See neutron-server's log",
                    port,
                    self._host,
                    word,
                )
                continue
            vf = (found[port].vf if port in found else None) or "-"
            # A port without a binding is reported at each look.
            level = logging.DEBUG if word == UNBOUND else logging.INFO
            LOG.log(
                level, "port=%s vf=%s host=%s %s", port, vf, self._host, word
            )

    def _failed(
        self, backoff: Backoff, what: str, error: exceptions.SriovRtError
    ) -> float:
        delay_s = backoff.failed()
        LOG.warning(
            "host=%s %s: %s (again in %.1f s)",
            self._host,
            what,
            error,
            delay_s,
        )
        return delay_s
