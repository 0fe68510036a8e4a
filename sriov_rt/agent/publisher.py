# SPDX-License-Identifier: Apache-2.0

"""Publisher of the host's facts to all schedulers, over oslo.messaging."""

import json
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_config import cfg

from sriov_rt import exceptions
from sriov_rt.facts import MAX_DOCUMENT
from sriov_rt.facts import HostFacts
from sriov_rt.service import messaging
from sriov_rt.service import reconciler

LOG = logging.getLogger(__name__)


class BusUnreachable(reconciler.NotYet):
    """The message queue did not take a message.

    :param method: RPC method of the message.
    :param why: the driver's error message.
    """

    def __init__(self, method: str, why: str) -> None:
        self.method = method
        self.why = why
        super().__init__(
            f"cannot send '{method}' ({why}); {messaging.remedy(why)}"
        )


class Bus:
    """Sender of messages to all schedulers, over the configured queue.

    It makes one attempt per message, so that no cast outlasts the driver's
    timeouts (a refused connection fails at once, a silent one after
    ``[oslo_messaging_rabbit] heartbeat_timeout_threshold``). The caller waits
    and tries again. A failed connection is never used again: some releases of
    kombu would try to reconnect without end inside the next cast.

    :raises oslo_messaging.MessagingException: for a malformed transport URL
        or an unknown driver. Nothing is connected yet.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        # The kernel's host name, since the configuration may be a copy.
        name = f"{socket.gethostname()}/{secrets.token_hex(4)}"
        self._context = {messaging.AGENT: name}
        self._transport = messaging.transport(conf)
        messaging.log_no_listener_once()

    def cast(self, method: str, **arguments: Any) -> None:
        """Send one message to all schedulers.

        :raises BusUnreachable: if the message queue did not confirm it.
        """
        try:
            self._send(method, arguments)
        except BusUnreachable as error:
            if not messaging.nobody_listens(error.why):
                raise
            LOG.info(
                "no scheduler listens; the next one that does asks for all "
                "facts"
            )
            # A listener may have come meanwhile.
            self._send(method, arguments)

    def _send(self, method: str, arguments: dict[str, Any]) -> None:
        client = oslo_messaging.get_rpc_client(
            self._transport,
            messaging.target(messaging.REPORT_TOPIC),
            retry=0,
        )
        try:
            client.cast(self._context, method, **arguments)
        except Exception as error:
            # oslo.messaging passes on the errors of its driver's libraries
            # (kombu, amqp and socket), which have no common base.
            self.close()
            self._transport = messaging.transport(self._conf)
            raise BusUnreachable(method, exceptions.plain(error)) from error

    def close(self) -> None:
        """Close the connection."""
        try:
            self._transport.cleanup()
        except Exception:
            LOG.debug("closing the connection failed", exc_info=True)


class Publisher:
    """Reports of the host: all facts when they changed, else their digest.

    Each call of :meth:`publish` follows an observation, and no heartbeat is
    sent without one: an agent that can no longer observe falls silent, and
    its facts become stale.

    :param host: Nova's name of the host.
    :param node: the name of its resource provider.
    :param heartbeat_s: seconds between heartbeats; there are never more of
        them than observations.
    :param slack_s: seconds by which a heartbeat may be early, so that
        slightly irregular observations do not halve their number.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        host: str,
        node: str,
        bus: Bus,
        *,
        heartbeat_s: float,
        slack_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = {"host": host, "node": node}
        self._bus = bus
        self._heartbeat_s = heartbeat_s - slack_s
        self._monotonic = monotonic
        self._requested = threading.Event()
        self._sent_digest = ""
        self._sent_at = -math.inf

    def report_in_full(self) -> None:
        """Send all facts with the next observation."""
        self._requested.set()

    def publish(self, facts: HostFacts | None) -> None:
        """Send all facts, a heartbeat or nothing, as necessary.

        :param facts: the observed facts; None to report the agent's end.
        :raises BusUnreachable: if the message queue did not accept it.
        """
        if facts is None:
            self._cast("gone")
            return
        digest = facts.digest()
        # Cleared before the cast, and only if it was set, so that a request
        # during the cast is not lost.
        if requested := self._requested.is_set():
            self._requested.clear()
        try:
            if requested or digest != self._sent_digest:
                self._send_facts(facts, digest)
            elif self._monotonic() - self._sent_at >= self._heartbeat_s:
                self._cast("heartbeat", digest=digest)
        except BaseException:
            if requested:
                self._requested.set()
            raise

    def _send_facts(self, facts: HostFacts, digest: str) -> None:
        document = json.dumps(facts.to_plain(), separators=(",", ":"))
        if len(document) > MAX_DOCUMENT:
            LOG.error(
                "facts of host %s are %d bytes and schedulers take at most "
                "%d: no flavor with sriov_rt: extra specs is placed here; "
                "look for the largest part in 'sriov-rt host show --json', "
                "and report a bug",
                facts.host,
                len(document),
                MAX_DOCUMENT,
            )
        self._cast("facts", digest=digest, document=document)
        self._sent_digest = digest
        LOG.debug(
            "facts sent: host=%s node=%s digest=%s bytes=%d",
            facts.host,
            facts.node,
            digest[:12],
            len(document),
        )

    def _cast(self, method: str, **arguments: str) -> None:
        self._bus.cast(method, **self._names, **arguments)
        self._sent_at = self._monotonic()
