# SPDX-License-Identifier: Apache-2.0

"""What happens to the cloud, and what each of it takes."""

import contextlib
import dataclasses
import math
import pathlib
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.scale import broker
from tests.benchmarks.scale import child
from tests.testbed import settings as testbed

#: Hosts whose agents are in one process.
_HOSTS_A_FLEET = 2500
_LEAST_FLEETS = 2

#: Share of the hosts that flap.
FLAPPING = 0.01

#: Seconds from one look at what a worker knows to the next.
_POLL_S = 0.1

#: Seconds that the workers have to learn of every host.
_PATIENCE_S = 300.0

Figures = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Settings:
    """A cloud.

    :param hosts: how many.
    :param interval_s: seconds between observations, and heartbeats.
    :param spread_s: over how many agents spread requested reports.
    :param seconds: how long what goes on for ever is watched.
    :param workers: of nova-scheduler. Beside them is one of Nova's alone:
        what the machine does to a request by itself shows in it.
    """

    hosts: int
    interval_s: float
    spread_s: float
    seconds: float
    workers: int = 2

    def agents(self) -> dict[str, float]:
        """Return the options of the agents."""
        return {
            "observe_interval": self.interval_s,
            "heartbeat_interval": self.interval_s,
            "report_spread": self.spread_s,
        }


class Cloud:
    """Broker, scheduler workers and agents, all of which run.

    :param settings: of the cloud.
    :param state: a directory for the broker.
    """

    def __init__(self, settings: Settings, state: pathlib.Path) -> None:
        self.settings = settings
        self.broker = broker.Broker(state)
        self.broker.start()
        url = testbed.TRANSPORT_URL
        count = max(_LEAST_FLEETS, math.ceil(settings.hosts / _HOSTS_A_FLEET))
        share = math.ceil(settings.hosts / count)
        self.fleets = [
            child.Child(
                "fleet:Fleet",
                url,
                range(first, min(first + share, settings.hosts)),
                settings.agents(),
            )
            for first in range(0, settings.hosts, share)
        ]
        self.workers = [
            child.Child("workers:SchedulerWorker", url, True)
            for _ in range(settings.workers)
        ]
        self.control = child.Child("workers:SchedulerWorker", url, False)
        child.call_all([*self.fleets, *self.workers, self.control], "usage")
        self.control.call("start")

    def stop(self) -> None:
        """End all of it."""
        for each in (*self.fleets, *self.workers, self.control):
            each.stop()
        self.broker.stop()

    def all_heard(
        self, workers: Sequence[child.Child], since: float, key: str = "heard"
    ) -> float:
        """Wait until workers know all hosts.

        :param since: monotonic time of the earliest report that counts, s.
        :param key: ``changed`` to have every host report the change.
        :returns: seconds since then.
        :raises AssertionError: if it takes too long.
        """
        while True:
            found = child.call_all(list(workers), "known", since)
            seconds = time.monotonic() - since
            known = [each[key] for each in found]
            if min(known) == self.settings.hosts:
                return seconds
            assert seconds < _PATIENCE_S, f"{known} hosts {key}"
            time.sleep(_POLL_S)


def _start_agents(cloud: Cloud) -> float:
    child.call_all(cloud.fleets, "start")
    return _watch(cloud)


def _watch(cloud: Cloud) -> float:
    time.sleep(cloud.settings.seconds)
    return cloud.settings.seconds


def _cold(cloud: Cloud) -> float:
    since = time.monotonic()
    cloud.workers[0].call("start")
    return cloud.all_heard(cloud.workers[:1], since)


def _another(cloud: Cloud) -> float:
    since = time.monotonic()
    child.call_all(cloud.workers[1:], "start")
    return cloud.all_heard(cloud.workers, since)


def _change(cloud: Cloud) -> float:
    since = time.monotonic()
    child.call_all(cloud.fleets, "change")
    return cloud.all_heard(cloud.workers, since, "changed")


def _flap(cloud: Cloud) -> float:
    child.call_all(cloud.fleets, "flap", FLAPPING)
    seconds = _watch(cloud)
    child.call_all(cloud.fleets, "flap", 0.0)
    return seconds


def _restart(cloud: Cloud) -> float:
    cloud.broker.stop()
    cloud.broker.start()
    return cloud.all_heard(cloud.workers, time.monotonic())


#: Each leaves the cloud as the next one needs it, and returns how many
#: seconds it took.
_SCENARIOS: dict[str, Callable[[Cloud], float]] = {
    "agents": _start_agents,
    "cold": _cold,
    "another": _another,
    "heartbeats": _watch,
    "change": _change,
    "flap": _flap,
    "restart": _restart,
}

#: The first three make the cloud that the others happen to.
NAMES = tuple(_SCENARIOS)


def run(
    settings: Settings, names: Sequence[str], state: pathlib.Path
) -> list[Figures]:
    """Return the figures of each scenario.

    :param settings: of the cloud.
    :param names: of :data:`NAMES`.
    :param state: an empty directory.
    """
    rows = []
    with _running(settings, state) as cloud:
        for name in NAMES:
            if name not in names:
                continue
            row = _measured(cloud, _SCENARIOS[name])
            rows.append({"hosts": settings.hosts, "scenario": name, **row})
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


@contextlib.contextmanager
def _running(settings: Settings, state: pathlib.Path) -> Iterator[Cloud]:
    cloud = Cloud(settings, state)
    try:
        yield cloud
    finally:
        cloud.stop()


def _measured(cloud: Cloud, scenario: Callable[[Cloud], float]) -> Figures:
    """Return what a scenario took of everything.

    CPU is a share of one CPU: over a second where a scenario is shorter.
    The broker's is told from its start where it was restarted.
    """
    before = _usage(cloud)
    began = time.monotonic()
    seconds = scenario(cloud)
    elapsed = time.monotonic() - began
    after = _usage(cloud)
    taken = [
        {key: each[key] - was[key] for key in ("cpu_s", "messages", "decoded")}
        for was, each in zip(before["workers"], after["workers"], strict=True)
    ]
    broker_s = after["broker"]["cpu_s"] - before["broker"]["cpu_s"]
    if broker_s < 0:
        broker_s = after["broker"]["cpu_s"]
    return {
        "seconds": seconds,
        "elapsed_s": elapsed,
        "workers": taken,
        "worker_memory_mb": [each["memory_mb"] for each in after["workers"]],
        "request_ms": [each["request_ms"] for each in after["workers"]],
        "longest_ms": [each["longest_ms"] for each in after["workers"]],
        "control_ms": after["control"]["request_ms"],
        "control_longest_ms": after["control"]["longest_ms"],
        "broker_cpu_s": broker_s,
        "broker_memory_mb": after["broker"]["memory_mb"],
        "agents_late_s": max(each["late_s"] for each in after["fleets"]),
    }


def _usage(cloud: Cloud) -> Figures:
    return {
        "workers": child.call_all(cloud.workers, "usage"),
        "control": cloud.control.call("usage"),
        "fleets": child.call_all(cloud.fleets, "usage"),
        "broker": cloud.broker.usage(),
    }
