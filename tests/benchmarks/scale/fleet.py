# SPDX-License-Identifier: Apache-2.0

"""Agents of many hosts in one process.

What each of them sends, and when, is the project's own: its Publisher decides
by the host's facts, its Endpoint by what schedulers request. Only the host is
made up, and what is a process there is an entry in a heap of times here.

The agents of a process share a connection to send, and one to hear; each has
a queue of its own on the topic of ``report_now``, as every agent has.
"""

import collections
import dataclasses
import functools
import heapq
import itertools
import logging
import math
import random
import threading
import time
import typing
from typing import Any

import kombu
import oslo_messaging
from oslo_config import cfg
from oslo_messaging import conffixture

from sriov_rt.agent import assembly
from sriov_rt.agent import listener
from sriov_rt.agent import options
from sriov_rt.agent import publisher
from sriov_rt.agent import service
from sriov_rt.facts import HostFacts
from sriov_rt.service import messaging
from sriov_rt.service.backoff import Backoff
from tests.benchmarks import hosts
from tests.benchmarks.scale import child

#: Hosts of one build differ in names and addresses only.
BUILDS = 4

#: Seconds between two changes of a host that flaps.
FLAP_S = 1.0

#: Seconds in which nobody tries a shared connection again that failed.
_DOWN_S = 0.5

#: oslo.messaging's ``rabbit_transient_queues_ttl``.
_QUEUE_TTL_MS = 1_800_000


def name(number: int) -> str:
    """Return a host's name."""
    return f"compute-{number:05d}.example.org"


class Observation:
    """What a Publisher reads of a host's facts, made when it reads them.

    :param number: the host's.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.host = self.node = name(number)
        self._ksm_run = 0
        self._digest = ""

    def change(self, ksm_run: int | None = None) -> None:
        """Let the host change.

        :param ksm_run: of its kernel; None for the other of 0 and 1.
        """
        self._ksm_run = 1 - self._ksm_run if ksm_run is None else ksm_run
        self._digest = ""

    def facts(self) -> HostFacts:
        """Return the facts as the host's agent would observe them."""
        found = hosts.host(
            self.host, build=self._number % BUILDS, own=self._number + 1
        )
        memory = dataclasses.replace(found.memory, ksm_run=self._ksm_run)
        return dataclasses.replace(found, memory=memory)

    def digest(self) -> str:
        """Return the digest of the facts."""
        self._digest = self._digest or self.facts().digest()
        return self._digest

    def to_plain(self) -> dict[str, Any]:
        """Return the facts as a JSON object."""
        return self.facts().to_plain()


class Agent:
    """One agent: what it observes, what it sends, and when.

    :param number: the host's.
    :param bus: sends its messages.
    :param conf: with the agents' options.
    """

    def __init__(
        self, number: int, bus: "CountingBus", conf: cfg.ConfigOpts
    ) -> None:
        self.observation = Observation(number)
        self.publisher = publisher.Publisher(
            self.observation.host,
            self.observation.node,
            typing.cast(publisher.Bus, bus),
            heartbeat_s=conf.agent.heartbeat_interval,
            slack_s=conf.agent.observe_interval / 2,
        )
        self.backoff = Backoff(assembly.FIRST_DELAY_S, assembly.BUS_LIMIT_S)
        # As in sriov_rt.service.worker: never, while it observes.
        self.due = math.inf
        self.answer_at = 0.0
        self.flaps = False


class CountingBus:
    """The shared connection, with a count of what was sent.

    :param conf: names the message queue.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._bus = publisher.Bus(conf)
        self._down_until = 0.0
        self.sent: collections.Counter[str] = collections.Counter()

    def cast(self, method: str, **arguments: Any) -> None:
        """Send a message.

        :raises publisher.BusUnreachable: if it was not taken.
        """
        if time.monotonic() < self._down_until:
            raise publisher.BusUnreachable(method, "not tried again yet")
        try:
            self._bus.cast(method, **arguments)
        except publisher.BusUnreachable:
            self._down_until = time.monotonic() + _DOWN_S
            self.sent["failed"] += 1
            raise
        self.sent[method] += 1

    def close(self) -> None:
        """Close the connection."""
        self._bus.close()


class Fleet:
    """The agents of some hosts.

    :param url: of the message queue.
    :param numbers: the hosts'.
    :param overrides: of the agents' options, in ``[agent]``.
    """

    target = oslo_messaging.Target(version=messaging.VERSION)

    def __init__(
        self, url: str, numbers: range, overrides: dict[str, float]
    ) -> None:
        logging.basicConfig(level=logging.CRITICAL)
        # Not cfg.CONF, which has Nova's options where Nova was imported.
        self._conf = cfg.ConfigOpts()
        options.register(self._conf)
        self._conf([], default_config_files=[])
        conffixture.ConfFixture(self._conf, url).setUp()
        for option, value in overrides.items():
            self._conf.set_override(option, value, group="agent")
        self._bus = CountingBus(self._conf)
        self._agents = [
            Agent(number, self._bus, self._conf) for number in numbers
        ]
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._heap: list[tuple[float, int, Agent]] = []
        self._order = itertools.count()
        self._latest_s = 0.0
        for agent in self._agents:
            agent.observation.digest()
        _start(self._hear)
        server = f"fleet-{numbers.start}"
        oslo_messaging.get_rpc_server(
            messaging.transport(self._conf),
            messaging.target(messaging.AGENT_TOPIC, server),
            [self],
        ).start(override_pool_size=1)

    def start(self) -> None:
        """Start the agents, as hosts are that were booted at any time."""
        now = time.monotonic()
        for agent in self._agents:
            self._wake(agent, now + self._spread("observe_interval"))
        _start(self._run)

    def report_now(self, context: Any, hosts: Any = None) -> None:
        """Let each agent answer, as :class:`sriov_rt.agent.service.Agent`."""
        for agent in self._agents:
            endpoint = listener.Endpoint(
                agent.observation.host,
                functools.partial(self._requested, agent),
            )
            endpoint.report_now(context, hosts)

    def change(self) -> None:
        """Change every host; each agent finds it when it observes next."""
        with self._lock:
            for agent in self._agents:
                agent.observation.change(1)

    def flap(self, share: float) -> None:
        """Let a share of the hosts change every second, or none for 0."""
        with self._lock:
            for agent in self._agents:
                agent.flaps = False
            chosen = math.ceil(share * len(self._agents))
            for agent in self._agents[:chosen]:
                agent.flaps = True
                self._push(agent, time.monotonic() + FLAP_S)
        self._woken.set()

    def usage(self) -> dict[str, float]:
        """Return what was taken and sent.

        :returns: CPU time and memory, and messages by method, all so far;
            by how many seconds an agent was late at most since the last call.
        """
        late_s, self._latest_s = self._latest_s, 0.0
        return {**child.usage(), **self._bus.sent, "late_s": late_s}

    def _requested(self, agent: Agent) -> None:
        agent.publisher.report_in_full()
        now = time.monotonic()
        if now < agent.answer_at:
            return
        agent.answer_at = max(
            now + self._spread("report_spread"),
            agent.answer_at + service.ANSWER_S,
        )
        self._wake(agent, agent.answer_at)

    def _spread(self, option: str) -> float:
        return random.uniform(0.0, self._conf.agent[option])

    def _wake(self, agent: Agent, due: float) -> None:
        with self._lock:
            self._push(agent, min(agent.due, due))
        self._woken.set()

    def _push(self, agent: Agent, due: float) -> None:
        agent.due = due
        heapq.heappush(self._heap, (due, next(self._order), agent))

    def _run(self) -> None:
        while True:
            agent = self._next()
            if agent is not None:
                self._observe(agent)

    def _next(self) -> Agent | None:
        """Return an agent that is due, or None after a wait."""
        with self._lock:
            now = time.monotonic()
            due, _, agent = self._heap[0]
            if due <= now:
                heapq.heappop(self._heap)
                if agent.due != due:
                    return None
                agent.due = math.inf
                self._latest_s = max(self._latest_s, now - due)
                return agent
        self._woken.wait(due - now)
        self._woken.clear()
        return None

    def _observe(self, agent: Agent) -> None:
        interval = self._conf.agent.observe_interval
        if agent.flaps:
            agent.observation.change()
            interval = FLAP_S
        delay = interval
        try:
            agent.publisher.publish(typing.cast(HostFacts, agent.observation))
            agent.backoff.succeeded()
        except publisher.BusUnreachable:
            delay = agent.backoff.failed()
        # A request that came meanwhile may have named an earlier time.
        self._wake(agent, time.monotonic() + delay)

    def _hear(self) -> None:
        """Have a queue for each agent, and drop what comes there.

        What it says is heard once for all, by :meth:`report_now`.
        """
        while True:
            try:
                self._drain()
            except Exception:  # noqa: BLE001
                # The broker is being restarted: py-amqp's, kombu's and
                # socket's errors have no common base.
                time.sleep(_DOWN_S)

    def _drain(self) -> None:
        url = self._conf.transport_url.replace("rabbit:", "amqp:")
        exchange = kombu.Exchange(
            f"{messaging.AGENT_TOPIC}_fanout",
            "fanout",
            durable=False,
            auto_delete=True,
        )
        with kombu.Connection(url) as connection:
            queues = [
                kombu.Queue(
                    f"{messaging.AGENT_TOPIC}_fanout_{each.observation.host}",
                    exchange,
                    messaging.AGENT_TOPIC,
                    durable=False,
                    queue_arguments={"x-expires": _QUEUE_TTL_MS},
                )
                for each in self._agents
            ]
            consumer = kombu.Consumer(
                connection, queues, no_ack=True, on_message=lambda _: None
            )
            with consumer:
                while True:
                    connection.drain_events()


def _start(target: Any) -> None:
    threading.Thread(target=target, daemon=True).start()
