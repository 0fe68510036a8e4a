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

"""What an agent is made of."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from sriov_rt.agent.publisher import Publisher
from sriov_rt.agent.reconciler import Reconciler
from sriov_rt.facts import HostFacts


class Background(Protocol):
    """A thread that only tells the agent something."""

    def start(self) -> None:
        """Start it."""

    def stop(self) -> None:
        """Let it end."""


class Labelling(Protocol):
    """What knows the host's labels beside the kernel's."""

    def complete(self, facts: HostFacts) -> HostFacts:
        """Return facts with the labels of other sources."""

    def traits(self, facts: HostFacts) -> frozenset[str]:
        """Return the traits of a host's labels."""

    def settle(self, facts: HostFacts) -> None:
        """Write down what was told, once it was told."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of.

    :param observe: returns the host's facts, as its kernel tells them.
    :param publisher: says when they are to be sent in full.
    :param publishing: brings them to the schedulers; None is "gone".
    :param labels: adds the labels of other sources.
    :param tending: brings traits to Placement; None where that is off.
    :param listening: listens to the schedulers, or ceases to.
    """

    observe: Callable[[], HostFacts]
    labels: Labelling
    publisher: Publisher
    publishing: Reconciler[HostFacts | None]
    tending: Reconciler[frozenset[str]] | None
    listening: Reconciler[bool]


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """The agent's times, in seconds, as its options name them."""

    observe_interval: float
    report_spread: float
    stop_timeout: float
