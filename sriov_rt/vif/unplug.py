# SPDX-License-Identifier: Apache-2.0

"""Unplug of ports, and recovery of what was in progress."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent import futures

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.nic.errors import NicError
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.parents import Parents
from sriov_rt.vif.quarantine import Quarantine
from sriov_rt.vif.subinterfaces import Subinterfaces
from sriov_rt.vif.view import View
from sriov_rt.vif.whole_vfs import WholeVfs

LOG = logging.getLogger(__name__)

#: How many interfaces are deleted at once.
WORKERS = 16

#: How often to look again at a port that moves.
MAX_TRIES = 8


class Unplugging:
    """Takes ports off the host, from whatever state they are in."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._locks = host.locks
        self._records = host.records
        self._subinterfaces = Subinterfaces(host)
        self._whole_vfs = WholeVfs(host)
        self._parents = Parents(host)
        self.quarantine = Quarantine(host)

    def remove(
        self,
        record: Record,
        view: View,
        *,
        locked: bool = True,
    ) -> bool:
        """Remove a port's interface; False if there was none.

        :param view: a view of the host now.
        :param locked: whether the caller has the lock of its parent.
        :raises Quarantined: if it may be out of sight.
        :raises Kept: if it is deleted, but something else may be on its
            parent.
        :raises LinkError: or NicError, if it cannot be removed.
        """
        vf = None if record.vf is None else view.vf_at(record.vf)
        with self._host.away(None if vf is None else vf.id):
            if record.kind == Kind.VF:
                return self._whole_vfs.give_back(record, view)
            return self._subinterfaces.remove(record, view, locked=locked)

    def finish_pending(self, port: str) -> bool:
        """Recover a locked port.

        :returns: whether it was being plugged or unplugged.
        :raises LinkError: if something of it cannot be removed.
        """
        self._host.mend(port)
        record = self._records.in_progress(port)
        if record is None:
            return False
        failed = self.finish([record])
        if failed:
            raise VifError(record.interface, port=port, detail=failed[port])
        return True

    def unplug(self, record: Record) -> bool:
        """Unplug a locked port; False if it had gone.

        If its interface is deleted, but something else may be on its parent,
        it keeps its record and is quarantined for that.

        :raises Quarantined: if its interface may be out of sight: the port is
            then quarantined.
        :raises LinkError: or NicError, if it cannot be removed.
        """
        if record.damaged:
            raise errors.RecordDamaged(
                record.interface, port=record.port, detail=record.reason
            )
        record = dataclasses.replace(record, state=State.UNPLUGGING)
        try:
            self._records.begin(record)
        except (errors.RecordsFull, errors.RecordsBroken) as error:
            # The record has all that is needed, and a full disk must not keep
            # a tenant's VF from being cleaned.
            LOG.warning(
                "%s: unplugging without a record of that (%s)",
                log.of(record),
                error,
            )
        try:
            done = self._remove(record)
            self._clean_parent(record)
        except errors.Kept as error:
            self.quarantine.begin(record, error, locked=False)
            return True
        except errors.Quarantined as error:
            self.quarantine.begin(record, error, locked=False)
            raise
        self.quarantine.restore(record)
        self._forget(record)
        return done

    def _remove(self, record: Record) -> bool:
        tries = 1
        while True:
            view = self._host.observe(mend=True)
            try:
                return self.remove(record, view, locked=False)
            except (
                kernel_errors.NoSuchLink,
                kernel_errors.NoSuchNamespace,
            ) as error:
                if tries == MAX_TRIES:
                    raise
                # Its namespace ended in between: its VF is somewhere else now.
                LOG.info("%s: moved (%s)", log.of(record), error)
                tries += 1

    def undo(self, record: Record) -> None:
        """Undo a failed plug; its port and its parent are locked.

        If that fails, the record stays for the next start.
        """
        try:
            self.remove(record, self._host.observe(mend=True))
            self._parents.clean_after(record, self._host.observe(record.port))
            self._forget(record)
        except (LinkError, NicError) as error:
            LOG.error("%s: the plug was not undone: %s", log.of(record), error)
            if isinstance(error, errors.Quarantined):
                self.quarantine.begin(record, error, locked=True)

    def _clean_parent(self, record: Record) -> None:
        """Clean a parent if the port was the last one on it."""
        if record.kind == Kind.VF:
            return
        with self._locks.parent(record.parent):
            view = self._host.observe(record.port)
            if record.vf is not None:
                self._parents.clean_after(record, view)
            self.quarantine.cut_off(record, view)

    def release(self, *, ended: bool = True) -> tuple[str, ...]:
        """Free what ports that have gone keep; see Quarantine."""
        return self.quarantine.release(self.unplug, ended=ended)

    def _forget(self, record: Record) -> None:
        """Remove a port from the records.

        After an undone plug the record is as before: a port that its parent is
        quarantined for stays so.
        """
        try:
            self._records.end(record.port)
        except (errors.RecordsBroken, errors.RecordsFull) as error:
            # The record that stays is of a port that is gone: the next
            # recovery finds that out.
            LOG.warning(
                "%s: its record was not removed (%s)",
                log.of(record),
                error,
            )

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
            LOG.error("%s: %s", log.of(record), error)
            failed[record.port] = str(error)
            if isinstance(error, errors.Quarantined):
                self.quarantine.begin(record, error, locked=True)

    def finish(self, records: Sequence[Record]) -> dict[str, str]:
        """Remove ports from the host; return those that failed, and why."""
        if not records:
            return {}
        failed: dict[str, str] = {}
        with contextlib.ExitStack() as locked:
            # Sorted, so that two recoveries cannot deadlock.
            for parent in sorted({each.parent for each in records}):
                locked.enter_context(self._locks.parent(parent))
            view = self._host.observe(mend=True)
            for each in records:
                if each.kind == Kind.VF:
                    self._try(self.remove, each, view, failed)
            # The kernel takes 20 ms for one, and as long for many at once.
            with futures.ThreadPoolExecutor(WORKERS) as pool:
                running = [
                    pool.submit(self._try, self.remove, each, view, failed)
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
                        log.of(each),
                        "undoing"
                        if each.state is State.PLUGGING
                        else "unplug",
                    )
        return failed

    def _finish_parents(
        self, records: Sequence[Record], failed: dict[str, str]
    ) -> None:
        """Clean a locked parent that ports have left."""
        view = self._host.observe(*(each.port for each in records))
        for each in _parents(records):
            if each.port not in failed:
                self._try(self._parents.clean_after, each, view, failed)


def _parents(records: Sequence[Record]) -> Iterable[Record]:
    """Return a record of each parent: of a plug that found it down, if any."""
    by_parent: dict[str, Record] = {}
    for each in records:
        raised = each.state is State.PLUGGING and not each.parent_up
        if each.parent not in by_parent or raised:
            by_parent[each.parent] = each
    return by_parent.values()
