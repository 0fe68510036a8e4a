# SPDX-License-Identifier: Apache-2.0

"""Recovery of port changes that a crash has interrupted."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent import futures

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.nic.errors import Locked
from sriov_rt.nic.errors import NicError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import report
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.unplug import GONE
from sriov_rt.vif.unplug import Undo
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: How many interfaces are deleted at once.
WORKERS = 16

#: How often to look again at a port that moves.
MAX_TRIES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a recovery.

    :param undone: ports whose plug was interrupted.
    :param finished: ports whose unplug was.
    :param busy: ports that another process works on.
    :param failed: ports of which something is left, and why.
    :param cleaned: VFs that nothing used: those of the pools that were not
        at the baseline, and parents that were still up.
    :param standing: ports that have a record and were left alone.
    :param quarantined: ports whose interface was not seen to come back.
    :param released: those that were, and are not any more.
    :param damaged: files of records that were damaged, and are kept.
    """

    undone: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    cleaned: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


class Recovery:
    """Takes what is in progress off the host, all of it at one look."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._undo = Undo(host)
        self._locks = host.locks
        self._records = host.records
        self._tenancies = host.vfs.tenancies
        # Why ports could not be released, which is logged once.
        self._said: dict[str, str] = {}

    def _observe(self) -> View:
        return View(self._links, self._host.vfs, self.mended())

    def pending(self) -> tuple[str, ...]:
        """Return the ports that were being plugged or unplugged, sorted.

        :raises JournalBroken: if the records cannot be read.
        """
        return self._records.ports()

    def run(self) -> Recovered:
        """Recover every port that no live process works on.

        :raises JournalBroken: if the journal cannot be read.
        """
        records = []
        busy = []
        with contextlib.ExitStack() as locked:
            for port in self.pending():
                try:
                    locked.enter_context(self._locks.port(port, wait=False))
                except errors.Busy:
                    busy.append(port)
                    continue
                record = self._records.in_progress(port)
                if record is not None:
                    records.append(record)
            failed = self._finish(records)
        self.mended()
        done = [each for each in records if each.port not in failed]
        self._records.clean(functools.partial(self._locks.port, wait=False))
        released = self.release()
        view = self._observe()
        self._remove_probes(view)
        return Recovered(
            undone=_ports(done, State.PLUGGING),
            finished=_ports(done, State.UNPLUGGING),
            busy=tuple(busy),
            failed=tuple(failed.items()),
            cleaned=self.sweep(view),
            standing=tuple(
                each.port for each in view.records if not each.is_quarantined
            ),
            damaged=self._records.damaged(),
            quarantined=tuple(
                each.port for each in view.records if each.is_quarantined
            ),
            released=released,
        )

    def mended(self) -> tuple[Record, ...]:
        """Return the records of all ports, having mended the damaged ones.

        That of a port which another process works on stays as it is.

        :raises JournalBroken: if the records cannot be read.
        """
        records = self._records.all()
        damaged = [each.port for each in records if each.damaged]
        for port in damaged:
            with (
                contextlib.suppress(errors.Busy),
                self._locks.port(port, wait=False),
            ):
                self.mend(port)
        return self._records.all() if damaged else records

    def mend(self, port: str) -> None:
        """Quarantine a port whose record is damaged, and keep the file.

        The caller has locked it. An alias is no proof: here it keeps out of
        use what it is on.

        :raises JournalBroken: if the records cannot be read.
        """
        record = self._records.get(port)
        if record is None or not record.damaged:
            return
        try:
            self._set_aside(record)
        except LinkError as error:
            LOG.error("%s: %s", log.about(port), error)

    def _set_aside(self, record: Record) -> None:
        found = record
        if not record.parent_index and record.vf is None:
            elsewhere = self._links.all(everywhere=True, thorough=True)
            found = report.located(record, self._links.all(), elsewhere)
        if not self._records.is_set_aside(record.port):
            self._records.set_aside(found)
        elif found != record:
            self._records.put(found)

    def finish_pending(self, port: str) -> bool:
        """Recover one port that the caller has locked.

        :returns: whether it was being plugged or unplugged.
        :raises LinkError: if something of it cannot be removed.
        """
        self.mend(port)
        record = self._records.in_progress(port)
        if record is None:
            return False
        failed = self._finish([record])
        if failed:
            raise VifError(record.interface, port=port, detail=failed[port])
        return True

    def unplug_record(self, record: Record) -> bool:
        """Unplug a port that the caller has locked; False if it had gone.

        One that is deleted, while something else may be on its parent, keeps
        its record: it is quarantined for that.

        :raises Quarantined: if its interface may be out of sight: it is
            quarantined then.
        :raises LinkError: or NicError, if it cannot be removed.
        """
        if record.damaged:
            raise errors.RecordDamaged(
                record.interface, port=record.port, detail=record.reason
            )
        record = dataclasses.replace(record, state=State.UNPLUGGING)
        try:
            self._records.begin(record)
        except (errors.JournalFull, errors.JournalBroken) as error:
            # The record says all that is needed, and a full disk must not
            # keep a tenant's VF from being cleaned.
            LOG.warning(
                "%s: unplugging without a record of that (%s)",
                report.about(record),
                error,
            )
        try:
            done = self._remove(record)
            self._clean_parent(record)
        except errors.Kept as error:
            self._quarantine(record, error, locked=False)
            return True
        except errors.Quarantined as error:
            self._quarantine(record, error, locked=False)
            raise
        self.restore(record)
        self._forget(record)
        return done

    def _remove(self, record: Record) -> bool:
        for _ in range(MAX_TRIES - 1):
            try:
                return self._undo.remove(record, self._observe(), locked=False)
            except (
                kernel_errors.NoSuchLink,
                kernel_errors.NoSuchNamespace,
            ) as error:
                # Its namespace went meanwhile: a VF is elsewhere then.
                LOG.info("%s: moved (%s)", report.about(record), error)
        return self._undo.remove(record, self._observe(), locked=False)

    def release(self) -> tuple[str, ...]:
        """Free what ports keep that have gone, and what is seen again.

        Those whose namespace has ended without an unplug, and quarantined
        ones.

        :returns: the ports that are no more.
        """
        found = []
        for record in self._records.all():
            try:
                with self._locks.port(record.port, wait=False):
                    if (
                        record.is_quarantined or self._has_ended(record)
                    ) and self._release(record):
                        found.append(record.port)
            except errors.Busy:
                continue
        return tuple(found)

    def _remove_probes(self, view: View) -> None:
        """Delete what a killed process left that looked at an idle parent.

        It keeps everything else off its parent. A process that looks just now
        has locked the parent.
        """
        for each in view.probes:
            parent = view.parent(each)
            if parent is None:
                continue
            try:
                with self._locks.parent(parent.name, wait=False):
                    self._links.delete(each)
            except errors.Busy:
                continue
            except LinkError as error:
                LOG.error("%s: %s stays: %s", parent.name, each.name, error)
            else:
                LOG.warning(
                    "%s: deleted %s, which a killed process left",
                    parent.name,
                    each.name,
                )

    def release_quarantined(self) -> tuple[Record, ...]:
        """Free what quarantined ports keep that have gone.

        :returns: those that are quarantined still.
        """
        for record in self._records.all():
            if not record.is_quarantined or record.damaged:
                continue
            try:
                with self._locks.port(record.port, wait=False):
                    now = self._records.get(record.port)
                    if now is not None and now.is_quarantined:
                        self._release(now)
            except errors.Busy:
                continue
        return tuple(
            each for each in self._records.all() if each.is_quarantined
        )

    def _release(self, record: Record) -> bool:
        """Free what a port keeps, which is locked; return if it did."""
        reported = log.about(record.port, record.vf)
        try:
            self.unplug_record(record)
        except (errors.Busy, errors.Quarantined):
            return False
        except (LinkError, NicError) as error:
            if self._said.get(record.port) != str(error):
                self._said[record.port] = str(error)
                LOG.error("%s: not released: %s", reported, error)
            return False
        self._said.pop(record.port, None)
        if self._records.get(record.port) is not None:
            return False
        if record.is_quarantined:
            LOG.warning(
                "%s: no longer quarantined; %s serves ports again",
                reported,
                record.parent,
            )
        return True

    def _has_ended(self, record: Record) -> bool:
        namespace_id = record.namespace_id
        if namespace_id is None or self._links.at(
            record.namespace, namespace_id, record.index
        ):
            return False
        if record.kind != Kind.VF and self._links.get(record.parent):
            with self._locks.parent(record.parent, wait=False):
                if self._links.idle(record.parent):
                    return True
        return self._links.ended(namespace_id)

    def _forget(self, record: Record) -> None:
        """Take a port out of the records.

        A plug that is undone leaves its port as it was: one that its parent
        is quarantined for stays so.
        """
        try:
            self._records.end(record.port)
        except (errors.JournalBroken, errors.JournalFull) as error:
            # What is left of it says of a port that it is gone: the next
            # recovery finds that.
            LOG.warning(
                "%s: its record was not removed (%s)",
                report.about(record),
                error,
            )

    def _quarantine(
        self, record: Record, why: errors.Quarantined, *, locked: bool
    ) -> None:
        """Note that a port is quarantined, and cut it off.

        A plug that replaces a quarantined port has its parent: that is
        quarantined already, and the plug stays in progress.

        :param locked: whether the caller has the lock of its parent.
        """
        if record.state is State.PLUGGING and self._records.get(record.port):
            return
        if not record.is_quarantined:
            LOG.error("%s", why)
        record = dataclasses.replace(
            record,
            state=State.UNPLUGGING,
            reason=f"{why.detail}; {why.remedy}",
            removed=record.removed or why.removed,
        )
        # In progress until it is cut off, too.
        self._records.put(record)
        lock = (
            contextlib.nullcontext()
            if locked
            else self._locks.parent(record.parent)
        )
        try:
            with lock:
                self._cut_off(record, self._observe())
        except (LinkError, NicError) as error:
            LOG.error(
                "%s: its parent was not set down: %s",
                report.about(record),
                error,
            )
        now = self._records.get(record.port) or record
        self._records.put(dataclasses.replace(now, state=State.QUARANTINED))

    def _cut_off(self, record: Record, view: View) -> None:
        """Set down a parent that only quarantined ports are on; locked."""
        found = self._undo.cut_off(record, view)
        if found is None:
            return
        parent, keeper = found
        # Written before it is done, to be undone whatever comes between.
        self._records.put(dataclasses.replace(keeper, lowered=True))
        self._undo.lower(parent)
        LOG.warning(
            "%s: %s is set down while it is quarantined",
            report.about(keeper),
            parent.name,
        )

    def restore(self, record: Record) -> None:
        """Set the parent of a port up again that was set down to cut it off.

        Not while another port is quarantined on it: then that has to.
        """
        now = self._records.get(record.port)
        if now is None or not now.lowered:
            return
        with self._locks.parent(record.parent):
            for each in self._records.all():
                if (
                    each.port != record.port
                    and each.is_quarantined
                    and each.parent_index == record.parent_index
                ):
                    self._records.put(dataclasses.replace(each, lowered=True))
                    return
            self._undo.lift(record, self._observe())

    def undo(self, record: Record) -> None:
        """Undo a plug that failed; its port and its parent are locked.

        What cannot be undone stays in the journal for the next start.
        """
        try:
            self._undo.remove(record, self._observe())
            self._undo.clean_parent(record, self._host.observe(record.port))
            self._forget(record)
        except (LinkError, NicError) as error:
            LOG.error(
                "%s: the plug was not undone: %s", report.about(record), error
            )
            if isinstance(error, errors.Quarantined):
                self._quarantine(record, error, locked=True)

    def _clean_parent(self, record: Record) -> None:
        """Let a parent rest if the port was the last one on it."""
        if record.kind == Kind.VF:
            return
        with self._locks.parent(record.parent):
            view = self._host.observe(record.port)
            if record.vf is not None:
                self._undo.clean_parent(record, view)
            self._cut_off(record, view)

    def sweep(self, view: View) -> tuple[str, ...]:
        """Clean the VFs of the pools that are idle and not clean.

        Parents that no port is left on are set down, as by an unplug.

        :returns: their interfaces.
        """
        cleaned = []
        for link in self._undo.dirty(view):
            vf = view.vf_of(link)
            try:
                with contextlib.ExitStack() as locks:
                    locks.enter_context(
                        self._locks.parent(link.name, wait=False)
                    )
                    if vf is not None:
                        locks.enter_context(
                            self._tenancies.locked(vf.id.address, 0.0)
                        )
                    now = self._observe()
                    for each in self._undo.dirty(now):
                        if each.name == link.name and self._undo.clean(
                            each, now
                        ):
                            cleaned.append(link.name)
            except (errors.Busy, Locked):
                continue  # it is about to be used, and cleaned by that
            except GONE:
                continue
            except (LinkError, NicError) as error:
                name = link.device or link.name
                LOG.error("%s: not clean: %s", log.about(None, name), error)
        return tuple(cleaned)

    def _try(
        self,
        step: Callable[[Record, View], object],
        record: Record,
        view: View,
        failed: dict[str, str],
    ) -> None:
        try:
            step(record, view)
        except (LinkError, NicError) as error:
            LOG.error("%s: %s", report.about(record), error)
            failed[record.port] = str(error)
            if isinstance(error, errors.Quarantined):
                self._quarantine(record, error, locked=True)

    def _finish(self, records: Sequence[Record]) -> dict[str, str]:
        """Take ports off the host; return those that failed, and why."""
        if not records:
            return {}
        failed: dict[str, str] = {}
        with contextlib.ExitStack() as locked:
            # Sorted, so that two recoveries cannot wait for each other.
            for parent in sorted({each.parent for each in records}):
                locked.enter_context(self._locks.parent(parent))
            view = self._observe()
            for each in records:
                if each.kind == Kind.VF:
                    self._try(self._undo.remove, each, view, failed)
            # The kernel takes 20 ms to let one go, and many at once as long.
            with futures.ThreadPoolExecutor(WORKERS) as pool:
                running = [
                    pool.submit(
                        self._try, self._undo.remove, each, view, failed
                    )
                    for each in records
                    if each.kind != Kind.VF
                ]
            for done in running:
                done.result()
            self._finish_parents(records, failed)
            for each in records:
                if each.port not in failed:
                    self._forget(each)
                    LOG.info(
                        "%s: %s finished",
                        report.about(each),
                        "undoing"
                        if each.state is State.PLUGGING
                        else "unplug",
                    )
        return failed

    def _finish_parents(
        self, records: Sequence[Record], failed: dict[str, str]
    ) -> None:
        """Clean what ports have gone from; it is locked."""
        view = self._host.observe(*(each.port for each in records))
        for each in _parents(records):
            if each.port not in failed:
                self._try(self._undo.clean_parent, each, view, failed)


def _parents(records: Sequence[Record]) -> Iterable[Record]:
    """Return one record of each parent: a plug that found it down, if any."""
    by_parent: dict[str, Record] = {}
    for each in records:
        raised = each.state is State.PLUGGING and not each.parent_up
        if each.parent not in by_parent or raised:
            by_parent[each.parent] = each
    return by_parent.values()


def _ports(records: Sequence[Record], state: State) -> tuple[str, ...]:
    return tuple(each.port for each in records if each.state is state)
