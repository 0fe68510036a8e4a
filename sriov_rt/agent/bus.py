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

"""Cast to all schedulers over oslo.messaging."""

import logging
from typing import Any
from typing import Protocol

import oslo_messaging
from oslo_config import cfg

from sriov_rt import messaging
from sriov_rt.agent import reconciler

LOG = logging.getLogger(__name__)


class BusUnreachable(reconciler.NotYet):
    """The message queue did not take a message.

    :param method: what was to be sent.
    :param why: the driver's own words.
    """

    def __init__(self, method: str, why: str) -> None:
        self.method = method
        self.why = why
        super().__init__(
            f"cannot send '{method}' ({why}); see that the message queue "
            "runs and that transport_url names it"
        )


class Caster(Protocol):
    """Who sends messages to all schedulers."""

    def cast(self, method: str, **arguments: Any) -> None:
        """Send one message; raise :class:`BusUnreachable` if it fails."""

    def close(self) -> None:
        """Let go of connections."""


class Bus:
    """A :class:`Caster` on the configured message queue.

    One attempt a message, so that no cast outlasts the driver's timeouts (a
    refused connection fails at once, a silent one after
    ``[oslo_messaging_rabbit] heartbeat_timeout_threshold``); who calls waits
    and tries again. A connection that failed is never used again: some
    releases of kombu reconnect it without an end inside the next cast.

    :param conf: names the queue.
    :raises oslo_messaging.MessagingException: for a malformed transport URL
        or an unknown driver. Nothing is connected yet.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._transport = messaging.transport(conf)

    def cast(self, method: str, **arguments: Any) -> None:
        """Send one message to all schedulers.

        :raises BusUnreachable: if the message queue did not confirm it.
        """
        client = oslo_messaging.get_rpc_client(
            self._transport,
            messaging.target(messaging.REPORT_TOPIC),
            retry=0,
        )
        try:
            client.cast({}, method, **arguments)
        except Exception as error:
            # oslo.messaging lets through what its driver's libraries raise
            # (kombu's, amqp's and socket's errors): there is no common base.
            self.close()
            self._transport = messaging.transport(self._conf)
            raise BusUnreachable(method, str(error)) from error

    def close(self) -> None:
        """Close the connection."""
        try:
            self._transport.cleanup()
        except Exception:
            LOG.debug("closing the connection failed", exc_info=True)
