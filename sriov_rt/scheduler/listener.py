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

"""Hear what the agents report, and ask them to report."""

import logging
import threading
from collections.abc import Callable
from typing import Any
from typing import Protocol

import oslo_messaging
from oslo_config import cfg

from sriov_rt import codec
from sriov_rt import facts
from sriov_rt import messaging
from sriov_rt.scheduler.asker import Asker
from sriov_rt.scheduler.placements import Placement
from sriov_rt.scheduler.teller import Teller

LOG = logging.getLogger(__name__)

#: Longest host name that is taken (RFC 1035), and longest node name.
MAX_NAME = 255


#: Most networks of one instance that are taken: some PCI slots' worth.
MAX_NETWORKS = 64


def _passed_over(placement: Placement) -> None:
    """Do nothing: not everyone who hears the agents places instances."""


class Sink(Protocol):
    """Where reports go; see :class:`sriov_rt.scheduler.table.FactsTable`."""

    def put(self, host: str, digest: str, facts: facts.HostFacts) -> bool:
        """Take in a host's facts; False if there is no room."""

    def confirm(self, host: str, digest: str) -> bool:
        """Note that facts hold; False if these are not the host's."""

    def forget(self, host: str) -> None:
        """Drop a host."""


class Endpoint:
    """The methods that are called; see :mod:`sriov_rt.messaging`.

    :param sink: where the reports go.
    :param want: asks a host to report.
    :param heard: called after each report.
    :param placed: takes what another scheduler placed.
    :param sender: what this one placed comes from.
    """

    target = oslo_messaging.Target(version=messaging.PLACED_VERSION)

    def __init__(
        self,
        sink: Sink,
        want: Callable[[str], None],
        heard: Callable[[], None],
        placed: Callable[[Placement], None] = _passed_over,
        sender: str = "",
    ) -> None:
        self._sender = sender
        self._sink = sink
        self._want = want
        self._heard = heard
        self._placed = placed

    def facts(
        self,
        context: Any,
        host: Any = None,
        node: Any = None,
        digest: Any = None,
        document: Any = None,
    ) -> None:
        """Take in all facts of a host."""
        if not _named(host, node) or type(document) is not str:
            LOG.warning("Facts refused: they name no host, or are no text")
            return
        try:
            found = facts.from_json(document)
            if (found.host, found.node) != (host, node):
                raise codec.SchemaError("host", f"{host} expected")
            self._sink.put(host, _hex(digest), found)
        except codec.SchemaError as error:
            # What the host was is no longer what it is: without facts that
            # can be read, it serves no realtime.
            self._sink.forget(host)
            LOG.warning("Facts of host %s refused: %s", host, error)
        self._heard()

    def heartbeat(
        self,
        context: Any,
        host: Any = None,
        node: Any = None,
        digest: Any = None,
    ) -> None:
        """Note that a host's facts hold, or ask it for those that do."""
        if not _named(host, node):
            LOG.warning("Heartbeat refused: it names no host")
            return
        if not self._sink.confirm(host, digest):
            self._want(host)
        self._heard()

    def gone(self, context: Any, host: Any = None, node: Any = None) -> None:
        """Drop a host whose agent was stopped."""
        if _named(host, node):
            self._sink.forget(host)

    def placed(
        self,
        context: Any,
        host: Any = None,
        instance: Any = None,
        networks: Any = None,
        sender: Any = None,
    ) -> None:
        """Note what another scheduler placed."""
        if sender == self._sender:
            return
        if (
            type(networks) is not list
            or len(networks) > MAX_NETWORKS
            or not _named(host, instance, *networks)
        ):
            LOG.warning("Placement refused: it is not in the form of one")
            return
        self._placed(Placement(host, instance, tuple(networks)))


def _named(*names: Any) -> bool:
    return all(
        type(name) is str and 0 < len(name) <= MAX_NAME for name in names
    )


def _hex(digest: Any) -> str:
    try:
        if type(digest) is str and len(bytes.fromhex(digest)) == 32:
            return digest
    except ValueError:
        pass
    raise codec.SchemaError("digest", "64 hex digits expected")


class Listener:
    """Hear all agents, through one connection that heals by itself.

    :param conf: names the message queue.
    :param server: a name that is unique among the listeners of this queue,
        and the same after a restart: RabbitMQ keeps a queue by this name.
    :param sink: where the reports go.
    :param heard: called after each report.
    :param placed: takes what other schedulers placed.
    :param teller: has what this one placed; None if it places nothing.
    :raises oslo_messaging.MessagingException: for a queue that can't be
        used as it is configured.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        server: str,
        sink: Sink,
        heard: Callable[[], None],
        placed: Callable[[Placement], None] = _passed_over,
        teller: Teller | None = None,
    ) -> None:
        self._teller = teller
        self._transport = messaging.transport(conf)
        client = oslo_messaging.get_rpc_client(
            self._transport, messaging.target(messaging.AGENT_TOPIC), retry=3
        )
        self._asker = Asker(
            lambda hosts: client.cast({}, "report_now", hosts=hosts)
        )
        sender = "" if teller is None else teller.sender
        self._server = oslo_messaging.get_rpc_server(
            self._transport,
            messaging.target(messaging.REPORT_TOPIC, server),
            [Endpoint(sink, self._asker.want, heard, placed, sender)],
        )

    def run(self) -> None:
        """Hear the agents until stopped; ask them all to report at first."""
        # One thread: of two reports of a host the later one has to win.
        self._server.start(override_pool_size=1)
        self._asker.want()
        telling = self._start_telling()
        self._asker.run()
        if self._teller is not None and telling is not None:
            self._teller.stop()
            telling.join()
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()

    def stop(self) -> None:
        """Let :meth:`run` return. Safe in any thread."""
        self._asker.stop()

    def _start_telling(self) -> threading.Thread | None:
        if self._teller is None:
            return None
        client = oslo_messaging.get_rpc_client(
            self._transport, messaging.target(messaging.REPORT_TOPIC), retry=0
        ).prepare(version=messaging.PLACED_VERSION)

        sender = self._teller.sender

        def cast(placement: Placement) -> None:
            client.cast(
                {},
                "placed",
                host=placement.host,
                instance=placement.instance,
                networks=list(placement.networks),
                sender=sender,
            )

        thread = threading.Thread(
            target=self._teller.run,
            args=(cast,),
            name="sriov-rt-placed",
            daemon=True,
        )
        thread.start()
        return thread
