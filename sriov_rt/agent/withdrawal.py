# SPDX-License-Identifier: Apache-2.0

"""Notification of a latency certificate that is no longer valid.

It names the instances that were placed on this host because of it. The filter
refuses new ones, while these keep running.
"""

import collections
import dataclasses
import logging
import math
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import oslo_messaging

from sriov_rt import codec
from sriov_rt import exceptions
from sriov_rt import files
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostFacts
from sriov_rt.facts import LatencyCertificate
from sriov_rt.facts import certificate
from sriov_rt.facts.culprit import Culprit
from sriov_rt.guest import metadata
from sriov_rt.guest import running
from sriov_rt.guest.metadata import Promise
from sriov_rt.host.latency import Status
from sriov_rt.host.root import Root
from sriov_rt.reason import Reason
from sriov_rt.service.worker import Worker

LOG = logging.getLogger(__name__)

EVENT = "sriov_rt.latency.withdrawn"

#: Most notifications that wait while the message queue is down; then the
#: oldest are dropped.
MOST_WAITING = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Affected:
    """A running instance that requests low latency.

    :param instance: its UUID.
    """

    instance: str
    promise: Promise

    def __str__(self) -> str:
        promises = [
            *(["realtime"] if self.promise.realtime else []),
            *(
                []
                if self.promise.max_latency_us is None
                else [f"max_latency_us={self.promise.max_latency_us}"]
            ),
        ]
        return f"{self.instance}({' '.join(promises)})"


@dataclasses.dataclass(frozen=True, slots=True)
class Withdrawal:
    """Loss of a host's valid certificate.

    :param reasons: why it is not valid, at least one.
    :param culprit: culprit of the sample that withdrew it; None if none did.
    """

    host: str
    node: str
    reasons: tuple[Reason, ...]
    instances: tuple[Affected, ...] | Unknown
    culprit: Culprit | None = None

    event = EVENT

    @property
    def sentence(self) -> str:
        """The reasons as text, for people."""
        return "; ".join(each.message for each in self.reasons)

    def payload(self) -> dict[str, Any]:
        """Return the payload of the notification."""
        found = self.instances
        why = found.reason if isinstance(found, Unknown) else None
        listed = () if isinstance(found, Unknown) else found
        named = self.culprit
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
            **({"culprit": codec.to_plain(named)} if named else {}),
        }

    def log(self) -> None:
        """Log it in one line, with its host and instances."""
        found = self.instances
        if isinstance(found, Unknown):
            named = f"unknown ({found.reason})"
        else:
            named = ",".join(map(str, found)) or "none"
        LOG.warning(
            "latency certificate withdrawn: host=%s node=%s instances=%s%s%s",
            self.host,
            self.node,
            named,
            "".join(f" [{each.code}] {each.message}" for each in self.reasons),
            f"; {self.culprit.sentence}" if self.culprit else "",
        )


def affected(root: Root) -> tuple[Affected, ...] | Unknown:
    """Return the running instances that request low latency, sorted."""
    found = []
    guests = running.every(root)
    if isinstance(guests, Unknown):
        return guests
    for each in guests:
        promise = metadata.promised(each.domain)
        if promise.realtime or promise.max_latency_us is not None:
            found.append(Affected(each.instance, promise))
    return tuple(sorted(found, key=lambda each: each.instance))


class Keeper:
    """Records on disk that a condition of the certificate has changed.

    The certificate is root's, and the agent is not. Once is enough: it stays
    withdrawn when the condition is as before; how often that went to and fro
    is counted. What cannot be written is kept in memory, and tried again at
    each observation.
    """

    def __init__(self) -> None:
        self._problem = ""
        self._unwritten: certificate.Withdrawal | None = None

    def keep(self, root: Root, status: Status) -> Status:
        """Record a withdrawal, and return the certificate's new status.

        An error on writing is logged once.
        """
        on_disk, unwritten = status.kept, self._unwritten
        if (
            on_disk is None
            and unwritten is not None
            and unwritten.digest == status.certificate.digest
        ):
            status = dataclasses.replace(status, kept=unwritten)
        after = _kept(status)
        if after is None or after == on_disk:
            self._problem = ""
            return status
        try:
            path = root.path / certificate.WITHDRAWAL_PATH
            files.make_directory(path.parent)
            data = certificate.withdrawal_to_bytes(after)
            files.replace(path, data, 0o644, durable=True)
        except OSError as error:
            if self._problem != str(error):
                self._problem = str(error)
                LOG.error(
                    "the withdrawal of the latency certificate cannot be "
                    "written (%s): it ends with this agent; %s",
                    exceptions.plain(error),
                    files.remedy(
                        error,
                        "let the agent's user write the file's directory",
                    ),
                )
            self._unwritten = after
            return dataclasses.replace(status, kept=after)
        self._problem, self._unwritten = "", None
        return dataclasses.replace(status, kept=after)


def _kept(status: Status) -> certificate.Withdrawal | None:
    """Return the withdrawal that should be on disk; None for none."""
    found, before, changes = status.certificate, status.kept, status.changes
    if found.withdrawn or isinstance(before, Unknown):
        return None  # which withdraws it as well
    if before is None:
        if not changes:
            return None
        return certificate.Withdrawal(found.digest, changes, time.time())
    if bool(changes) != before.is_restored:
        return before
    return dataclasses.replace(
        before, times=before.times + bool(changes), is_restored=not changes
    )


class Withdrawals:
    """Watches whether the host's certificate is valid.

    It sends one notification of each withdrawal, even if the same certificate
    becomes valid again. It sends another one if it finds a running instance
    that requests a latency and was not named before: one that was started
    again with the host, say.

    :param find: returns the affected instances.
    """

    def __init__(
        self,
        find: Callable[[], tuple[Affected, ...] | Unknown],
        notify: Callable[[Withdrawal], None],
    ) -> None:
        self._find = find
        self._notify = notify
        self._counted = False
        # Expiry of the withdrawn certificate, which identifies it.
        self._withdrawn = math.nan
        self._named: frozenset[str] = frozenset()

    def observe(self, facts: HostFacts, reasons: Sequence[Reason]) -> None:
        """Handle an observation.

        :param reasons: why the host has no valid certificate; empty if it has
            one.
        """
        found = facts.latency.certificate
        expires_at = math.nan
        if isinstance(found, LatencyCertificate):
            expires_at = found.expires_at
        if not reasons:
            if expires_at != self._withdrawn:
                self._counted, self._named = True, frozenset()
            return
        ceased, self._counted = self._counted, False
        if ceased:
            self._withdrawn = expires_at
        if facts.latency.certificate is None and not ceased:
            # Most hosts never have a certificate.
            return
        affected = self._find()
        promised: frozenset[str] = frozenset()
        if not isinstance(affected, Unknown):
            promised = frozenset(
                each.instance
                for each in affected
                if each.promise.max_latency_us is not None
            )
        if not ceased and promised <= self._named:
            return
        self._named |= promised
        named = None
        if isinstance(found, LatencyCertificate):
            named = found.culprit
        withdrawal = Withdrawal(
            facts.host, facts.node, tuple(reasons), affected, named
        )
        withdrawal.log()
        self._notify(withdrawal)


class Notification(Protocol):
    """Notification of an event on this host.

    :cvar event: the type of the notification.
    """

    @property
    def event(self) -> str:
        """Return the type of the notification."""

    def payload(self) -> dict[str, Any]:
        """Return its payload."""


class Notifying:
    """Sends notifications in its own thread, so that only it waits.

    :param crashed: called once if the thread raises.
    """

    def __init__(
        self, notifier: oslo_messaging.Notifier, crashed: Callable[[], None]
    ) -> None:
        self._notifier = notifier
        self._waiting: collections.deque[Notification] = collections.deque(
            maxlen=MOST_WAITING
        )
        self.worker = Worker("notifier", self._step, crashed)

    def start(self) -> None:
        """Start the thread."""
        self.worker.start()

    def stop(self) -> None:
        """Stop the thread after its present notification."""
        self.worker.stop()

    def put(self, notification: Notification) -> None:
        """Queue a notification."""
        self._waiting.append(notification)
        self.worker.wake()

    def _step(self) -> float:
        while self._waiting:
            each = self._waiting.popleft()
            self._notifier.warn({}, each.event, each.payload())
        return math.inf
