# SPDX-License-Identifier: Apache-2.0

"""Clocks and hosts for the tests of the scheduler's side."""

import dataclasses

from sriov_rt.facts import HostFacts
from sriov_rt.scheduler.facts_table import FactsTable

MAX_AGE_S = 60.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time, seconds."""
        return self.now


@dataclasses.dataclass(frozen=True)
class HostState:
    """What the filter reads of Nova's HostState."""

    host: str


def states(*names: str) -> list[HostState]:
    """Return a HostState of each name."""
    return [HostState(name) for name in names]


def put(table: FactsTable, facts: HostFacts) -> bool:
    """Put a host's facts into a table, as its agent's report does."""
    return table.put(facts.host, facts.digest(), facts)
