# SPDX-License-Identifier: Apache-2.0

"""Plugging of a port, step by step; one port at a time on a parent."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel import rtnetlink
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import Limits
from sriov_rt.nic import use
from sriov_rt.nic.errors import NicError
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from sriov_rt.reason import first_of
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import plan
from sriov_rt.vif import records
from sriov_rt.vif import show
from sriov_rt.vif.existing import Existing
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Child
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.parents import Parents
from sriov_rt.vif.parents import note_settings
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.subinterfaces import Subinterfaces
from sriov_rt.vif.unplug import Unplugging
from sriov_rt.vif.view import View
from sriov_rt.vif.whole_vfs import WholeVfs

LOG = logging.getLogger(__name__)


#: How often to look again at a host that has changed in between.
MAX_TRIES = 8

#: Errors after which another parent may do.
_TAKEN = (
    errors.BudgetExceeded,
    errors.NoParent,
    kernel_errors.NoSuchLink,
    kernel_errors.ParentTaken,
    errors.SpreadNeeded,
)

#: The link, if it was made by this call, and the port.
Made = tuple[Link | None, Plugged]

#: Whether a port has to be made, by the namespace that it would be in.
Due = Callable[[Identity | None], bool]


def _intent(
    plan: PlugPlan, namespace_id: Identity | None, request: Plug
) -> Record:
    """Return the record of a port that is about to be plugged.

    :param namespace_id: namespace that it will be in.
    :param request: port as it was requested.
    """
    chosen = plan.request
    whole = chosen.kind == Kind.VF
    return Record(
        boot=records.boot_id(),
        port=chosen.port,
        owner=chosen.owner,
        kind=chosen.kind,
        mode=chosen.mode,
        interface=plan.interface,
        namespace=chosen.namespace,
        namespace_id=namespace_id,
        index=0 if whole else rtnetlink.choose_index(),
        parent=plan.parent,
        parent_index=plan.parent_index,
        vf=plan.vf.address if plan.vf else None,
        nic=plan.vf.pf if plan.vf else plan.parent,
        mac=chosen.mac or "",
        accelerated=chosen.onload,
        request=request,
        state=State.PLUGGING,
        parent_up=plan.parent_up,
        parent_mtu=plan.parent_mtu,
        inode=plan.inode,
    )


def _done(record: Record, link: Link, nodes: tuple[int, int]) -> Record:
    """Return the record of a port that was just plugged.

    :param record: the record of its intent.
    :param nodes: nodes of its interface and of its parent.
    """
    return dataclasses.replace(
        record,
        interface=link.name,
        index=link.index,
        mac=link.mac,
        state=State.PLUGGED,
        node=nodes[0],
        parent_node=nodes[1],
    )


class Making:
    """Makes a port while it and its parent are locked."""

    def __init__(self, host: Host, unplugging: Unplugging) -> None:
        self._host = host
        self._links = host.links
        self._records = host.records
        self._subinterfaces = Subinterfaces(host)
        self._whole_vfs = WholeVfs(host)
        self._parents = Parents(host)
        self._unplugging = unplugging

    def observe(
        self, port: str | None = None, avoid: Collection[str] = ()
    ) -> View:
        """Return a view without the port's deleted interface.

        :param avoid: see View.
        """
        records = [
            each
            for each in self._host.mended()
            if each.port != port or not each.removed
        ]
        return self._host.view(records, avoid)

    def plan(self, request: Plug, view: View) -> PlugPlan:
        """Return the plan for a port that is not plugged."""
        return plan.make(request, view, self._host.pools, self._host.rules)

    def make(
        self, chosen: Plug, request: Plug, namespace_id: Identity | None
    ) -> Made:
        """Make a port while it and its parent are locked.

        :param chosen: the port with its chosen parent.
        :param request: the port as requested, before a parent was chosen.
        """
        todo = self._checked(chosen)
        intent = _intent(todo, namespace_id, request)
        self._records.begin(intent)
        try:
            if self._parents.renew(todo):
                todo = self._checked(chosen)
                intent = dataclasses.replace(
                    intent, parent_index=todo.parent_index
                )
                self._records.begin(intent)
            link = self._run(todo, intent)
            record = _done(intent, link, self._nodes(todo, link))
            if todo.vf is not None:
                note_settings(self._host.vfs, todo.vf, todo.request)
            self._records.put(record)
        except (LinkError, NicError) as error:
            LOG.warning("%s: undone (%s)", log.of(intent), error)
            self._unplugging.undo(intent)
            raise
        name = f"{link.name} in {link.namespace or 'this namespace'}"
        LOG.info("%s: plugged: %s", log.of(record), name)
        return link, show.made(record, link)

    def _checked(self, request: Plug) -> PlugPlan:
        """Return a plan for a parent that is locked.

        A VF is set only if nothing is on it in any namespace, and the first
        port of a parent needs an idle one.
        """
        view = self.observe(request.port)
        todo = self.plan(request, view)
        for each in view.probes:
            parent = view.parent(each)
            # No other process probes a parent that this port has locked.
            if parent is not None and parent.name == todo.parent:
                self._links.delete(each)
        if not todo.is_rare:
            return todo
        # On a parent that is quarantined for this port, what cannot be seen is
        # its own tenant's.
        own = todo.act is Act.SHARE and self._is_kept(request)
        first = todo.first and todo.vf is not None and not own
        parent = self._parent_of(todo, view)
        idle = self._links.idle(parent.name)
        if not idle or todo.act is not Act.SHARE:
            # A VLAN interface leaves its parent idle, and may share it.
            view.look_everywhere()
            # Whatever such a look finds belongs to no recorded port.
            found = view.children(parent) if first and not idle else ()
            if found:
                raise _taken(parent, request, [_on_it(x) for x in found])
            todo = self.plan(request, view)
            parent = self._parent_of(todo, view)
        unseen = idle is False and not view.children(parent)
        addressed = self._links.addressed(parent)
        seen = Use(
            unseen=unseen and not own,
            addressed=parent.name if addressed else None,
        )
        if problems := use.why_not(seen, todo.act):
            raise _taken(parent, request, problems)
        return todo

    def _is_kept(self, request: Plug) -> bool:
        record = self._records.get(request.port)
        return record is not None and record.is_quarantined

    def _parent_of(self, todo: PlugPlan, view: View) -> Link:
        parent = view.on_host(todo.parent)
        if parent is None:
            raise kernel_errors.NoSuchLink(todo.parent, port=todo.request.port)
        return parent

    def _nodes(self, todo: PlugPlan, link: Link) -> tuple[int, int]:
        """Return the lasting identities of a port and its parent."""
        if todo.request.kind == Kind.VF:
            return 0, 0
        parent = self._links.get(todo.parent)
        return (
            self._links.node(link),
            0 if parent is None else self._links.node(parent),
        )

    def _run(self, plan: PlugPlan, record: Record) -> Link:
        """Return the port's interface: configured, up, verified.

        :param record: the record of its intent, with its namespace.
        :raises LinkError: or NicError, for the first step that fails.
        """
        with self._host.away(plan.vf):
            return self._steps(plan, record)

    def _steps(self, plan: PlugPlan, record: Record) -> Link:
        if plan.request.kind == Kind.VF:
            link = self._whole_vfs.hand_out(plan, record)
        else:
            link = self._subinterfaces.make(plan, record)
        request = plan.request
        if request.limits != Limits():
            self._records.step(request.port, "limit")
            self._links.limit(link, request.limits)
        if not link.up:
            self._records.step(request.port, "up")
            link = self._links.configure(link, up=True)
        if request.addresses or request.routes:
            self._records.step(request.port, "address")
            self._links.address(link, request.addresses, request.routes)
        return link


class Plugging:
    """Makes ports, each under its own lock and its parent's."""

    def __init__(self, host: Host, unplugging: Unplugging) -> None:
        self._links = host.links
        self._vfs = host.vfs
        self._locks = host.locks
        self._records = host.records
        self._making = Making(host, unplugging)
        self._existing = Existing(host)
        self._unplugging = unplugging

    def plug(self, request: Plug, is_due: Due | None = None) -> Made:
        """Make a port; return it as it is if it exists.

        :param request: a checked port.
        :param is_due: decides, once the port is locked, whether to make it.
        :raises NotLost: if it decides not to.
        :raises LinkError: or NicError, if the port cannot be made; then
            nothing of it is left.
        """
        with self._locks.port(request.port):
            self._unplugging.finish_pending(request.port)
            # Kept open, so that no other namespace can get its identity.
            with (
                self._links.keep_open(request.namespace) as namespace_id,
                self._alone(request),
            ):
                if namespace_id is None and request.namespace is not None:
                    # This is the caller's own namespace under another name.
                    request = dataclasses.replace(request, namespace=None)
                if is_due is not None and not is_due(namespace_id):
                    raise errors.NotLost(request.name or "", port=request.port)
                there = self._there(request, namespace_id)
                if there is not None:
                    return None, there
                return self._chosen(request, namespace_id, self._kept(request))

    def _there(
        self, request: Plug, namespace_id: Identity | None
    ) -> Plugged | None:
        """Return an existing port; None if it has to be made.

        :raises AlreadyPlugged: if it differs from what is requested, and
            cannot be changed in place.
        :raises Quarantined: if it is quarantined.
        """
        record = self._records.get(request.port)
        if record is None:
            return None
        there = None
        # The interface of a quarantined port may have been seen again since.
        if not record.is_quarantined:
            there = self._existing.keep(record, request, namespace_id)
        if there is None:
            self._unplugging.unplug(record)
        return there

    def _alone(self, request: Plug) -> AbstractContextManager[object]:
        """Lock the choice of parents for a network's accelerated ports."""
        # Two VFs of one PF are two parents: their locks are not enough.
        if request.onload and request.network is not None:
            return self._locks.network(request.network)
        return contextlib.nullcontext()

    def _kept(self, request: Plug) -> str | None:
        """Return the parent that is quarantined for a port's last interface.

        Its next interface can be there, with its own tenant's, and only there:
        then that port keeps the parent.

        :raises Quarantined: if the last interface was another owner's.
        """
        record = self._records.get(request.port)
        if record is None:
            return None
        if (record.owner, record.kind) != (request.owner, request.kind):
            raise errors.Quarantined(
                record.parent, port=record.port, detail=record.reason
            )
        return record.parent

    def check(self, request: Plug) -> None:
        """Choose a parent for a port as a plug does, but make nothing.

        :raises LinkError: if there is none.
        """
        try:
            self._making.plan(request, self._making.observe())
        except _TAKEN:
            # A port that has gone without an unplug may block the parent.
            if not self._unplugging.release():
                raise
            self._making.plan(request, self._making.observe())

    def _chosen(
        self,
        request: Plug,
        namespace_id: Identity | None,
        kept: str | None = None,
    ) -> Made:
        """Choose a parent for a locked port, and make the port.

        :param kept: the only parent that it can have; None for any.
        """
        refused: list[LinkError] = []
        avoid: set[str] = set()
        while len(refused) < MAX_TRIES:
            chosen = request
            if kept is not None:
                chosen = dataclasses.replace(request, parent=kept)
            try:
                parent = chosen.parent
                if parent is None:
                    todo = self._making.plan(
                        request, self._making.observe(avoid=avoid)
                    )
                    parent = todo.parent
                    chosen = dataclasses.replace(todo.request, parent=parent)
                with self._locks.parent(parent), self._claimed(parent):
                    return self._making.make(chosen, request, namespace_id)
            except _TAKEN as error:
                # The next intent must not hide one that was not undone.
                self._unplugging.finish_pending(request.port)
                if (
                    kept is None
                    and self._records.get(request.port) is not None
                ):
                    raise  # it is quarantined for what it may have made
                # A port that has gone without an unplug may block the parent.
                freed = not refused and self._unplugging.release()
                # Or another port was quicker: choose again.
                if chosen is request and not freed:
                    if avoid:
                        raise refused[-1] from error
                    raise
                if not freed and isinstance(error, kernel_errors.ParentTaken):
                    # The records do not show its user: it would be taken
                    # again.
                    avoid.add(error.device)
                LOG.debug("%s: %s", log.about(request.port), error)
                refused.append(error)
        raise refused[-1]

    def _claimed(self, parent: str) -> AbstractContextManager[object]:
        """Keep other managers off the VF of a locked parent."""
        vf = self._vfs.of(parent)
        if vf is None:
            return contextlib.nullcontext()
        return self._vfs.tenancies.locked(vf.id.address)


def _on_it(child: Child) -> str:
    return f"{child.kind} {child.name} in {child.namespace} is on it"


def _taken(parent: Link, request: Plug, problems: Sequence[str]) -> LinkError:
    return kernel_errors.ParentTaken(
        parent.name, port=request.port, detail=first_of(problems, 3)
    )
