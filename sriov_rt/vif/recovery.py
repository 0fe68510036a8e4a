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


"""Recovery of port changes that a crash has interrupted."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent import futures

from sriov_rt.nic.errors import NicError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import report
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.journal import Action
from sriov_rt.vif.journal import Entry
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.link import Links
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Record
from sriov_rt.vif.records import Records
from sriov_rt.vif.unplug import GONE
from sriov_rt.vif.unplug import Undo
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View
from sriov_rt.vif.view import observe

LOG = logging.getLogger(__name__)

#: How many interfaces are deleted at once.
WORKERS = 16

#: How often to look again at a port that moves.
MAX_TRIES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery did.

    :param undone: ports whose plug was interrupted.
    :param finished: ports whose unplug was.
    :param busy: ports that another process works on.
    :param failed: ports of which something is left, and why.
    :param cleaned: VFs that nothing used: those of the pools that were not
        at the baseline, and parents that were still up.
    :param standing: ports that have a record and were left alone.
    :param set_aside: files that were no entries of the journal.
    :param quarantined: ports whose interface was not seen to come back.
    :param released: those that were, and are not any more.
    """

    undone: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    cleaned: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    released: tuple[str, ...] = ()


class Recovery:
    """Takes what is in progress off the host, all of it at one look."""

    def __init__(
        self,
        links: Links,
        vfs: Vfs,
        undo: Undo,
        journal: Journal,
        locks: Locks,
        records: Records,
    ) -> None:
        self._links = links
        self._vfs = vfs
        self._undo = undo
        self._journal = journal
        self._locks = locks
        self._records = records

    def _observe(self) -> View:
        return observe(self._links, self._vfs, self._records)

    def run(self) -> Recovered:
        """Recover every port that no live process works on.

        :raises JournalBroken: if the journal cannot be read.
        """
        entries = []
        busy = []
        with contextlib.ExitStack() as held:
            for port in self._journal.ports():
                try:
                    held.enter_context(self._locks.port(port, wait=False))
                except errors.Busy:
                    busy.append(port)
                    continue
                entry = self._journal.get(port)
                if entry is not None:
                    entries.append(entry)
            failed = self._finish(entries)
        done = [each for each in entries if each.port not in failed]
        self._records.clean()
        released = self.release()
        view = self._observe()
        return Recovered(
            undone=_ports(done, Action.PLUG),
            finished=_ports(done, Action.UNPLUG),
            busy=tuple(busy),
            failed=tuple(failed.items()),
            cleaned=self.sweep(view),
            standing=tuple(
                each.port for each in view.records if not each.is_quarantined
            ),
            set_aside=self._journal.aside(),
            quarantined=tuple(
                each.port for each in view.records if each.is_quarantined
            ),
            released=released,
        )

    def settle(self, port: str) -> bool:
        """Recover one port that the caller has locked.

        :returns: whether there was anything in the journal.
        :raises VifError: if something of it cannot be removed.
        """
        entry = self._journal.get(port)
        if entry is None:
            return False
        failed = self._finish([entry])
        if failed:
            raise VifError(entry.interface, port=port, detail=failed[port])
        return True

    def depart(self, record: Record) -> bool:
        """Unplug a port that the caller has locked; False if it had gone.

        :raises Quarantined: if its interface may be out of sight: it is
            quarantined then.
        :raises VifError: or NicError, if it cannot be removed.
        """
        entry = report.departing(record)
        try:
            self._journal.begin(entry)
        except (errors.JournalFull, errors.JournalBroken) as error:
            # The record says all that is needed, and a full disk must not
            # keep a tenant's VF from being cleaned.
            LOG.warning("%s: goes on (%s)", report.about(entry), error)
        try:
            done = self._remove(entry)
            self._rest(entry)
        except errors.Quarantined as error:
            self._quarantine(entry, error)
            raise
        self._forget(entry.port)
        return done

    def _remove(self, entry: Entry) -> bool:
        for _ in range(MAX_TRIES - 1):
            try:
                return self._undo.remove(entry, self._observe(), held=False)
            except (errors.NoSuchLink, errors.NoSuchNamespace) as error:
                # Its namespace went meanwhile: a VF is elsewhere then.
                LOG.info("%s: moved (%s)", report.about(entry), error)
        return self._undo.remove(entry, self._observe(), held=False)

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
                    if record.is_quarantined or self._has_ended(record):
                        self.depart(record)
                        found.append(record.port)
            except (errors.Busy, errors.Quarantined):
                continue
            except (VifError, NicError) as error:
                told = log.about(record.port, record.vf)
                LOG.error("%s: not released: %s", told, error)
        return tuple(found)

    def _has_ended(self, record: Record) -> bool:
        space = record.space
        if space is None or self._links.at(
            record.namespace, space, record.index
        ):
            return False
        if record.kind != Kind.VF and self._links.get(record.parent):
            with self._locks.parent(record.parent, wait=False):
                if self._links.idle(record.parent):
                    return True
        return self._links.ended(space)

    def _forget(self, port: str) -> None:
        """Take a port out of the records and the journal."""
        try:
            self._records.remove(port)
            self._journal.end(port)
        except errors.JournalBroken as error:
            # What is left of it says of a port that it is gone: the next
            # recovery finds that.
            LOG.warning("%s: its record stays (%s)", log.about(port), error)

    def _quarantine(self, entry: Entry, why: errors.Quarantined) -> None:
        record = self._records.get(entry.port)
        if record is not None:
            if not record.is_quarantined:
                LOG.error("%s", why)
            self._records.put(
                dataclasses.replace(
                    record, state=State.QUARANTINED, reason=why.detail
                )
            )
        self._journal.end(entry.port)

    def undo(self, entry: Entry) -> None:
        """Undo a plug that failed; its port and its parent are locked.

        What cannot be undone stays in the journal for the next start.
        """
        try:
            self._undo.remove(entry, self._observe())
            self._undo.rest(entry, self._without(entry.port))
            self._forget(entry.port)
        except (VifError, NicError) as error:
            LOG.error("%s: left behind: %s", report.about(entry), error)

    def _rest(self, entry: Entry) -> None:
        """Let a parent rest if the port was the last one on it."""
        if entry.vf is not None and entry.kind != Kind.VF:
            with self._locks.parent(entry.parent):
                view = self._without(entry.port)
                self._undo.unstack(entry, view)
                self._undo.rest(entry, view)

    def _without(self, *ports: str) -> View:
        """Return the host as it is, but for ports that have gone."""
        found = self._records.all()
        left = [each for each in found if each.port not in ports]
        return View(self._links, self._vfs, left)

    def sweep(self, view: View) -> tuple[str, ...]:
        """Clean the VFs of the pools that are idle and not clean.

        Parents that no port is left on are set down, as by an unplug.

        :returns: their interfaces.
        """
        cleaned = []
        for link in self._undo.dirty(view):
            try:
                with self._locks.parent(link.name, wait=False):
                    now = self._observe()
                    for each in self._undo.dirty(now):
                        if each.name == link.name and self._undo.clean(
                            each, now
                        ):
                            cleaned.append(link.name)
            except errors.Busy:
                continue  # it is about to be used, and cleaned by that
            except GONE:
                continue
            except (VifError, NicError) as error:
                vf = link.device or link.name
                LOG.error("%s: not clean: %s", log.about(None, vf), error)
        return tuple(cleaned)

    def _try(
        self,
        step: Callable[[Entry, View], object],
        entry: Entry,
        view: View,
        failed: dict[str, str],
    ) -> None:
        try:
            step(entry, view)
        except (VifError, NicError) as error:
            LOG.error("%s: %s", report.about(entry), error)
            failed[entry.port] = str(error)
            if (
                isinstance(error, errors.Quarantined)
                and entry.action == Action.UNPLUG
            ):
                self._quarantine(entry, error)

    def _finish(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Take ports off the host; return those that failed, and why."""
        if not entries:
            return {}
        failed: dict[str, str] = {}
        with contextlib.ExitStack() as held:
            # Sorted, so that two recoveries cannot wait for each other.
            for parent in sorted({each.parent for each in entries}):
                held.enter_context(self._locks.parent(parent))
            view = self._observe()
            for each in entries:
                if each.kind == Kind.VF:
                    self._try(self._undo.remove, each, view, failed)
            # The kernel takes 20 ms to let one go, and many at once as long.
            with futures.ThreadPoolExecutor(WORKERS) as pool:
                running = [
                    pool.submit(
                        self._try, self._undo.remove, each, view, failed
                    )
                    for each in entries
                    if each.kind != Kind.VF
                ]
            for done in running:
                done.result()
            self._finish_parents(entries, failed)
            for each in entries:
                if each.port not in failed:
                    self._forget(each.port)
                    LOG.info("%s: %s undone", report.about(each), each.action)
        return failed

    def _finish_parents(
        self, entries: Sequence[Entry], failed: dict[str, str]
    ) -> None:
        """Clean what ports have gone from; it is locked."""
        view = self._without(*(each.port for each in entries))
        for each in entries:
            if each.port not in failed:
                self._try(self._undo.unstack, each, view, failed)
        for each in _parents(entries):
            if each.port not in failed:
                self._try(self._undo.rest, each, view, failed)


def _parents(entries: Sequence[Entry]) -> Iterable[Entry]:
    """Return one entry of each parent: one that found it down, if any."""
    by_parent: dict[str, Entry] = {}
    for each in entries:
        if each.parent not in by_parent or not each.parent_up:
            by_parent[each.parent] = each
    return by_parent.values()


def _ports(entries: Sequence[Entry], action: Action) -> tuple[str, ...]:
    return tuple(each.port for each in entries if each.action == action)
