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


"""After a crash: what was in progress is finished or undone."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent import futures

from sriov_rt.nic.errors import NicError
from sriov_rt.vif import errors
from sriov_rt.vif import report
from sriov_rt.vif import tell
from sriov_rt.vif.edge import Links
from sriov_rt.vif.entries import Action
from sriov_rt.vif.entries import Entry
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.undo import GONE
from sriov_rt.vif.undo import Undo
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View
from sriov_rt.vif.view import observe
from sriov_rt.vif.words import Kind

LOG = logging.getLogger(__name__)

#: How many interfaces are deleted at once.
WORKERS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery did.

    :param undone: ports whose plug was interrupted.
    :param finished: ports whose unplug was.
    :param busy: ports that another process works on.
    :param failed: ports of which something is left, and why.
    :param cleaned: VFs that nothing used: those of the pools that were not
        at the baseline, and parents that were still up.
    :param standing: ports that carry our alias and were left alone.
    :param set_aside: files that were no entries of the journal.
    """

    undone: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    cleaned: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


class Recovery:
    """Takes what is in progress off the host, all of it at one look."""

    def __init__(
        self,
        links: Links,
        vfs: Vfs,
        undo: Undo,
        journal: Journal,
        locks: Locks,
    ) -> None:
        self._links = links
        self._vfs = vfs
        self._undo = undo
        self._journal = journal
        self._locks = locks

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
        view = observe(self._links, self._vfs)
        return Recovered(
            undone=_ports(done, Action.PLUG),
            finished=_ports(done, Action.UNPLUG),
            busy=tuple(busy),
            failed=tuple(failed.items()),
            cleaned=self.sweep(view),
            standing=tuple(sorted({whose.port for _, whose in view.ours})),
            set_aside=self._journal.aside(),
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

    def undo(self, entry: Entry) -> None:
        """Undo a plug that failed; its port and its parent are locked.

        What cannot be undone stays in the journal for the next start.
        """
        try:
            self._undo.remove(entry, observe(self._links, self._vfs))
            self._undo.rest(entry, observe(self._links, self._vfs))
            self._journal.end(entry.port)
        except (VifError, NicError) as error:
            LOG.error("%s: left behind: %s", report.about(entry), error)

    def rest(self, entry: Entry) -> None:
        """Let a parent rest if the port was the last one on it."""
        if entry.vf is not None:
            with self._locks.parent(entry.parent):
                self._undo.rest(entry, observe(self._links, self._vfs))

    def sweep(self, view: View) -> tuple[str, ...]:
        """Clean the VFs of the pools that are idle and not clean.

        Parents that no port is left on are set down, as by an unplug.

        :returns: their interfaces.
        """
        cleaned = []
        for link in self._undo.dirty(view):
            try:
                with self._locks.parent(link.name, wait=False):
                    now = observe(self._links, self._vfs)
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
                LOG.error("%s: not clean: %s", tell.about(None, vf), error)
        return tuple(cleaned)

    def _finish(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Take ports off the host; return those that failed, and why."""
        if not entries:
            return {}
        failed: dict[str, str] = {}
        with contextlib.ExitStack() as held:
            # Sorted, so that two recoveries cannot wait for each other.
            for parent in sorted({each.parent for each in entries}):
                held.enter_context(self._locks.parent(parent))
            view = observe(self._links, self._vfs)
            for each in entries:
                if each.kind == Kind.VF:
                    _try(self._undo.remove, each, view, failed)
            # The kernel takes 20 ms to let one go, and many at once as long.
            with futures.ThreadPoolExecutor(WORKERS) as pool:
                running = [
                    pool.submit(_try, self._undo.remove, each, view, failed)
                    for each in entries
                    if each.kind != Kind.VF
                ]
            for done in running:
                done.result()
            view = observe(self._links, self._vfs)
            for each in _parents(entries):
                if each.port not in failed:
                    _try(self._undo.rest, each, view, failed)
            for each in entries:
                if each.port not in failed:
                    self._journal.end(each.port)
                    LOG.info("%s: %s undone", report.about(each), each.action)
        return failed


def _try(
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


def _parents(entries: Sequence[Entry]) -> Iterable[Entry]:
    """Return one entry of each parent: one that found it down, if any."""
    by_parent: dict[str, Entry] = {}
    for each in entries:
        if each.parent not in by_parent or not each.parent_up:
            by_parent[each.parent] = each
    return by_parent.values()


def _ports(entries: Sequence[Entry], action: Action) -> tuple[str, ...]:
    return tuple(each.port for each in entries if each.action == action)
