# SPDX-License-Identifier: Apache-2.0

"""The agent: its threads, and the data that passes between them."""

import dataclasses
import logging
import math
import random
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import Protocol

from oslo_service.backend import base

from sriov_rt.agent.audit import Audit
from sriov_rt.agent.publisher import Publisher
from sriov_rt.agent.withdrawal import Withdrawals
from sriov_rt.facts import PARTS
from sriov_rt.facts import HostFacts
from sriov_rt.labels.service import Labels
from sriov_rt.placement import host_traits
from sriov_rt.reason import Reason
from sriov_rt.service.reconciler import Reconciler
from sriov_rt.service.worker import Worker

LOG = logging.getLogger(__name__)


#: Seconds from a device's first event to the observation: its driver sends a
#: burst of events while it sets up the device.
DEBOUNCE_S = 0.5

#: Seconds between two full reports that schedulers request. Below the
#: schedulers' [sriov_rt] warmup_timeout.
ANSWER_S = 5.0

#: An observation that takes longer than both this number of intervals and this
#: number of seconds hangs (in a driver's sysfs file, say).
STUCK_INTERVALS = 3
STUCK_S = 60.0

#: Changed labels are reported with the kernel's last facts, if these are at
#: most this number of intervals old.
RELABEL_INTERVALS = 2


class Background(Protocol):
    """A thread that runs as long as the agent."""

    def start(self) -> None:
        """Start it."""

    def stop(self) -> None:
        """Stop the thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an agent.

    :param observe: returns the host's facts from its kernel.
    :param publisher: sends the facts, in full if requested.
    :param publishing: sends facts to the schedulers, or "gone" for None.
    :param labels: adds the labels of other sources.
    :param tending: sets traits in Placement; None if that is off.
    :param listening: starts or stops listening to the schedulers.
    :param withdrawals: notifies of a withdrawn certificate.
    :param audit: audits the running guests; None for a host without guests.
    """

    observe: Callable[[], HostFacts]
    labels: Labels
    publisher: Publisher
    publishing: Reconciler[HostFacts | None]
    tending: Reconciler[frozenset[str]] | None
    listening: Reconciler[bool]
    withdrawals: Withdrawals
    audit: Audit | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """The agent's times in seconds, named after its options."""

    observe_interval: float
    report_spread: float
    stop_timeout: float


class Agent(base.ServiceBase):  # type: ignore[misc]
    """The agent: observes the host and reports what it found.

    The observing thread waits for nothing: it hands its facts to reconcilers,
    each of which waits in its own thread for one service.

    :param parts: see :class:`Parts`.
    :param timing: see :class:`Timing`.
    :param crashed: called if a thread meets an unexpected error.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        parts: Parts,
        timing: Timing,
        crashed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self._timing = timing
        self._crashed = crashed
        self._monotonic = monotonic
        self._began_at = time.time()
        self._observed_at = monotonic()
        self._answer_at = -math.inf
        # Held while facts are made and handed on, to keep their order.
        self._reporting = threading.Lock()
        self._kernel: HostFacts | None = None
        self._reported: HostFacts | None = None
        self._digest = ""
        self._traits: frozenset[str] | None = None
        self.beside: tuple[Background, ...] = ()
        self.observing = Worker("observer", self._observe, crashed, monotonic)
        self.relabelling = Worker("labels", self._relabel, crashed, monotonic)
        # In its own thread, since a disk may hang.
        self.storing = Worker("label-store", self._store, crashed, monotonic)
        self.watching = Worker("watchdog", self._watch, crashed, monotonic)

    def run_beside(self, *threads: Background) -> None:
        """Add threads that start and stop with the agent's own.

        Some of them call :meth:`changed`.
        """
        self.beside = threads

    def start(self) -> None:
        """Start all threads; nothing here waits for another service."""
        try:
            self._start()
        except BaseException:
            # oslo.service would log the error and then wait for a signal.
            self._crashed()
            raise

    def _start(self) -> None:
        parts = self.parts
        self._observed_at = self._monotonic()
        parts.publishing.start()
        if parts.tending is not None:
            parts.tending.start()
        parts.listening.set_desired(True)
        parts.listening.start()
        self.observing.start()
        self.relabelling.start()
        self.storing.start()
        self.watching.start()
        for each in self.beside:
            each.start()

    def stop(self) -> None:
        """Report that the agent stops, within ``[agent] stop_timeout``."""
        workers = (self.observing, self.relabelling, self.storing)
        for each in (*self.beside, *workers, self.watching):
            each.stop()
        parts = self.parts
        parts.publishing.finish(None)
        parts.listening.finish(False)
        if parts.tending is not None:
            parts.tending.finish(frozenset())
        deadline = self._monotonic() + self._timing.stop_timeout
        if not parts.publishing.join(deadline - self._monotonic()):
            LOG.warning(
                "the schedulers were not notified that the agent stopped; "
                "they notice when its facts are too old"
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
        self.parts.publisher.report_in_full()
        self.observing.wake()

    def reported(self) -> HostFacts | None:
        """Return the facts that were reported last; None before the first."""
        return self._reported

    def times(self) -> Mapping[str, float]:
        """Return its times, by the metrics that they are; s."""
        found = {
            "sriov_rt_agent_start_timestamp_seconds": self._began_at,
            "sriov_rt_observe_interval_seconds": self._timing.observe_interval,
        }
        if self._reported is not None:
            age_s = self._monotonic() - self._observed_at
            found["sriov_rt_facts_age_seconds"] = age_s
        return found

    def report_requested(self) -> None:
        """Observe and report in full soon; requests until then are joined.

        Reports are at least ANSWER_S apart, however many requests come: a
        sender on the message queue must not be able to keep the host busy.
        """
        self.parts.publisher.report_in_full()
        now = self._monotonic()
        if now < self._answer_at:
            return
        spread = random.uniform(0.0, self._timing.report_spread)  # noqa: S311
        self._answer_at = max(now + spread, self._answer_at + ANSWER_S)
        self.observing.wake(self._answer_at - now)

    def changed(self) -> None:
        """Observe soon, since a device came or went."""
        self.observing.wake(DEBOUNCE_S)

    def relabel(self, delay_s: float) -> None:
        """Report changed labels without observing the kernel again.

        :param delay_s: seconds to wait for further changes.
        """
        self.relabelling.wake(delay_s)

    def _observe(self) -> float:
        kernel = self.parts.observe()
        with self._reporting:
            self._kernel = kernel
            self._observed_at = self._monotonic()
            self._report(kernel)
        return self._timing.observe_interval

    def _relabel(self) -> float:
        limit = RELABEL_INTERVALS * self._timing.observe_interval
        with self._reporting:
            age_s = self._monotonic() - self._observed_at
            if self._kernel is not None and age_s <= limit:
                self._report(self._kernel)
        return math.inf

    def _report(self, kernel: HostFacts) -> None:
        parts = self.parts
        facts = parts.labels.complete(kernel)
        if parts.audit is not None:
            facts = parts.audit.complete(facts)
        parts.publishing.set_desired(facts)
        found = host_traits.verdicts(facts, facts.observed_at)
        fulfilled = host_traits.fulfilled(found) | parts.labels.traits(facts)
        self._set_traits(fulfilled)
        parts.withdrawals.observe(facts, found[host_traits.LATENCY_CERTIFIED])
        if self._digest != (digest := facts.digest()):
            self._digest = digest
            _log_change(facts, self._reported, digest, found, fulfilled)
        self._reported = facts
        # Later, since others wait for the facts.
        self.storing.wake(DEBOUNCE_S)

    def _store(self) -> float:
        if self._reported is not None:
            self.parts.labels.store(self._reported)
        return math.inf

    def _set_traits(self, fulfilled: frozenset[str]) -> None:
        if fulfilled != self._traits and self.parts.tending is not None:
            self.parts.tending.set_desired(fulfilled)
        self._traits = fulfilled

    def _watch(self) -> float:
        limit = max(STUCK_INTERVALS * self._timing.observe_interval, STUCK_S)
        silent = self._monotonic() - self._observed_at
        if silent > limit and self._traits:
            LOG.error(
                "the host scan has not finished for %d s; the traits are "
                "withdrawn and nothing is reported until it does. See "
                "'dmesg' for a device that hangs",
                silent,
            )
            self._set_traits(frozenset())
        return limit / 2


def _changed_parts(before: HostFacts | None, now: HostFacts) -> list[str]:
    """Return the names of the parts that have changed."""
    return [
        part
        for part in PARTS
        if before is not None and getattr(before, part) != getattr(now, part)
    ]


def _log_change(
    facts: HostFacts,
    before: HostFacts | None,
    digest: str,
    found: Mapping[str, tuple[Reason, ...]],
    fulfilled: frozenset[str],
) -> None:
    """Log the host's new state in one line."""
    reasons = found[host_traits.REALTIME]
    LOG.info(
        "facts changed: host=%s node=%s digest=%s parts=%s realtime=%s "
        "traits=%s%s",
        facts.host,
        facts.node,
        digest[:12],
        ",".join(_changed_parts(before, facts)) or "all",
        "no" if reasons else "yes",
        ",".join(sorted(fulfilled)) or "none",
        "".join(f" [{each.code}] {each.message}" for each in reasons),
    )
