# SPDX-License-Identifier: Apache-2.0

"""Quarantine of a port: its parent is cut off until its interface is gone."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable

from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.nic.errors import NicError
from sriov_rt.vif import alias
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.search import Search
from sriov_rt.vif.search import has_others
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: Unplugs a locked port; False if it had gone.
Unplug = Callable[[Record], bool]


class Quarantine:
    """Cuts off parents of quarantined ports, restores and releases them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._locks = host.locks
        self._records = host.records
        self._search = Search(host.links, host.vfs)
        # Reasons why ports could not be released, each logged once.
        self._said: dict[str, str] = {}

    def begin(
        self, record: Record, why: errors.Quarantined, *, locked: bool
    ) -> None:
        """Note that a port is quarantined, and cut it off.

        A plug that replaces a quarantined port is on its parent: that is
        already quarantined, and the plug stays in progress.

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
        # It stays in progress until it is cut off.
        self._records.put(record)
        lock = (
            contextlib.nullcontext()
            if locked
            else self._locks.parent(record.parent)
        )
        try:
            with lock:
                self.cut_off(record, self._host.observe(mend=True))
        except (LinkError, NicError) as error:
            LOG.error(
                "%s: its parent was not set down: %s",
                log.of(record),
                error,
            )
        now = self._records.get(record.port) or record
        self._records.put(dataclasses.replace(now, state=State.QUARANTINED))

    def cut_off(self, record: Record, view: View) -> None:
        """Set down a locked parent that only quarantined ports are on.

        Nobody reaches the wire through a parent that is down. Its alias still
        says whether we set it up.
        """
        _, parent = self._search.parent(record, view)
        keeper = None if parent is None else view.quarantined(parent)
        if parent is None or keeper is None:
            return
        if not self._is_only_quarantined(record, parent, view):
            return
        # Written first, so that a crash cannot prevent the undo.
        self._records.put(dataclasses.replace(keeper, lowered=True))
        self._links.configure(parent, up=False)
        LOG.warning(
            "%s: %s is set down while it is quarantined",
            log.of(keeper),
            parent.name,
        )

    def _is_only_quarantined(
        self, record: Record, parent: Link, view: View
    ) -> bool:
        """Return whether only quarantined ports keep a parent up."""
        if not parent.up or record.kind == Kind.VF:
            return False
        if any(not each.is_quarantined for each in view.on(parent)):
            return False
        # On a pool's VF, unaccounted interfaces can only be the tenant's; on
        # another parent they may be anybody's.
        pooled = self._host.is_pooled(parent, view)
        if not pooled and record.vf is None:
            return False
        ours = record.vf is not None and pooled
        on = self._search.on(parent)
        return not (
            has_others(parent, on)
            or (not ours and self._search.strays(on, view.records))
            or self._links.addressed(parent)
            or any(each.id.pf == parent.name for each in view.vfs)
        )

    def restore(self, record: Record) -> None:
        """Set a port's parent up again that was set down to cut it off.

        If another port is quarantined on it, that one sets it up later.
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
            view = self._host.observe(mend=True)
            _, parent = self._search.parent(record, view)
            if parent is not None and parent.alias != alias.PARENT:
                self._links.configure(parent, up=True)

    def release(
        self, unplug: Unplug, *, ended: bool = True
    ) -> tuple[str, ...]:
        """Free what quarantined ports keep if their interfaces have gone.

        :param unplug: tries to unplug a port again.
        :param ended: also free ports whose namespace ended without an unplug;
            False leaves out those that stand for a damaged file.
        :returns: the ports that are removed.
        """
        found = []
        for each in self._records.all():
            if not ended and (each.damaged or not each.is_quarantined):
                continue
            with (
                contextlib.suppress(errors.Busy),
                self._locks.port(each.port, wait=False),
            ):
                record = self._records.get(each.port)
                if (
                    record is not None
                    and (
                        record.is_quarantined
                        or (ended and self._has_ended(record))
                    )
                    and self._release(record, unplug)
                ):
                    found.append(each.port)
        return tuple(found)

    def _release(self, record: Record, unplug: Unplug) -> bool:
        """Free what a locked port keeps; return whether that succeeded."""
        reported = log.about(record.port, record.vf)
        try:
            unplug(record)
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
