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


"""Plugging of a port: its steps, one port after the other on a parent."""

import contextlib
import dataclasses
import logging
from contextlib import AbstractContextManager

from sriov_rt.nic.errors import NicError
from sriov_rt.vif import alias
from sriov_rt.vif import budget
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import plan
from sriov_rt.vif import report
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.journal import Entry
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.link import Link
from sriov_rt.vif.link import Links
from sriov_rt.vif.link import Subinterface
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Limits
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Plugged
from sriov_rt.vif.namespaces import Identity
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.records import Record
from sriov_rt.vif.records import Records
from sriov_rt.vif.recovery import Recovery
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import Away
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View
from sriov_rt.vif.view import observe


class Steps:
    """Does what a plan says; whoever calls undoes it when that fails."""

    def __init__(
        self, links: Links, vfs: Vfs, journal: Journal, away: Away
    ) -> None:
        self._links = links
        self._vfs = vfs
        self._journal = journal
        self._away = away

    def run(self, plan: PlugPlan, entry: Entry) -> Link:
        """Return the port's interface: configured, up, verified.

        :param entry: the journal's, with where it is to be.
        :raises VifError: or NicError, for the first step that fails.
        """
        with self._away(plan.vf):
            return self._run(plan, entry)

    def _run(self, plan: PlugPlan, entry: Entry) -> Link:
        if plan.want.kind == Kind.VF:
            link = self._whole(plan, entry)
        else:
            link = self._subinterface(plan, entry)
        want = plan.want
        if want.limits != Limits():
            self._note(plan, "limit")
            self._links.limit(link, want.limits)
        if not link.up:
            self._note(plan, "up")
            link = self._links.configure(link, up=True)
        if want.addresses or want.routes:
            self._note(plan, "address")
            self._links.address(link, want.addresses, want.routes)
        return link

    def _note(self, plan: PlugPlan, step: str) -> None:
        self._journal.step(plan.want.port, step)

    def _subinterface(self, plan: PlugPlan, entry: Entry) -> Link:
        want = plan.want
        if plan.vf is not None and plan.settings is not None:
            self._note(plan, "settings")
            self._vfs.apply(self._vfs.plan(plan.vf, plan.settings))
        if not plan.parent_up:
            self._note(plan, "parent-up")
            self._raise(plan)
        if plan.vf is not None and want.kind != Kind.IPVLAN:
            self._vfs.mark_filters(plan.vf)
        # One in passthru mode takes its parent's MAC when it is made
        # (macvlan_common_newlink), and can be given another only then.
        passthru = want.mode == budget.PASSTHRU
        remac = passthru and want.mac is not None
        if plan.settings is not None or not plan.parent_up:
            # Otherwise it comes first, which the entry says.
            self._note(plan, "create")
        link = self._links.create(
            Subinterface(
                name=plan.interface,
                kind=want.kind,
                mode=want.mode or "",
                parent=plan.parent,
                namespace=want.namespace,
                space=entry.space,
                index=entry.index,
                mac=None if passthru else want.mac,
                mtu=want.mtu,
                alias=str(plan.alias),
                # Not before its limits hold and its MAC is its own.
                up=not remac and want.limits == Limits(),
            )
        )
        if remac and link.mac != want.mac:
            self._note(plan, "mac")
            link = self._links.configure(link, mac=want.mac)
        return link

    def _raise(self, plan: PlugPlan) -> None:
        """Set a parent up; a VF's says that it is to be down without ports.

        One that has an alias is somebody's, who may want it up later.
        """
        parent = self._links.get(plan.parent)
        if parent is None:
            raise errors.NoSuchLink(plan.parent, port=plan.want.port)
        marked = plan.vf is not None and not parent.alias
        self._links.configure(
            parent, up=True, alias=alias.PARENT if marked else None
        )

    def _whole(self, plan: PlugPlan, entry: Entry) -> Link:
        want = plan.want
        assert plan.vf is not None
        assert plan.settings is not None
        self._note(plan, "baseline")
        state = self._vfs.reset(plan.vf)
        # Its interface has the MAC before the PF says so: afterwards it
        # could have it by a reload of its driver only, and not at all if it
        # is not trusted (igbvf_set_mac in igbvf/netdev.c).
        self._note(plan, "own")
        link = self._own(plan, self._netdev(plan, state.netdev))
        self._note(plan, "settings")
        state = self._vfs.apply(self._vfs.plan(plan.vf, plan.settings))
        link = self._netdev(plan, state.netdev)
        if (link.mac, link.alias) != (plan.want.mac, str(plan.alias)):
            # Its driver was bound again, and the interface is a new one.
            self._note(plan, "own")
            link = self._own(plan, link)
        self._note(plan, "move")
        return self._links.move(
            link, want.namespace, plan.interface, entry.space
        )

    def _own(self, plan: PlugPlan, link: Link) -> Link:
        mac, mtu = plan.want.mac, plan.want.mtu
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
            raise errors.NoSuchLink(
                plan.parent, port=plan.want.port, detail=f"{plan.vf}"
            )
        return link


LOG = logging.getLogger(__name__)

#: How often to look again at a host that has changed meanwhile.
MAX_TRIES = 8

#: Why another parent may do.
_TAKEN = (
    errors.BudgetExceeded,
    errors.NoParent,
    errors.NoSuchLink,
    errors.ParentTaken,
    errors.SpreadNeeded,
)

#: What a port can become while its owner uses it.
_CHANGED_IN_PLACE = {"MTU", "kbit/s out", "kbit/s in"}

#: The link if it was made now, and the port.
Made = tuple[Link | None, Plugged]


class Plugging:
    """Makes ports, each under its own lock and its parent's.

    :param steps: do what a plan says.
    :param recovery: undoes what fails.
    """

    def __init__(
        self,
        links: Links,
        vfs: Vfs,
        pools: Pools,
        journal: Journal,
        locks: Locks,
        rules: Rules,
        steps: Steps,
        recovery: Recovery,
        records: Records,
    ) -> None:
        self._links = links
        self._vfs = vfs
        self._pools = pools
        self._journal = journal
        self._locks = locks
        self._rules = rules
        self._steps = steps
        self._recovery = recovery
        self._records = records

    def _observe(self) -> View:
        return observe(self._links, self._vfs, self._records)

    def plan(self, want: Plug, view: View) -> PlugPlan:
        """Return the plan for a port that is not plugged."""
        return plan.make(want, view, self._pools, self._rules)

    def plug(self, want: Plug) -> Made:
        """Make a port, or return it as it is if it is there.

        :param want: a checked one.
        :raises VifError: or NicError, if it cannot be made; then nothing of
            it is left.
        """
        with self._locks.port(want.port):
            self._recovery.settle(want.port)
            # Held, so that its identity cannot become another's meanwhile.
            with self._links.hold(want.namespace) as space, self._alone(want):
                if space is None and want.namespace is not None:
                    # By another name, it is the caller's own.
                    want = dataclasses.replace(want, namespace=None)
                there = self._existing(want, space)
                if there is not None:
                    return None, there
                return self._chosen(want, space)

    def _alone(self, want: Plug) -> AbstractContextManager[object]:
        """Keep other accelerated ports of a network from choosing."""
        # Two VFs of one PF are two parents: their locks do not do.
        if want.onload and want.network is not None:
            return self._locks.network(want.network)
        return contextlib.nullcontext()

    def _existing(self, want: Plug, space: Identity | None) -> Plugged | None:
        """Return a port that is there already; None if it is to be made.

        :raises AlreadyPlugged: if it is something else than what is asked
            for, and cannot become that.
        :raises Quarantined: if it is.
        """
        record = self._records.get(want.port)
        if record is None:
            return None
        if record.is_quarantined:
            # It may have been seen again since.
            self._recovery.depart(record)
            return None
        link = self.find(record)
        found = report.differences(record, want)
        if {"owner", "kind"} & found.keys():
            raise _differing(record, found)
        moved_on = record.asked.namespace is None and want.namespace is None
        if link is None or not (link.space == space or moved_on):
            # Its container was started anew, or has lost it.
            LOG.info(
                "%s: is made again, for it is %s",
                log.about(want.port, record.vf),
                "gone" if link is None else "in another namespace",
            )
            self._recovery.depart(record)
            return None
        if found.keys() - _CHANGED_IN_PLACE:
            raise _differing(record, found)
        if found:
            link = self._change(record, link, want)
            record = dataclasses.replace(record, asked=want)
            self._records.put(record)
        return report.plugged(record, link, self._observe())

    def find(self, record: Record) -> Link | None:
        """Return the interface of a port wherever it is, None if unseen."""
        there = self.in_place(record)
        if there is not None:
            return there
        return report.among(record, self._links.all(everywhere=True))

    def in_place(self, record: Record) -> Link | None:
        """Return the interface of a port where it was plugged, if it is."""
        there = self._links.at(record.namespace, record.space, record.index)
        if there is None or report.is_of(record, there):
            return there
        whole = record.kind == Kind.VF
        return there if whole and not there.device else None

    def _change(self, record: Record, link: Link, want: Plug) -> Link:
        if want.limits != record.asked.limits:
            self._links.limit(link, want.limits)
        mtu = want.mtu
        if mtu is None:
            parent = self._links.get(record.parent)
            mtu = link.mtu if parent is None else parent.mtu
        if mtu != link.mtu:
            link = self._links.configure(link, mtu=mtu)
        LOG.info("%s: changed in place", log.about(want.port, record.vf))
        return link

    def _chosen(self, want: Plug, space: Identity | None) -> Made:
        """Choose a parent for a port whose lock is held, and make it."""
        refused: list[VifError] = []
        while len(refused) < MAX_TRIES:
            chosen = want
            try:
                parent = want.parent
                if parent is None:
                    todo = self.plan(want, self._observe())
                    parent = todo.parent
                    chosen = dataclasses.replace(todo.want, parent=parent)
                with self._locks.parent(parent):
                    return self._make(self._checked(chosen), want, space)
            except _TAKEN as error:
                # The next intent must not hide one that is not undone.
                self._recovery.settle(want.port)
                # What has gone without an unplug may be what keeps it off.
                freed = not refused and self._recovery.release()
                # Or another port was quicker: choose again.
                if chosen is want and not freed:
                    raise
                LOG.debug("%s: %s", log.about(want.port), error)
                refused.append(error)
        raise refused[-1]

    def _checked(self, want: Plug) -> PlugPlan:
        """Return a plan for a parent that is locked.

        What sets a VF is done only where nothing is on it in any namespace.
        """
        view = self._observe()
        todo = self.plan(want, view)
        if not todo.is_rare:
            return todo
        view.look_everywhere()
        todo = self.plan(want, view)
        parent = view.on_host(todo.parent)
        if parent is None:
            raise errors.NoSuchLink(todo.parent, port=want.port)
        if (
            not view.children(parent)
            and self._links.idle(parent.name) is False
        ):
            raise errors.ParentTaken(
                parent.name,
                port=want.port,
                detail="something that cannot be seen is on it",
            )
        return todo

    def _make(
        self, todo: PlugPlan, want: Plug, space: Identity | None
    ) -> Made:
        """Do a plan while its port and its parent are locked.

        :param want: as it was asked for, its parent not yet chosen.
        """
        entry = report.intent(todo, space)
        self._journal.begin(entry)
        try:
            link = self._steps.run(todo, entry)
            record = report.record(todo, entry, link, want)
            self._records.put(record)
            self._journal.end(entry.port)
        except (VifError, NicError) as error:
            LOG.warning("%s: undone (%s)", report.about(entry), error)
            self._recovery.undo(entry)
            raise
        name = f"{link.name} in {link.namespace or 'this namespace'}"
        LOG.info("%s: plugged: %s", report.about(entry), name)
        return link, report.made(record, link)


def _differing(record: Record, found: dict[str, str]) -> errors.VifError:
    return errors.AlreadyPlugged(
        record.interface,
        port=record.port,
        detail=", ".join(report.lines(found)),
    )
