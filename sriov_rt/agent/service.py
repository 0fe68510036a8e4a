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

"""The agent: its threads, and what passes between them."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable

from oslo_service.backend import base

from sriov_rt.agent import change_log
from sriov_rt.agent import traits
from sriov_rt.agent.parts import Background
from sriov_rt.agent.parts import Parts
from sriov_rt.agent.parts import Timing
from sriov_rt.agent.worker import Worker
from sriov_rt.facts import HostFacts

LOG = logging.getLogger(__name__)

#: Seconds from a device's first event to the observation: its driver sends
#: a burst of them, and sets up what is to be observed meanwhile.
SETTLE_S = 0.5

#: An observation that takes longer than so many intervals, and than so many
#: seconds, hangs (in a driver's sysfs file, say).
STUCK_INTERVALS = 3
STUCK_S = 60.0

#: Labels that change go out with what the kernel told last, if that is no
#: more than so many intervals ago.
RELABEL_INTERVALS = 2


class Agent(base.ServiceBase):  # type: ignore[misc]
    """Observe the host, and have others told.

    The observing thread waits for nobody: what it finds is handed to
    reconcilers, of which each waits in a thread of its own for the one
    service that it talks to.

    :param parts: see there.
    :param timing: see there.
    :param crashed: called if a thread meets an error it should not.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        parts: Parts,
        timing: Timing,
        crashed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._timing = timing
        self._crashed = crashed
        self._monotonic = monotonic
        self._observed_at = monotonic()
        # Held while facts are made and handed on, so that none overtakes.
        self._telling = threading.Lock()
        self._kernel: HostFacts | None = None
        self._told: HostFacts | None = None
        self._digest = ""
        self._traits: frozenset[str] | None = None
        self._events: tuple[Background, ...] = ()
        self.observing = Worker("observer", self._observe, crashed, monotonic)
        self.relabelling = Worker("labels", self._relabel, crashed, monotonic)
        # Apart, for a disk may hang.
        self.settling = Worker("settler", self._settle, crashed, monotonic)
        self.watching = Worker("watchdog", self._watch, crashed, monotonic)

    def listen_to(self, *events: Background) -> None:
        """Add threads that call :meth:`changed`; before the start."""
        self._events = events

    def start(self) -> None:
        """Start all threads; nothing here waits for another service."""
        try:
            self._start()
        except BaseException:
            # oslo.service would log it, and then wait for a signal.
            self._crashed()
            raise

    def _start(self) -> None:
        parts = self._parts
        self._observed_at = self._monotonic()
        parts.publishing.start()
        if parts.tending is not None:
            parts.tending.start()
        parts.listening.want(True)
        parts.listening.start()
        self.observing.start()
        self.relabelling.start()
        self.settling.start()
        self.watching.start()
        for each in self._events:
            each.start()

    def stop(self) -> None:
        """Say goodbye, within the time that the options give."""
        workers = (self.observing, self.relabelling, self.settling)
        for each in (*self._events, *workers, self.watching):
            each.stop()
        parts = self._parts
        parts.publishing.finish(None)
        parts.listening.finish(False)
        if parts.tending is not None:
            parts.tending.finish(frozenset())
        deadline = self._monotonic() + self._timing.stop_timeout
        if not parts.publishing.join(deadline - self._monotonic()):
            LOG.warning(
                "the schedulers were not told that the agent is gone; they "
                "learn it from the age of its facts"
            )
        if parts.tending is not None and not parts.tending.join(
            deadline - self._monotonic()
        ):
            LOG.warning(
                "the traits in Placement were not withdrawn; start the agent "
                "again, or remove them with 'openstack resource provider "
                "trait'"
            )
        parts.listening.join(deadline - self._monotonic())
        LOG.info("stopped")

    def wait(self) -> None:
        """Return at once: :meth:`stop` has waited."""

    def reset(self) -> None:
        """Observe and report in full now (SIGHUP)."""
        self._parts.publisher.report_in_full()
        self.observing.wake()

    def asked(self) -> None:
        """Observe and report in full soon, all who ask now in one."""
        self._parts.publisher.report_in_full()
        spread = random.uniform(0.0, self._timing.report_spread)  # noqa: S311
        self.observing.wake(spread)

    def changed(self) -> None:
        """Observe soon: a device came or went."""
        self.observing.wake(SETTLE_S)

    def relabel(self, settle_s: float) -> None:
        """Tell of labels that changed, without observing the kernel anew.

        :param settle_s: seconds to wait for more of them.
        """
        self.relabelling.wake(settle_s)

    def _observe(self) -> float:
        kernel = self._parts.observe()
        with self._telling:
            self._kernel = kernel
            self._observed_at = self._monotonic()
            self._tell(kernel)
        return self._timing.observe_interval

    def _relabel(self) -> float:
        limit = RELABEL_INTERVALS * self._timing.observe_interval
        with self._telling:
            age_s = self._monotonic() - self._observed_at
            if self._kernel is not None and age_s <= limit:
                self._tell(self._kernel)
        return math.inf

    def _tell(self, kernel: HostFacts) -> None:
        labels = self._parts.labels
        facts = labels.complete(kernel)
        self._parts.publishing.want(facts)
        found = traits.verdicts(facts, facts.observed_at)
        held = traits.held(found) | labels.traits(facts)
        self._set_traits(held)
        if self._digest != (digest := facts.digest()):
            self._digest = digest
            change_log.log(facts, digest, found, held)
        self._told = facts
        # Who waits for the facts comes first.
        self.settling.wake(SETTLE_S)

    def _settle(self) -> float:
        if self._told is not None:
            self._parts.labels.settle(self._told)
        return math.inf

    def _set_traits(self, held: frozenset[str]) -> None:
        if held != self._traits and self._parts.tending is not None:
            self._parts.tending.want(held)
        self._traits = held

    def _watch(self) -> float:
        limit = max(STUCK_INTERVALS * self._timing.observe_interval, STUCK_S)
        silent = self._monotonic() - self._observed_at
        if silent > limit and self._traits:
            LOG.error(
                "no observation has come to its end for %d s; the traits "
                "are withdrawn, and the schedulers hear nothing, until one "
                "does. See 'dmesg' for a device that hangs",
                silent,
            )
            self._set_traits(frozenset())
        return limit / 2
