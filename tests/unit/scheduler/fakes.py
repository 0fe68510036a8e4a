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
