# SPDX-License-Identifier: Apache-2.0

"""Ports of this host, and their status as reported to neutron-server."""

import dataclasses
import enum
import threading
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from sriov_rt.vif.model import Plugged


class PortState(enum.Enum):
    """Desired state of a port."""

    UP = enum.auto()
    #: Its administrative state is down.
    DOWN = enum.auto()
    #: Unknown, or still bound to another host.
    ELSEWHERE = enum.auto()


def port_state(details: Mapping[str, Any]) -> PortState:
    """Return the desired state of a port.

    :param details: details from neutron-server (_get_device_details in
        neutron/plugins/ml2/rpc.py), without ``port_id`` if the port is
        unknown, unbound or not bound here.
    """
    if "port_id" not in details:
        return PortState.ELSEWHERE
    return PortState.UP if details.get("admin_state_up") else PortState.DOWN


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Ports to request from neutron-server, and ports to report to it.

    :param requests: ports on this host that are new or may have changed.
    :param gone: reported ports that are no longer on this host.
    """

    requests: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class Ports:
    """Reported ports, compared with existing ones; pure but for its lock.

    One thread looks and reports; threads of the message queue call touch().

    :param retry_s: seconds until a port is requested again that has no active
        binding here, or that neutron-server refused.
    """

    def __init__(self, retry_s: float) -> None:
        self._retry_s = retry_s
        self._lock = threading.Lock()
        self._reported: dict[str, Plugged] = {}
        self._again: dict[str, tuple[Plugged, float]] = {}
        self._gone: dict[str, float] = {}
        self._touched: set[str] = set()
        self._resync = False

    def touch(self, port: str) -> None:
        """Request the state of a port again, if it is on this host."""
        with self._lock:
            self._touched.add(port)

    def resync(self) -> None:
        """Report every port again: neutron-server may have lost it."""
        with self._lock:
            self._resync = True

    def look(self, present: Mapping[str, Plugged], now: float) -> Work:
        """Return the work to do.

        :param present: the ports on this host, by UUID.
        :param now: time of the clock, seconds.
        """
        with self._lock:
            touched, self._touched = self._touched, set()
            everything, self._resync = self._resync, False
        if everything:
            touched |= present.keys()
        for port in self._reported.keys() - present.keys():
            del self._reported[port]
            self._gone[port] = now
        for port in self._again.keys() - present.keys():
            del self._again[port]
        for port in self._gone.keys() & present.keys():
            # It came back before it was reported as gone.
            del self._gone[port]
        return Work(
            requests=tuple(
                port
                for port, plugged in present.items()
                if port in touched or self._is_due(port, plugged, now)
            ),
            gone=tuple(
                port for port, again in self._gone.items() if again <= now
            ),
        )

    def _is_due(self, port: str, plugged: Plugged, now: float) -> bool:
        # A port that was unplugged and plugged again between two looks
        # differs, for example in the number of its tap.
        if self._reported.get(port) == plugged:
            return False
        before, again = self._again.get(port, (None, now))
        return before != plugged or again <= now

    def reported(self, port: str, plugged: Plugged) -> None:
        """Note that a port's current status was reported."""
        self._reported[port] = plugged
        self._again.pop(port, None)

    def wait(self, port: str, plugged: Plugged, now: float) -> None:
        """Schedule another request of a port's state."""
        self._reported.pop(port, None)
        self._again[port] = (plugged, now + self._retry_s)

    def reported_gone(self, ports: Iterable[str]) -> None:
        """Note that ports were reported as gone."""
        for port in ports:
            self._gone.pop(port, None)

    def wait_gone(self, ports: Iterable[str], now: float) -> None:
        """Schedule another report that ports are gone."""
        for port in ports:
            self._gone[port] = now + self._retry_s

    def lost(self, work: Work) -> None:
        """Note that neutron-server was not reached: repeat all the work."""
        with self._lock:
            self._touched |= set(work.requests)
