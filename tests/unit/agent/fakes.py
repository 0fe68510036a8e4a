# SPDX-License-Identifier: Apache-2.0

"""A clock and what else the agent's parts are given in tests."""

import dataclasses
import time
from collections.abc import Callable

from sriov_rt.facts import HostFacts
from sriov_rt.service.backoff import Backoff


class Clock:
    """A monotonic clock that a test moves, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Crash:
    """Counts the crashes that it is told of."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


class FakeLabels:
    """Labels that a test gives a host.

    :ivar values: of its labels; none for those that it has.
    :ivar found: the traits of its labels.
    :ivar stored: facts that were reported.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.found: frozenset[str] = frozenset()
        self.stored: list[HostFacts] = []

    def complete(self, facts: HostFacts) -> HostFacts:
        if not self.values:
            return facts
        labels = dataclasses.replace(facts.labels, values=self.values)
        return dataclasses.replace(facts, labels=labels)

    def traits(self, facts: HostFacts) -> frozenset[str]:
        return self.found

    def store(self, facts: HostFacts) -> None:
        self.stored.append(facts)


def backoff(first_s: float = 1.0, limit_s: float = 8.0) -> Backoff:
    """Return a Backoff that always takes the longest delay."""
    return Backoff(first_s, limit_s, lambda low, high: high)


def wait_for(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait until something another thread does is done."""
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
