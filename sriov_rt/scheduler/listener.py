# SPDX-License-Identifier: Apache-2.0

"""Listener for the agents' reports; it also requests them."""

import logging
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_config import cfg

from sriov_rt import codec
from sriov_rt import facts
from sriov_rt.scheduler.facts_table import FactsTable
from sriov_rt.service import messaging

LOG = logging.getLogger(__name__)

#: Seconds between two requests to the agents; requests in between are joined.
REQUEST_INTERVAL_S = 1.0

#: Hosts in one request; the others wait for their next heartbeat. If all were
#: requested instead, a sender of forged heartbeats could make every host
#: report each second.
MAX_REQUESTED = 500

#: Accepted names of hosts, nodes, instances and networks, which are logged: no
#: longer than a host name can be (RFC 1035).
NAME = re.compile(r"[!-~]{1,255}")

#: Refusals that are logged in a period of so many seconds; the others are only
#: counted.
LOGGED = 10
LOGGED_S = 60.0


class _Complaints:
    """Refusals in the log, limited in number so that they cannot fill it."""

    def __init__(self) -> None:
        self._since = -math.inf
        self._count = 0

    def log(self, message: str, *arguments: object) -> None:
        """Log a warning, unless the limit is reached."""
        now = time.monotonic()
        if now - self._since >= LOGGED_S:
            if self._count > LOGGED:
                LOG.warning(
                    "%d more messages refused in the last %d s",
                    self._count - LOGGED,
                    now - self._since,
                )
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= LOGGED:
            LOG.warning(message, *arguments)


class Endpoint:
    """RPC endpoint for agents' reports; see :mod:`sriov_rt.service.messaging`.

    :param request: requests a report from a host.
    """

    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(
        self,
        table: FactsTable,
        request: Callable[[str], None],
    ) -> None:
        self._complaints = _Complaints()
        self._table = table
        self._request = request

    def facts(
        self,
        context: Any,
        host: Any = None,
        node: Any = None,
        digest: Any = None,
        document: Any = None,
    ) -> None:
        """Store all facts of a host, unless they are known already.

        Every worker receives the reports that another one requested at its
        start: decoding unchanged facts would waste 0.8 ms a host.
        """
        if not _named(host, node) or type(document) is not str:
            self._complaints.log(
                "Facts refused: they name no host, or are no text"
            )
            return
        if self._is_of_rivals(context, host) or self._table.confirm(
            host, digest
        ):
            return
        try:
            found = facts.from_json(document)
            if (found.host, found.node) != (host, node):
                raise codec.SchemaError("host", f"{host} expected")
            self._table.put(host, _hex(digest), found)
        except codec.SchemaError as error:
            self._table.refuse(host, str(error))
            self._complaints.log("Facts of host %s refused: %s", host, error)

    def heartbeat(
        self,
        context: Any,
        host: Any = None,
        node: Any = None,
        digest: Any = None,
    ) -> None:
        """Confirm a host's facts, or request its current ones."""
        if not _named(host, node):
            self._complaints.log("Heartbeat refused: it names no host")
            return
        if self._is_of_rivals(context, host):
            return
        if not self._table.confirm(host, digest):
            self._request(host)

    def gone(self, context: Any, host: Any = None, node: Any = None) -> None:
        """Drop a host whose agent was stopped."""
        if _named(host, node):
            self._table.forget(host)
            self._table.rivals.forget(host)

    def _is_of_rivals(self, context: Any, host: str) -> bool:
        """Return whether two agents report as a host; drop the host if so.

        The facts of one machine say nothing about the other.
        """
        rivals = self._table.rivals
        before = rivals.of(host)
        if rivals.hear(host, context.get(messaging.AGENT)):
            # If the other agent still runs, it will report again.
            self._request(host)
        now = rivals.of(host)
        if now and not before:
            LOG.error(
                "Two agents report as host %s (%s), and neither is used until "
                "one stops: remove [DEFAULT] host from a copied sriov-rt.conf "
                "and restart sriov-rt-agent there",
                host,
                now,
            )
        if now:
            self._table.forget(host)
        return bool(now)


def _named(*names: Any) -> bool:
    return all(
        type(name) is str and NAME.fullmatch(name) is not None
        for name in names
    )


def _hex(digest: Any) -> str:
    try:
        if type(digest) is str and len(bytes.fromhex(digest)) == 32:
            return digest
    except ValueError:
        pass
    raise codec.SchemaError("digest", "64 hex digits expected")


class ReportRequests:
    """Requests to agents to report, joined into one message.

    :param cast: sends the message, to hosts by name or to all for None;
        raises if it cannot be sent.
    :param interval_s: seconds between two messages.
    """

    def __init__(
        self,
        cast: Callable[[list[str] | None], None],
        interval_s: float = REQUEST_INTERVAL_S,
    ) -> None:
        self._cast = cast
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._hosts: set[str] = set()
        self._all = False
        self._pending = threading.Event()
        self._stopping = threading.Event()

    def add(self, host: str | None = None) -> None:
        """Request a report from a host, or from all hosts."""
        with self._lock:
            if host is None:
                self._all = True
            elif len(self._hosts) < MAX_REQUESTED:
                self._hosts.add(host)
        self._pending.set()

    def stop(self) -> None:
        """Make :meth:`run` return."""
        self._stopping.set()
        self._pending.set()

    def run(self) -> None:
        """Send the requests until stopped."""
        while True:
            self._pending.wait()
            if self._stopping.is_set():
                return
            self._pending.clear()
            self.send()
            self._stopping.wait(self._interval_s)

    def send(self) -> None:
        """Send one message for all that is requested."""
        with self._lock:
            everyone, hosts = self._all, sorted(self._hosts)
            self._all, self._hosts = False, set()
        if not everyone and not hosts:
            return
        try:
            self._cast(None if everyone else hosts)
        except Exception:
            # oslo.messaging passes on the errors of its driver's libraries
            # (kombu, amqp and socket), which have no common base.
            LOG.warning(
                "No reports requested from the agents; trying again",
                exc_info=True,
            )
            with self._lock:
                self._all |= everyone
                self._hosts.update(hosts)
            self._pending.set()


class Listener:
    """Reports of all agents, through one connection that recovers by itself.

    :param server: a name that is unique among the listeners of this queue,
        and the same after a restart: RabbitMQ keeps a queue of this name.
    :raises oslo_messaging.MessagingException: for a queue that can't be
        used as it is configured.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        server: str,
        table: FactsTable,
    ) -> None:
        self._transport = messaging.transport(conf)
        client = oslo_messaging.get_rpc_client(
            self._transport, messaging.target(messaging.AGENT_TOPIC), retry=3
        )
        self._requests = ReportRequests(
            lambda hosts: client.cast({}, "report_now", hosts=hosts)
        )
        own = messaging.target(messaging.REPORT_TOPIC, server)
        self._to_itself = oslo_messaging.get_rpc_client(
            self._transport, own, retry=0
        )
        self._server = oslo_messaging.get_rpc_server(
            self._transport,
            own,
            [Endpoint(table, self._requests.add)],
        )

    def run(self) -> None:
        """Listen until stopped; first request a report from every agent."""
        # One thread: of two reports from a host the later one must win.
        self._server.start(override_pool_size=1)
        self._requests.add()
        self._requests.run()
        messaging.stop(self._server, self._to_itself, "gone")
        self._transport.cleanup()

    def stop(self) -> None:
        """Make :meth:`run` return. Safe in any thread."""
        self._requests.stop()
