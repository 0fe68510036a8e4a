# SPDX-License-Identifier: Apache-2.0

"""Listener for the schedulers' requests to report."""

import logging
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_config import cfg

from sriov_rt import exceptions
from sriov_rt.service import messaging
from sriov_rt.service import reconciler

LOG = logging.getLogger(__name__)


class ListenFailed(reconciler.NotYet):
    """The message queue does not let the agent listen."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(
            f"cannot listen for report_now ({why}); {messaging.remedy(why)}"
        )


class Endpoint:
    """The methods of the agents' topic.

    :param requested: called when a scheduler requests this host's facts.
    """

    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(self, host: str, requested: Callable[[], None]) -> None:
        self._host = host
        self._requested = requested

    def report_now(self, context: Any, hosts: Any = None) -> None:
        """Report the facts now if the message names this host.

        :param context: context of the RPC request; not used.
        :param hosts: a list of host names, or None for all hosts.
        """
        if hosts is None or (isinstance(hosts, list) and self._host in hosts):
            self._requested()


class Listener:
    """The RPC server on the agents' topic.

    :param host: the server's name, after which its queue is named. One host
        has one agent; a new name at each start would leave a queue behind at
        each stop, since oslo.messaging never deletes these queues.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, host: str, endpoint: Endpoint
    ) -> None:
        self._transport = messaging.transport(conf)
        self._target = messaging.target(messaging.AGENT_TOPIC, host)
        self._endpoint = endpoint
        self._server: Any = None

    def set_listening(self, listening: bool) -> None:
        """Start or stop listening; a started listener reconnects by itself.

        Blocks while the message queue is down.

        :raises ListenFailed: if the message queue refuses.
        """
        if listening and self._server is None:
            server = oslo_messaging.get_rpc_server(
                self._transport, self._target, [self._endpoint]
            )
            try:
                # One thread is enough, since a request only sets a flag.
                server.start(override_pool_size=1)
            except Exception as error:
                # As in publisher.Bus.cast, errors have no common base.
                raise ListenFailed(exceptions.plain(error)) from error
            self._server = server
            LOG.info("listening for report_now: host=%s", self._target.server)
        elif not listening and self._server is not None:
            server, self._server = self._server, None
            client = oslo_messaging.get_rpc_client(
                self._transport, self._target, retry=0
            )
            messaging.stop(server, client, "report_now", hosts=[])
            self._transport.cleanup()
