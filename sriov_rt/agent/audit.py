# SPDX-License-Identifier: Apache-2.0

"""Audit of the guests that run on this host, once a minute.

It never changes a guest. Its findings become facts of the host, lines in the
log and notifications.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.decide import audit
from sriov_rt.exceptions import SriovRtError
from sriov_rt.facts import CpuSet
from sriov_rt.facts import DecisiveFacts
from sriov_rt.facts import HostFacts
from sriov_rt.facts import decisive
from sriov_rt.facts.guests import AuditFacts
from sriov_rt.facts.guests import Drift
from sriov_rt.facts.guests import GuestOnload
from sriov_rt.facts.guests import GuestThread
from sriov_rt.facts.guests import KubeletCpus
from sriov_rt.facts.guests import RunningGuest
from sriov_rt.guest import running
from sriov_rt.guest import state
from sriov_rt.guest.running import Guest
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.host import kubelet
from sriov_rt.host import occupancy
from sriov_rt.host import reserved_devices
from sriov_rt.host.root import Root
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.service.worker import Worker

LOG = logging.getLogger(__name__)

#: Version of the payload, raised when a reader of the old one would misread
#: the new one.
VERSION = "1.0"

EVENT = "sriov_rt.guest.drift"

#: Drifts that are reported; the log has all of them.
MAX_DRIFTS = 256

_UNKNOWN = Unknown("no audit has finished yet")

#: Finds the VFs of a host that were changed: who has each, or an empty text,
#: and the Reason.
FindChanged = Callable[[Root], Iterable[tuple[str, Reason]]]


def no_changes(_root: Root) -> Iterable[tuple[str, Reason]]:
    """Find none: what says so is in a room beside."""
    return ()


@dataclasses.dataclass(frozen=True, slots=True)
class Drifted:
    """Changes between two audits of a host.

    :param found: new drifts.
    :param mended: drifts that have gone.
    """

    host: str
    node: str
    found: tuple[Drift, ...]
    mended: tuple[Drift, ...]

    event = EVENT

    def payload(self) -> dict[str, Any]:
        """Return the payload of the notification."""
        return {
            "version": VERSION,
            "host": self.host,
            "node": self.node,
            "found": [dataclasses.asdict(each) for each in self.found],
            "mended": [dataclasses.asdict(each) for each in self.mended],
        }

    def log(self) -> None:
        """Log each drift in one line, with instance and host.

        A drift without an instance is the host's.
        """
        for each in self.found:
            LOG.warning(
                "%s drifted: %s [%s] %s",
                "guest" if each.instance else "host",
                self._about(each),
                each.code,
                each.message,
            )
        for each in self.mended:
            LOG.info(
                "%s is as promised again: %s [%s]",
                "guest" if each.instance else "host",
                self._about(each),
                each.code,
            )

    def _about(self, drift: Drift) -> str:
        host = f"host={self.host}"
        if not drift.instance:
            return host
        return f"instance={drift.instance} {host}"


def observe(
    root: Root,
    facts: HostFacts,
    kubelet_directory: str = kubelet.DIRECTORY,
    find_changed: FindChanged = no_changes,
) -> list[Drift] | Unknown:
    """Return the drifts of running guests; ``since`` is 0 in each.

    :param kubelet_directory: where the kubelet keeps its state.
    :param find_changed: finds the VFs that were changed behind who has them.
    """
    guests = running.every(root)
    if isinstance(guests, Unknown):
        return guests
    host = decisive(facts)
    owners = _owners(root, guests)
    observed = tuple(_observe(root, guests, owners))
    cpus = CpuSet().union(*(each.realtime_cpus for each in observed))
    others = tuple(occupancy.on_cpus(root, owners, cpus))
    known = known_or(facts.onload.workloads, ())
    accelerations = {
        each.instance: GuestOnload(each.state, each.why) for each in known
    }
    return [
        *(
            _drift(each.instance, why)
            for each in observed
            for why in audit.why_not(
                each, host, others, accelerations.get(each.instance)
            )
        ),
        *pods(kubelet.observe(root, kubelet_directory), host, cpus),
        *quarantined(facts),
        *lost(facts),
        *changed(root, find_changed),
        *reserved(root, time.time()),
    ]


def pods(
    found: KubeletCpus | Unknown, host: DecisiveFacts, cpus: CpuSet
) -> Iterator[Drift]:
    """Yield the drifts of pods, with a pod's UID as the instance.

    :param cpus: pCPUs of realtime guests.
    """
    if isinstance(found, Unknown):
        yield _drift("", reason("pod_cpus_unknown", why=found.reason))
        return
    for pod, why in audit.pods(found, host, cpus):
        yield _drift(pod, why)


def quarantined(facts: HostFacts) -> Iterator[Drift]:
    """Yield a drift for each quarantined port and VF."""
    for each in known_or(facts.vifs.quarantined, ()):
        why = audit.quarantined(each)
        yield _drift(each.instance, why)
    for vf in known_or(facts.vifs.holders, ()):
        if vf.why:
            yield _drift("", audit.vf_quarantined(vf))


def lost(facts: HostFacts) -> Iterator[Drift]:
    """Yield a drift for each lost port, whose VF or NIC is gone."""
    for each in known_or(facts.vifs.lost, ()):
        why = audit.lost(each)
        yield Drift(
            each.instance, why.code, each.port, why.message, why.remedy, 0.0
        )


def changed(root: Root, find: FindChanged) -> Iterator[Drift]:
    """Yield a drift for each VF that was changed behind who has it."""
    try:
        found = find(root)
    except SriovRtError as error:
        yield _drift("", reason("vfs_unknown", why=str(error)))
        return
    for instance, why in found:
        yield _drift(instance, why)


def reserved(root: Root, now: float) -> Iterator[Drift]:
    """Yield a drift for each one-time-use device that stays reserved.

    :param now: Unix time, seconds.
    """
    found = reserved_devices.observe(root, now)
    if isinstance(found, Unknown):
        yield _drift("", reason("devices_unknown", why=found.reason))
        return
    for each in found:
        yield Drift(
            "", each.code, each.address, each.message, each.remedy, 0.0
        )


def _owners(root: Root, guests: Iterable[Guest]) -> dict[int, str]:
    """Return the instance of each process that belongs to a guest."""
    found = {each.process: each.instance for each in guests}
    keepers = {
        each.process: each.instance
        for each in guests
        if each.domain.is_container
    }
    return {**found, **running.below(root, keepers)}


def _observe(
    root: Root, guests: Iterable[Guest], owners: Mapping[int, str]
) -> Iterator[RunningGuest]:
    """Yield the guests as the kernel shows them, except starting ones."""
    by_process = {each.process: each for each in guests}
    inside: dict[str, list[int]] = {}
    for process, instance in owners.items():
        if process not in by_process:
            inside.setdefault(instance, []).append(process)
    workers: dict[str, list[GuestThread]] = {}
    for guest, thread in state.vhost_workers(root, by_process):
        workers.setdefault(guest.instance, []).append(thread)
    for guest in by_process.values():
        if guest.is_starting:
            continue
        instance = guest.instance
        try:
            found = state.observe(root, guest, inside.get(instance, ()))
        except DomainRejected as error:
            LOG.warning("instance=%s is not audited: %s", instance, error)
            continue
        more = workers.get(instance, ())
        yield dataclasses.replace(found, threads=(*found.threads, *more))


def _drift(instance: str, why: Reason) -> Drift:
    return Drift(
        instance, why.code, _subject(why), why.message, why.remedy, 0.0
    )


def _subject(why: Reason) -> str:
    fields = why.fields
    names = (
        fields.get(key)
        for key in ("role", "address", "device", "name", "port", "container")
    )
    return next((str(each) for each in names if each), "")


class Audit:
    """Audits guests in its own thread.

    :param find: returns the drifts of a host.
    :param interval_s: seconds from one audit to the next.
    :param changed: called when an audit changed the facts.
    :param crashed: called if the thread meets an unexpected error.
    :param clock: returns Unix time, seconds.
    """

    def __init__(
        self,
        find: Callable[[HostFacts], list[Drift] | Unknown],
        interval_s: float,
        notify: Callable[[Drifted], None],
        changed: Callable[[], None],
        crashed: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._find = find
        self._interval_s = interval_s
        self._notify = notify
        self._changed = changed
        self._clock = clock
        self._lock = threading.Lock()
        self._facts: HostFacts | None = None
        self._found: AuditFacts = AuditFacts(_UNKNOWN)
        self._known: dict[tuple[str, str, str], Drift] = {}
        self.worker = Worker("audit", self._step, crashed)

    def start(self) -> None:
        """Start the thread."""
        self.worker.start()

    def stop(self) -> None:
        """Stop the thread after its present audit."""
        self.worker.stop()

    def complete(self, facts: HostFacts) -> HostFacts:
        """Return facts with the last audit's findings."""
        with self._lock:
            is_first = self._facts is None
            self._facts = facts
            found = self._found
        if is_first:
            self.worker.wake()
        return dataclasses.replace(facts, audit=found)

    def _step(self) -> float:
        with self._lock:
            facts = self._facts
        if facts is not None:
            self.audit(facts)
        return self._interval_s

    def audit(self, facts: HostFacts) -> None:
        """Audit the guests once."""
        found = self._find(facts)
        if isinstance(found, Unknown):
            after = AuditFacts(found)
        else:
            after = AuditFacts(self._dated(facts, found))
        with self._lock:
            is_new, self._found = after != self._found, after
        if is_new:
            self._changed()

    def _dated(
        self, facts: HostFacts, found: Iterable[Drift]
    ) -> tuple[Drift, ...]:
        now = self._clock()
        before = self._known
        self._known = {}
        for each in found:
            # One drift for each role of a thread: QEMU's workers come and go.
            key = (each.instance, each.code, each.subject)
            if key not in self._known:
                since = before[key].since if key in before else now
                self._known[key] = dataclasses.replace(each, since=since)
        drifted = Drifted(
            facts.host,
            facts.node,
            tuple(
                each for key, each in self._known.items() if key not in before
            ),
            tuple(
                each for key, each in before.items() if key not in self._known
            ),
        )
        if drifted.found or drifted.mended:
            drifted.log()
            self._notify(drifted)
        return tuple(self._known.values())[:MAX_DRIFTS]
