# SPDX-License-Identifier: Apache-2.0

"""What the agents of a cloud do, without hosts that they would observe."""

import json
import threading
import time
from typing import Any

import oslo_messaging
from oslo_config import cfg

from sriov_rt.facts import HostFacts
from sriov_rt.service import messaging


class Agents:
    """Stands for the agents: sends facts when asked to, and when told to.

    :param conf: names the message queue.
    """

    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.asked = threading.Event()
        self.known: dict[str, HostFacts] = {}
        self.delay_s = 0.0
        self._transport = messaging.transport(conf)
        self._client = oslo_messaging.get_rpc_client(
            self._transport, messaging.target(messaging.REPORT_TOPIC)
        )
        self._server = oslo_messaging.get_rpc_server(
            self._transport,
            messaging.target(messaging.AGENT_TOPIC, "agents"),
            [self],
        )
        self._server.start()

    def report_now(self, context: Any, hosts: Any) -> None:
        """Send all facts, as the schedulers want."""
        time.sleep(self.delay_s)
        for facts in tuple(self.known.values()):
            self.send(facts)
        self.asked.set()

    def send(self, facts: HostFacts) -> None:
        """Send a host's facts to the schedulers."""
        self._client.cast(
            {},
            "facts",
            host=facts.host,
            node=facts.node,
            digest=facts.digest(),
            document=json.dumps(facts.to_plain()),
        )

    def stop(self) -> None:
        """Answer no more."""
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()
