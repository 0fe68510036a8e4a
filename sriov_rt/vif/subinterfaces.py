# SPDX-License-Identifier: Apache-2.0

"""Macvlan, macvtap and ipvlan interfaces of ports: creation and removal."""

import contextlib
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import alias
from sriov_rt.vif import budget
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import proof
from sriov_rt.vif.host import PAUSE_S
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.proof import Evidence
from sriov_rt.vif.proof import Verdict
from sriov_rt.vif.search import Search
from sriov_rt.vif.search import among
from sriov_rt.vif.search import has_others
from sriov_rt.vif.search import is_it
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)


class Subinterfaces:
    """Makes and deletes the subinterfaces of ports.

    Each step can be repeated; an interface that has gone counts as deleted.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._vfs = host.vfs
        self._records = host.records
        self._search = Search(host.links, host.vfs)

    def _note(self, plan: PlugPlan, step: str) -> None:
        self._records.step(plan.request.port, step)

    def make(self, plan: PlugPlan, record: Record) -> Link:
        """Return the interface of a plan, on a parent that is set.

        :param record: the record of its intent, with its namespace.
        """
        request = plan.request
        if plan.vf is not None and plan.settings is not None:
            self._note(plan, "settings")
            self._vfs.apply(self._vfs.plan(plan.vf, plan.settings))
        if not plan.parent_up:
            self._note(plan, "parent-up")
            self._raise(plan)
        if plan.vf is not None and request.kind != Kind.IPVLAN:
            self._vfs.mark_filters(plan.vf)
        # In passthru mode it takes its parent's MAC when it is made
        # (macvlan_common_newlink), and can only then be given another.
        passthru = request.mode == budget.PASSTHRU
        remac = passthru and request.mac is not None
        if plan.settings is not None or not plan.parent_up:
            # Otherwise it is the first step, which the record implies.
            self._note(plan, "create")
        link = self._links.create(
            Subinterface(
                name=plan.interface,
                kind=request.kind,
                mode=request.mode or "",
                parent=plan.parent,
                namespace=request.namespace,
                namespace_id=record.namespace_id,
                index=record.index,
                mac=None if passthru else request.mac,
                mtu=request.mtu,
                alias=str(plan.alias),
                # Not before its limits hold and its MAC is set.
                up=not remac and request.limits == Limits(),
            )
        )
        if remac and link.mac != request.mac:
            self._note(plan, "mac")
            link = self._links.configure(link, mac=request.mac)
        return link

    def _raise(self, plan: PlugPlan) -> None:
        """Set a parent up; a VF's alias says that it goes down without ports.

        A parent with another alias is somebody's who may need it up later.
        """
        parent = self._links.get(plan.parent)
        if parent is None:
            raise kernel_errors.NoSuchLink(plan.parent, port=plan.request.port)
        marked = plan.vf is not None and not parent.alias
        self._links.configure(
            parent, up=True, alias=alias.PARENT if marked else None
        )

    def remove(self, record: Record, view: View, *, locked: bool) -> bool:
        """Delete a port's interface; False if there was none.

        :param locked: whether the caller has the lock of its parent.
        :raises Quarantined: if it may be out of sight.
        :raises Kept: if it is deleted, but something else may be on its
            parent.
        """
        if not record.index:
            parent = view.on_host(record.parent)
            if parent is not None and self._links.idle(parent.name):
                return False
            raise errors.Quarantined(
                record.parent,
                port=record.port,
                detail="an older sriov-rt has not noted which interface it "
                "made",
                remedy=f"see whether {record.interface} in "
                f"{record.namespace or 'the host'} is left, delete it, and "
                "unplug the port again",
            )
        if record.state is State.PLUGGING:
            return self._undo_make(record, view)
        removed = done = record.removed
        found = None if removed else self._search.proven(record)
        namespace_ids = {record.namespace_id}
        deadline: float | None = None
        while True:
            if found is not None:
                self._records.step(record.port, "delete")
                namespace_ids.add(found.namespace_id)
                removed = done = self._links.delete(found) or done
            with self._locked(record, locked=locked):
                idle = self._search.is_idle(record, view)
            if idle:
                return done
            found = None if removed else self._search.anywhere(record)
            if found is not None:
                continue
            with self._locked(record, locked=locked):
                evidence = self._evidence(
                    record, namespace_ids, removed=removed
                )
            verdict, reason = proof.judge(evidence)
            if verdict is Verdict.GONE:
                return done
            deadline = deadline or self._host.deadline()
            if time.monotonic() >= deadline:
                raise _quarantined(record, evidence, verdict, reason)
            # The kernel takes time to end a namespace.
            time.sleep(PAUSE_S)

    def _undo_make(self, record: Record, view: View) -> bool:
        """Delete an interface that a failed plug may have made.

        A plug that was killed early made none. If it made one, the tenant may
        have hidden it before it was noted.

        :raises Quarantined: if it may be out of sight.
        """
        _, parent = self._search.parent(record, view)
        found = self._search.proven(record)
        others = [each for each in view.records if each.port != record.port]
        deadline = self._host.deadline()
        while found is None:
            if parent is None or self._links.idle(parent.name):
                return False
            on, unseen = self._search.unaccounted(parent, others)
            found = among(record, on)
            if found is None and unseen == 0:
                return False
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    parent.name,
                    port=record.port,
                    detail="its interface may have been made, and hidden",
                )
            time.sleep(PAUSE_S)
        self._records.step(record.port, "delete")
        return self._links.delete(found)

    def _locked(
        self, record: Record, *, locked: bool
    ) -> AbstractContextManager[object]:
        """Keep others from plugging ports on the parent of a port."""
        if locked:
            return contextlib.nullcontext()
        return self._host.locks.parent(record.parent)

    def _evidence(
        self,
        record: Record,
        namespace_ids: set[Identity | None],
        *,
        removed: bool,
    ) -> Evidence:
        """Return the kernel's evidence on a port and its parent.

        Interfaces that the tenant stacked on the port's are deleted: the
        kernel puts them on the parent (macvlan_common_newlink in
        drivers/net/macvlan.c), and they would outlive the port.

        :param namespace_ids: namespaces of the tenant in which its interface
            was.
        """
        records = self._records.all()
        others = [each for each in records if each.port != record.port]
        view = self._host.view(others)
        where, parent = self._search.parent(record, view)
        if parent is None:
            return Evidence(
                record.parent,
                where,
                idle=None,
                removed=removed,
                place=self._search.place_of_parent(record),
            )
        idle = self._links.idle(parent.name)
        if idle:
            return Evidence(parent.name, idle=True, removed=removed)
        on, unseen = self._search.unaccounted(parent, others)
        strays = self._search.strays(on, others)
        mine = [
            each
            for each in strays
            # No other interface has its index by chance.
            if each.namespace_id in namespace_ids or is_it(record, each)
        ]
        if mine and self._host.is_pooled(parent, view):
            for each in mine:
                self._unstack(record, each, others)
            idle = self._links.idle(parent.name)
            on, unseen = self._search.unaccounted(parent, others)
            strays = self._search.strays(on, others)
        suspect = view.quarantined(parent)
        again = record.is_quarantined
        if suspect is not None and suspect.removed and again:
            suspect = None
        ports = [each for each in view.on(parent) if not each.is_quarantined]
        on_host = [x for x in view.children(parent) if isinstance(x, Link)]
        return Evidence(
            parent.name,
            idle=idle,
            removed=removed,
            unrecorded=tuple(map(_stray, strays)),
            beside=bool(ports) or has_others(parent, [*on, *on_host]),
            suspect=None if suspect is None else suspect.port,
            unseen=unseen,
            clue="" if removed else self._search.clue(record, parent),
        )

    def _unstack(
        self, record: Record, link: Link, records: Sequence[Record]
    ) -> None:
        # The interface may have been renamed since.
        if not self._links.node(link) or self._search.has_port(link, records):
            return
        LOG.warning(
            "%s: %s was made on %s beside it, and is deleted too",
            log.of(record),
            link.name,
            record.parent,
        )
        self._links.delete(link)


def _quarantined(
    record: Record, evidence: Evidence, verdict: Verdict, reason: str
) -> errors.Quarantined:
    named = errors.Kept if verdict is Verdict.KEPT else errors.Quarantined
    return named(
        evidence.parent,
        port=record.port,
        detail=reason,
        removed=evidence.removed,
    )


def _stray(link: Link) -> str:
    return f"{link.kind} {link.name} in {link.namespace or 'the host'}"
