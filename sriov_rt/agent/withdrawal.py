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

"""Notification of a latency certificate that counts no more.

It names the instances on this host that were placed here for it. New ones are
refused by the filter; these run on.
"""

import collections
import dataclasses
import logging
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Protocol

from sriov_rt.agent.worker import Worker
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.guest import metadata
from sriov_rt.guest import running
from sriov_rt.guest.metadata import Promise
from sriov_rt.host.root import Root
from sriov_rt.reason import Reason

LOG = logging.getLogger(__name__)

EVENT = "sriov_rt.latency.withdrawn"

#: Notifications that wait while the message queue is down; of more, the
#: oldest are dropped.
MOST_WAITING = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Affected:
    """A running instance that asks for low latency.

    :param instance: its UUID.
    """

    instance: str
    promise: Promise

    def __str__(self) -> str:
        asked = [
            *(["realtime"] if self.promise.realtime else []),
            *(
                []
                if self.promise.max_latency_us is None
                else [f"max_latency_us={self.promise.max_latency_us}"]
            ),
        ]
        return f"{self.instance}({' '.join(asked)})"


@dataclasses.dataclass(frozen=True, slots=True)
class Withdrawal:
    """That the certificate of a host counts no more.

    :param reasons: why, at least one.
    :param instances: that are affected.
    """

    host: str
    node: str
    reasons: tuple[Reason, ...]
    instances: tuple[Affected, ...] | Unknown

    @property
    def sentence(self) -> str:
        """Why, for people."""
        return "; ".join(each.message for each in self.reasons)

    def payload(self) -> dict[str, Any]:
        """Return the payload of the notification."""
        found = self.instances
        why = found.reason if isinstance(found, Unknown) else None
        listed = () if isinstance(found, Unknown) else found
        return {
            "host": self.host,
            "node": self.node,
            "reason": self.sentence,
            "codes": [each.code for each in self.reasons],
            "instances": [
                {
                    "uuid": each.instance,
                    "realtime": each.promise.realtime,
                    "max_latency_us": each.promise.max_latency_us,
                }
                for each in listed
            ],
            "instances_unknown": why,
        }

    def log(self) -> None:
        """Log it in one line, by which host and instance can be found."""
        found = self.instances
        if isinstance(found, Unknown):
            named = f"unknown ({found.reason})"
        else:
            named = ",".join(map(str, found)) or "none"
        LOG.warning(
            "latency certificate withdrawn: host=%s node=%s instances=%s%s",
            self.host,
            self.node,
            named,
            "".join(f" [{each.code}] {each.message}" for each in self.reasons),
        )


def affected(root: Root) -> tuple[Affected, ...] | Unknown:
    """Return the running instances that ask for low latency, sorted."""
    found = []
    for directory in (running.MACHINES, running.CONTAINERS):
        guests = running.guests(root, directory)
        if isinstance(guests, Unknown):
            return guests
        for each in guests:
            promise = metadata.promised(each.domain)
            if promise.realtime or promise.max_latency_us is not None:
                found.append(Affected(each.instance, promise))
    return tuple(sorted(found, key=lambda each: each.instance))


class Withdrawals:
    """Watches whether the host's certificate counts.

    Each withdrawal is notified of once; and again if an instance that asks
    for a latency is found to run that was not named: one that was started
    again with the host, say.

    :param find: returns the instances that are affected.
    :param notify: takes each withdrawal.
    """

    def __init__(
        self,
        find: Callable[[], tuple[Affected, ...] | Unknown],
        notify: Callable[[Withdrawal], None],
    ) -> None:
        self._find = find
        self._notify = notify
        self._counted = False
        self._named: frozenset[str] = frozenset()

    def observe(self, facts: HostFacts, reasons: Sequence[Reason]) -> None:
        """Take what was observed.

        :param reasons: why the host has no certificate that counts; empty if
            it has one.
        """
        if not reasons:
            self._counted, self._named = True, frozenset()
            return
        ceased, self._counted = self._counted, False
        if facts.latency.certificate is None and not ceased:
            # Most hosts never have one.
            return
        found = self._find()
        asking: frozenset[str] = frozenset()
        if not isinstance(found, Unknown):
            asking = frozenset(
                each.instance
                for each in found
                if each.promise.max_latency_us is not None
            )
        if not ceased and asking <= self._named:
            return
        self._named |= asking
        withdrawal = Withdrawal(facts.host, facts.node, tuple(reasons), found)
        withdrawal.log()
        self._notify(withdrawal)


class Notifier(Protocol):
    """oslo.messaging's."""

    def warn(
        self, ctxt: dict[str, Any], event_type: str, payload: dict[str, Any]
    ) -> None:
        """Send one notification; returns when it is sent, or given up."""


class Notifying:
    """Sends notifications in a thread of its own, which alone waits.

    :param notifier: sends them.
    :param crashed: called once if it raises.
    """

    def __init__(
        self, notifier: Notifier, crashed: Callable[[], None]
    ) -> None:
        self._notifier = notifier
        self._waiting: collections.deque[Withdrawal] = collections.deque(
            maxlen=MOST_WAITING
        )
        self.worker = Worker("notifier", self._step, crashed)

    def start(self) -> None:
        """Start the thread."""
        self.worker.start()

    def stop(self) -> None:
        """Let the thread end after what it is sending."""
        self.worker.stop()

    def put(self, withdrawal: Withdrawal) -> None:
        """Have one sent."""
        self._waiting.append(withdrawal)
        self.worker.wake()

    def _step(self) -> float:
        while self._waiting:
            self._notifier.warn({}, EVENT, self._waiting.popleft().payload())
        return math.inf
