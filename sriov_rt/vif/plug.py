# SPDX-License-Identifier: Apache-2.0

"""Plugging of a port: its steps, one port after the other on a parent."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.link import Subinterface
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import Limits
from sriov_rt.nic import use
from sriov_rt.nic.errors import NicError
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import UNKNOWN_INODE
from sriov_rt.nic.tenancy import Kind as Holding
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from sriov_rt.reason import first_of
from sriov_rt.vif import alias
from sriov_rt.vif import budget
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import plan
from sriov_rt.vif import report
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.records import Record
from sriov_rt.vif.recovery import Recovery
from sriov_rt.vif.unplug import note_settings
from sriov_rt.vif.view import Child
from sriov_rt.vif.view import Host
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

_WHOLE = MANAGERS[Holding.WHOLE]

#: How often to look again at a host that has changed meanwhile.
MAX_TRIES = 8

#: Why another parent may do.
_TAKEN = (
    errors.BudgetExceeded,
    errors.NoParent,
    kernel_errors.NoSuchLink,
    kernel_errors.ParentTaken,
    errors.SpreadNeeded,
)

#: What a port can become while its owner uses it.
_CHANGED_IN_PLACE = {"MTU", "kbit/s out", "kbit/s in"}

#: The link if it was made now, and the port.
Made = tuple[Link | None, Plugged]

#: Whether a port is to be made, by the namespace that it would be in.
Due = Callable[[Identity | None], bool]


class Steps:
    """Does what a plan says; whoever calls undoes it when that fails."""

    def __init__(self, host: Host) -> None:
        self._links = host.links
        self._vfs = host.vfs
        self._records = host.records
        self._away = host.away

    def run(self, plan: PlugPlan, record: Record) -> Link:
        """Return the port's interface: configured, up, verified.

        :param record: of its intent, with where it is to be.
        :raises LinkError: or NicError, for the first step that fails.
        """
        with self._away(plan.vf):
            return self._run(plan, record)

    def _run(self, plan: PlugPlan, record: Record) -> Link:
        if plan.request.kind == Kind.VF:
            link = self._whole(plan, record)
        else:
            link = self._subinterface(plan, record)
        request = plan.request
        if request.limits != Limits():
            self._note(plan, "limit")
            self._links.limit(link, request.limits)
        if not link.up:
            self._note(plan, "up")
            link = self._links.configure(link, up=True)
        if request.addresses or request.routes:
            self._note(plan, "address")
            self._links.address(link, request.addresses, request.routes)
        return link

    def _note(self, plan: PlugPlan, step: str) -> None:
        self._records.step(plan.request.port, step)

    def _subinterface(self, plan: PlugPlan, record: Record) -> Link:
        request = plan.request
        if plan.vf is not None and plan.settings is not None:
            self._note(plan, "settings")
            self._vfs.apply(self._vfs.plan(plan.vf, plan.settings))
        if not plan.parent_up:
            self._note(plan, "parent-up")
            self._raise(plan)
        if plan.vf is not None and request.kind != Kind.IPVLAN:
            self._vfs.mark_filters(plan.vf)
        # One in passthru mode takes its parent's MAC when it is made
        # (macvlan_common_newlink), and can be given another only then.
        passthru = request.mode == budget.PASSTHRU
        remac = passthru and request.mac is not None
        if plan.settings is not None or not plan.parent_up:
            # Otherwise it comes first, which the record says.
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
                # Not before its limits hold and its MAC is its own.
                up=not remac and request.limits == Limits(),
            )
        )
        if remac and link.mac != request.mac:
            self._note(plan, "mac")
            link = self._links.configure(link, mac=request.mac)
        return link

    def _raise(self, plan: PlugPlan) -> None:
        """Set a parent up; a VF's says that it is to be down without ports.

        One that has an alias is somebody's, who may want it up later.
        """
        parent = self._links.get(plan.parent)
        if parent is None:
            raise kernel_errors.NoSuchLink(plan.parent, port=plan.request.port)
        marked = plan.vf is not None and not parent.alias
        self._links.configure(
            parent, up=True, alias=alias.PARENT if marked else None
        )

    def _whole(self, plan: PlugPlan, record: Record) -> Link:
        request = plan.request
        assert plan.vf is not None
        assert plan.settings is not None
        before = self._links.get(plan.parent)
        mtu = request.mtu
        if mtu is None and before is not None:
            mtu = before.mtu
        self._note(plan, "baseline")
        state = self._vfs.reset(plan.vf, depth=_WHOLE.before)
        # Its interface has the MAC before the PF says so: afterwards it
        # could have it by a reload of its driver only, and not at all if it
        # is not trusted (igbvf_set_mac in igbvf/netdev.c).
        self._note(plan, "own")
        link = self._own(plan, self._netdev(plan, state.netdev), mtu)
        self._note(plan, "settings")
        state = self._vfs.apply(self._vfs.plan(plan.vf, plan.settings))
        link = self._netdev(plan, state.netdev)
        if (link.mac, link.alias) != (plan.request.mac, str(plan.alias)):
            # Its driver was bound again, and the interface is a new one.
            self._note(plan, "own")
            link = self._own(plan, link, mtu)
        self._note(plan, "move")
        return self._links.move(
            link, request.namespace, plan.interface, record.namespace_id
        )

    def _own(self, plan: PlugPlan, link: Link, mtu: int | None) -> Link:
        mac = plan.request.mac
        return self._links.configure(
            link,
            mac=None if link.mac == mac else mac,
            mtu=None if link.mtu == mtu else mtu,
            alias=str(plan.alias),
            up=False,
        )

    def _netdev(self, plan: PlugPlan, name: str | None) -> Link:
        link = None if name is None else self._links.get(name)
        if link is None:
            raise kernel_errors.NoSuchLink(
                plan.parent, port=plan.request.port, detail=f"{plan.vf}"
            )
        return link


class Plugging:
    """Makes ports, each under its own lock and its parent's.

    :param recovery: undoes what fails.
    """

    def __init__(self, host: Host, recovery: Recovery) -> None:
        self._links = host.links
        self._vfs = host.vfs
        self._pools = host.pools
        self._locks = host.locks
        self._rules = host.rules
        self._steps = Steps(host)
        self._recovery = recovery
        self._records = host.records

    def _observe(
        self, port: str | None = None, avoid: Collection[str] = ()
    ) -> View:
        """Return the host as it is, but for an interface that is deleted.

        :param port: whose it was.
        :param avoid: see View.
        """
        records = [
            each
            for each in self._recovery.mended()
            if each.port != port or not each.removed
        ]
        return View(self._links, self._vfs, records, avoid)

    def plan(self, request: Plug, view: View) -> PlugPlan:
        """Return the plan for a port that is not plugged."""
        return plan.make(request, view, self._pools, self._rules)

    def plug(self, request: Plug, is_due: Due | None = None) -> Made:
        """Make a port, or return it as it is if it is there.

        :param request: a checked one.
        :param is_due: judges whether it is to be made, once it is locked.
        :raises NotLost: if it is not.
        :raises LinkError: or NicError, if it cannot be made; then nothing of
            it is left.
        """
        with self._locks.port(request.port):
            self._recovery.finish_pending(request.port)
            # Held, so that its identity cannot become another's meanwhile.
            with (
                self._links.keep_open(request.namespace) as namespace_id,
                self._alone(request),
            ):
                if namespace_id is None and request.namespace is not None:
                    # By another name, it is the caller's own.
                    request = dataclasses.replace(request, namespace=None)
                if is_due is not None and not is_due(namespace_id):
                    raise errors.NotLost(request.name or "", port=request.port)
                there = self._existing(request, namespace_id)
                if there is not None:
                    return None, there
                return self._chosen(request, namespace_id, self._kept(request))

    def _alone(self, request: Plug) -> AbstractContextManager[object]:
        """Keep other accelerated ports of a network from choosing."""
        # Two VFs of one PF are two parents: their locks do not do.
        if request.onload and request.network is not None:
            return self._locks.network(request.network)
        return contextlib.nullcontext()

    def _existing(
        self, request: Plug, namespace_id: Identity | None
    ) -> Plugged | None:
        """Return a port that is there already; None if it is to be made.

        :raises AlreadyPlugged: if it is something else than what is asked
            for, and cannot become that.
        :raises Quarantined: if it is.
        """
        record = self._records.get(request.port)
        if record is None:
            return None
        if record.is_quarantined:
            # It may have been seen again since.
            self._recovery.unplug_record(record)
            return None
        link = self.find(record)
        found = report.differences(record, request)
        if {"owner", "kind"} & found.keys():
            raise _differing(record, found)
        moved_on = (
            record.request.namespace is None and request.namespace is None
        )
        if link is None or not (link.namespace_id == namespace_id or moved_on):
            # Its container was started anew, or has lost it.
            LOG.info(
                "%s: plugging again: its interface is %s",
                log.about(request.port, record.vf),
                "gone" if link is None else "in another namespace",
            )
            self._recovery.unplug_record(record)
            return None
        if found.keys() - _CHANGED_IN_PLACE:
            raise _differing(record, found)
        if found:
            link = self._change(record, link, request)
            record = dataclasses.replace(record, request=request)
            self._records.put(record)
        return report.plugged(record, link, self._observe())

    def _is_kept(self, request: Plug) -> bool:
        record = self._records.get(request.port)
        return record is not None and record.is_quarantined

    def _kept(self, request: Plug) -> str | None:
        """Return the parent that is quarantined for a port's last interface.

        It can have another there, which is its own tenant's; and only there,
        for then that is what keeps the parent.

        :raises Quarantined: if it was another's port.
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
        """Choose a parent for a port as a plug does, and make nothing.

        :raises LinkError: if it has none.
        """
        try:
            self.plan(request, self._observe())
        except _TAKEN:
            # What has gone without an unplug may be what keeps it off.
            if not self._recovery.release():
                raise
            self.plan(request, self._observe())

    def find(self, record: Record) -> Link | None:
        """Return the interface of a port wherever it is, None if unseen."""
        if self.is_remade(record):
            return None
        there = self.in_place(record)
        if there is not None:
            return there
        return report.among(record, self._links.all(everywhere=True))

    def is_remade(self, record: Record) -> bool:
        """Return whether another VF is at the address of a port's now."""
        if record.vf is None:
            return False
        now = self._vfs.tenancies.get(record.vf).inode
        return UNKNOWN_INODE not in (now, record.inode) and (
            now != record.inode
        )

    def in_place(self, record: Record) -> Link | None:
        """Return the interface of a port where it was plugged, if it is."""
        if not record.index:
            return None  # which it is a damaged record does not say
        there = self._links.at(
            record.namespace, record.namespace_id, record.index
        )
        if there is None or report.is_of(record, there):
            return there
        whole = record.kind == Kind.VF
        return there if whole and not there.device else None

    def _change(self, record: Record, link: Link, request: Plug) -> Link:
        if request.limits != record.request.limits:
            self._links.limit(link, request.limits)
        mtu = request.mtu
        if mtu is None:
            parent = self._links.get(record.parent)
            mtu = link.mtu if parent is None else parent.mtu
        if mtu != link.mtu:
            link = self._links.configure(link, mtu=mtu)
        LOG.info("%s: changed in place", log.about(request.port, record.vf))
        return link

    def _chosen(
        self,
        request: Plug,
        namespace_id: Identity | None,
        kept: str | None = None,
    ) -> Made:
        """Choose a parent for a port whose lock is held, and make it.

        :param kept: the only one that it can have.
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
                    todo = self.plan(request, self._observe(avoid=avoid))
                    parent = todo.parent
                    chosen = dataclasses.replace(todo.request, parent=parent)
                with self._locks.parent(parent), self._claimed(parent):
                    return self._make(chosen, request, namespace_id)
            except _TAKEN as error:
                # The next intent must not hide one that is not undone.
                self._recovery.finish_pending(request.port)
                if (
                    kept is None
                    and self._records.get(request.port) is not None
                ):
                    raise  # it is quarantined for what it may have made
                # What has gone without an unplug may be what keeps it off.
                freed = not refused and self._recovery.release()
                # Or another port was quicker: choose again.
                if chosen is request and not freed:
                    if avoid:
                        raise refused[-1] from error
                    raise
                if not freed and isinstance(error, kernel_errors.ParentTaken):
                    # By what is not in the records: it is so again.
                    avoid.add(error.device)
                LOG.debug("%s: %s", log.about(request.port), error)
                refused.append(error)
        raise refused[-1]

    def _claimed(self, parent: str) -> AbstractContextManager[object]:
        """Keep other managers from the VF of a parent that is locked."""
        vf = self._vfs.of(parent)
        if vf is None:
            return contextlib.nullcontext()
        return self._vfs.tenancies.locked(vf.id.address)

    def _renew(self, todo: PlugPlan) -> bool:
        """Bind the driver of a parent again, before its first port ever.

        What somebody has set on its interface before would reach all of its
        ports. What has an address, an alias or a bridge is somebody's.

        :returns: whether its interface is another one now.
        """
        vf = todo.vf
        if not todo.first or vf is None:
            return False
        before = self._links.get(todo.parent)
        if (
            before is None
            or self._vfs.tenancies.get(vf.address).bound
            or before.master is not None
            or before.alias not in ("", alias.PARENT)
            or self._links.addressed(before)
        ):
            return False
        self._records.step(todo.request.port, "renew")
        state = self._vfs.renew(vf)
        link = self._links.get(state.netdev or todo.parent)
        if link is None:
            raise kernel_errors.NoSuchLink(todo.parent, detail=f"{vf}")
        if link.name != before.name:
            # The kernel numbered it anew.
            link = self._links.move(link, None, before.name)
        self._links.configure(
            link,
            mtu=None if link.mtu == before.mtu else before.mtu,
            up=before.up or None,
        )
        self._vfs.tenancies.bind(vf.address)
        LOG.info("vf=%s bound again before its first port", vf.address)
        return True

    def _checked(self, request: Plug) -> PlugPlan:
        """Return a plan for a parent that is locked.

        What sets a VF is done only where nothing is on it in any namespace,
        and the first port of a parent needs an idle one.
        """
        view = self._observe(request.port)
        todo = self.plan(request, view)
        for each in view.probes:
            parent = view.parent(each)
            # Nobody else looks while this port holds the parent.
            if parent is not None and parent.name == todo.parent:
                self._links.delete(each)
        if not todo.is_rare:
            return todo
        # What is unseen on a parent that is quarantined for this port is its
        # own tenant's.
        own = todo.act is Act.SHARE and self._is_kept(request)
        first = todo.first and todo.vf is not None and not own
        parent = self._parent_of(todo, view)
        idle = self._links.idle(parent.name)
        if not idle or todo.act is not Act.SHARE:
            # A VLAN's interface on it keeps a parent idle, and may be shared.
            view.look_everywhere()
            # Whatever a look finds is of nobody who has a record.
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

    def _parent_of(self, todo: PlugPlan, view: View) -> Link:
        parent = view.on_host(todo.parent)
        if parent is None:
            raise kernel_errors.NoSuchLink(todo.parent, port=todo.request.port)
        return parent

    def _nodes(self, todo: PlugPlan, link: Link) -> tuple[int, int]:
        """Return what a port and its parent are known by for ever."""
        if todo.request.kind == Kind.VF:
            return 0, 0
        parent = self._links.get(todo.parent)
        return (
            self._links.node(link),
            0 if parent is None else self._links.node(parent),
        )

    def _make(
        self, chosen: Plug, request: Plug, namespace_id: Identity | None
    ) -> Made:
        """Make a port while it and its parent are locked.

        :param chosen: with the parent that was chosen.
        :param request: as it was asked for, its parent not yet chosen.
        """
        todo = self._checked(chosen)
        intent = report.intent(todo, namespace_id, request)
        self._records.begin(intent)
        try:
            if self._renew(todo):
                todo = self._checked(chosen)
                intent = dataclasses.replace(
                    intent, parent_index=todo.parent_index
                )
                self._records.begin(intent)
            link = self._steps.run(todo, intent)
            record = report.done(intent, link, self._nodes(todo, link))
            if todo.vf is not None:
                note_settings(self._vfs, todo.vf, todo.request)
            self._records.put(record)
        except (LinkError, NicError) as error:
            LOG.warning("%s: undone (%s)", report.about(intent), error)
            self._recovery.undo(intent)
            raise
        name = f"{link.name} in {link.namespace or 'this namespace'}"
        LOG.info("%s: plugged: %s", report.about(record), name)
        return link, report.made(record, link)


def _on_it(child: Child) -> str:
    return f"{child.kind} {child.name} in {child.namespace} is on it"


def _taken(parent: Link, request: Plug, problems: Sequence[str]) -> LinkError:
    return kernel_errors.ParentTaken(
        parent.name, port=request.port, detail=first_of(problems, 3)
    )


def _differing(record: Record, found: dict[str, str]) -> errors.VifError:
    return errors.AlreadyPlugged(
        record.interface,
        port=record.port,
        detail=", ".join(report.lines(found)),
    )
