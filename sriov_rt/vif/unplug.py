# SPDX-License-Identifier: Apache-2.0

"""Removal of a port: unplug, and undo of a plug that was not finished."""

import contextlib
import logging
import secrets
import time
from collections.abc import Iterable
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.namespaces import Identity
from sriov_rt.kernel.tc import Limits
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import use
from sriov_rt.nic.errors import FiltersRemain
from sriov_rt.nic.errors import FunctionNotReset
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.errors import NotRecorded
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Kind as Holding
from sriov_rt.nic.use import Act
from sriov_rt.nic.vfs import Vfs
from sriov_rt.parse.link import MAX_INTERFACE
from sriov_rt.reason import first_of
from sriov_rt.vif import alias
from sriov_rt.vif import budget
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import proof
from sriov_rt.vif import report
from sriov_rt.vif import validation
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import State
from sriov_rt.vif.plan import unlike
from sriov_rt.vif.proof import Evidence
from sriov_rt.vif.proof import Verdict
from sriov_rt.vif.proof import Where
from sriov_rt.vif.records import Record
from sriov_rt.vif.view import PEERS
from sriov_rt.vif.view import Host
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: How long the kernel is given to end a namespace, and to bring a VF's
#: interface back out of it, in seconds; and between two looks.
PATIENCE_S = 2.0
PAUSE_S = 0.05

#: How many interfaces that may be on a parent are looked at, some ms each:
#: a tenant can have thousands on one of the same index.
MAX_LOOKS = 256

#: What a tenant can stack on our interface.
KINDS = ("macvlan", "macvtap", "ipvlan", "ipvtap")

_WHOLE, _PARENT = MANAGERS[Holding.WHOLE], MANAGERS[Holding.PARENT]

#: What has gone needs no way back.
GONE = (kernel_errors.NoSuchLink, NoSuchDevice)


class Undo:
    """Takes ports off a host, from whatever state they are in.

    Every step can be done again; what has gone is done.
    """

    def __init__(self, host: Host) -> None:
        self._away = host.away
        self._patience_s = (
            PATIENCE_S if host.patience_s is None else host.patience_s
        )
        self._records = host.records
        self._locks = host.locks
        self._links = host.links
        self._vfs = host.vfs
        self._pools = host.pools

    def remove(
        self,
        record: Record,
        view: View,
        *,
        locked: bool = True,
    ) -> bool:
        """Remove a port's interface; False if there was none.

        :param view: the host as it is now.
        :param locked: whether the caller has the lock of its parent.
        :raises Quarantined: if it may be somewhere out of sight.
        :raises Kept: if it is deleted, and something else may be.
        :raises LinkError: or NicError, if it cannot be.
        """
        vf = None if record.vf is None else view.vf_at(record.vf)
        with self._away(None if vf is None else vf.id):
            if record.kind == Kind.VF:
                return self._bring_back(record, view)
            return self._delete(record, view, locked=locked)

    def _delete(self, record: Record, view: View, *, locked: bool) -> bool:
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
        found = None if removed else self._in_place(record)
        namespace_ids = {record.namespace_id}
        deadline: float | None = None
        while True:
            if found is not None:
                self._records.step(record.port, "delete")
                namespace_ids.add(found.namespace_id)
                removed = done = self._links.delete(found) or done
            with self._locked(record, locked=locked):
                idle = self._is_idle(record, view)
            if idle:
                return done
            found = None if removed else self._search(record)
            if found is not None:
                continue
            with self._locked(record, locked=locked):
                evidence = self._evidence(
                    record, namespace_ids, removed=removed
                )
            verdict, reason = proof.judge(evidence)
            if verdict is Verdict.GONE:
                return done
            deadline = deadline or time.monotonic() + self._patience_s
            if time.monotonic() >= deadline:
                raise _quarantined(record, evidence, verdict, reason)
            # The kernel takes its time to end a namespace.
            time.sleep(PAUSE_S)

    def _undo_make(self, record: Record, view: View) -> bool:
        """Delete an interface that a plug may have made before it failed.

        What was killed before it was made is nowhere. What was, its tenant
        can have hidden before anybody noted it.

        :raises Quarantined: if it may be somewhere out of sight.
        """
        _, parent = self.parent(record, view)
        found = self._in_place(record)
        others = [each for each in view.records if each.port != record.port]
        deadline = time.monotonic() + self._patience_s
        while found is None:
            if parent is None or self._links.idle(parent.name):
                return False
            on, unseen = self._unaccounted(parent, others)
            found = report.among(record, on)
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
        return self._locks.parent(record.parent)

    def _in_place(self, record: Record) -> Link | None:
        """Return the interface of a port where it was plugged, if it is."""
        there = self._links.at(
            record.namespace, record.namespace_id, record.index
        )
        if there is None or not report.is_it(record, there):
            return None
        known = not record.node or self._links.node(there) == record.node
        return there if known else None

    def _search(self, record: Record) -> Link | None:
        """Return the interface of a port wherever it is, if it is seen."""
        if record.node:
            seen = self._links.inventory()
            place = seen.places.get(record.node)
            if place is not None:
                found = self._links.of_node(record.node, place)
                if found is not None:
                    return found
            elif seen.unseen == 0:
                return None
        for thorough in (False, True):
            for each in self._links.all(everywhere=True, thorough=thorough):
                if report.is_it(record, each) and (
                    not record.node
                    or self._links.node(each) in (0, record.node)
                ):
                    return each
        return None

    def parent(self, record: Record, view: View) -> tuple[Where, Link | None]:
        """Return where the parent of a port is, and it if it is here.

        By its node, and its index where that was not noted: its name is
        anybody's.
        """
        link = view.at(record.parent_index)
        node = record.parent_node
        if link is not None and (not node or self._links.node(link) == node):
            return Where.ON_HOST, link
        if node:
            found = self._links.inventory()
            place = found.places.get(node)
            if place is not None:
                own = place.namespace_id is None and view.on_host(place.name)
                return (Where.ON_HOST, own) if own else (Where.ELSEWHERE, None)
            if found.unseen == 0:
                return Where.DESTROYED, None
        if record.vf is None:
            return Where.UNKNOWN, None
        vf = view.vf_at(record.vf)
        if vf is None:
            there = self._vfs.is_present(record.vf)
            return Where.UNKNOWN if there else Where.DESTROYED, None
        if not view.is_on(record, vf):
            return Where.DESTROYED, None  # it was made again
        # A VF has one interface: where it has another, the first is no more.
        other = None if vf.netdev is None else view.on_host(vf.netdev)
        if other is not None and other.device == record.vf:
            return Where.DESTROYED, None
        if vf.netdev is None and not vf.device.elsewhere:
            return Where.DESTROYED, None
        return Where.UNKNOWN, None

    def _place(self, record: Record) -> str:
        """Return the namespace that a parent is in now, a clause."""
        place = self._links.inventory().places.get(record.parent_node)
        if place is None or place.namespace is None:
            return "a namespace that nothing names"
        return f"{place.namespace}, where it is {place.name}"

    def _is_idle(self, record: Record, view: View) -> bool:
        """Return whether the kernel says that nothing is on a parent.

        :param view: the host as it was.
        """
        _, parent = self.parent(record, view)
        now = None if parent is None else self._links.get(parent.name)
        return (
            now is not None
            and parent is not None
            and now.index == parent.index
            and bool(self._links.idle(now.name))
        )

    def _evidence(
        self,
        record: Record,
        namespace_ids: set[Identity | None],
        *,
        removed: bool,
    ) -> Evidence:
        """Return what the kernel says of a port and of its parent.

        What the tenant has stacked on its interface is deleted: the kernel
        puts it on the parent of that (macvlan_common_newlink in
        drivers/net/macvlan.c), and it would outlive it.

        :param namespace_ids: namespaces of the tenant, where its interface
            was.
        """
        records = self._records.all()
        others = [each for each in records if each.port != record.port]
        view = View(self._links, self._vfs, others)
        where, parent = self.parent(record, view)
        if parent is None:
            return Evidence(
                record.parent,
                where,
                idle=None,
                removed=removed,
                place=self._place(record),
            )
        idle = self._links.idle(parent.name)
        if idle:
            return Evidence(parent.name, idle=True, removed=removed)
        on, unseen = self._unaccounted(parent, others)
        strays = self._strays(on, others)
        mine = [
            each
            for each in strays
            # Nobody else's has its index by chance.
            if each.namespace_id in namespace_ids or report.is_it(record, each)
        ]
        if mine and self._is_pooled(parent, view):
            for each in mine:
                self._unstack(record, each, others)
            idle = self._links.idle(parent.name)
            on, unseen = self._unaccounted(parent, others)
            strays = self._strays(on, others)
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
            beside=bool(ports) or _has_others(parent, [*on, *on_host]),
            suspect=None if suspect is None else suspect.port,
            unseen=unseen,
            clue="" if removed else self._clue(record, parent),
        )

    def _on(self, parent: Link) -> Sequence[Link]:
        """Return what is seen on a parent, in all namespaces."""
        return [
            each
            for each in self._links.all(everywhere=True, thorough=True)
            if each.parent == parent.index and each.kind not in PEERS
        ]

    def _unaccounted(
        self, parent: Link, records: Sequence[Record]
    ) -> tuple[Sequence[Link], int | None]:
        """Return what is on a parent at one moment, and nobody's.

        That is no port's, nor in the host's own namespace. Two looks are no
        proof: what is moved to and fro between them can be in neither. So
        each node that is not accounted for is followed, and one that has
        moved on by then counts as unseen.

        :param records: of other ports.
        :returns: and how many interfaces that cannot be seen may be on it;
            None if the kernel cannot tell.
        """
        known = {each.node for each in records if not each.removed}
        seen = self._links.inventory(parent.index, known)
        found = [
            self._links.of_node(node, seen.places[node])
            for node in sorted(seen.on)[:MAX_LOOKS]
        ]
        links = [each for each in found if each is not None]
        lost = len(seen.on) - len(links)
        return [
            each
            for each in links
            if each.parent == parent.index and each.kind not in PEERS
        ], None if seen.unseen is None else seen.unseen + lost

    def _strays(
        self, on: Sequence[Link], records: Sequence[Record]
    ) -> Sequence[Link]:
        """Return what is on a parent in other namespaces and of no port."""
        return [
            each
            for each in on
            if each.kind in KINDS
            and each.namespace is not None
            and not self._has_port(each, records)
        ]

    def _has_port(self, link: Link, records: Sequence[Record]) -> bool:
        node = self._links.node(link)
        return any(
            each.node == node if each.node else report.is_it(each, link)
            for each in records
            if each.kind != Kind.VF and not each.removed
        )

    def _unstack(
        self, record: Record, link: Link, records: Sequence[Record]
    ) -> None:
        # It may have been renamed while it was looked at.
        if not self._links.node(link) or self._has_port(link, records):
            return
        LOG.warning(
            "%s: %s was made on %s beside it, and is deleted too",
            report.about(record),
            link.name,
            record.parent,
        )
        self._links.delete(link)

    def _clue(self, record: Record, parent: Link) -> str:
        """Return what is known of an interface that is not seen."""
        if record.namespace_id is None:
            return f"{record.interface} has left the host and cannot be seen"
        if not self._links.ended(record.namespace_id):
            return (
                f"{record.interface} has left its namespace, which is there "
                "still"
            )
        heard = self._links.unknown_macs(
            parent.name, {each.mac for each in self._on(parent)}
        )
        if heard:
            return (
                "its namespace has ended, and somebody unseen has the MAC "
                f"{first_of(heard, proof.NAMED)}"
            )
        return (
            "its namespace has ended, and something that cannot be seen may "
            f"be on {parent.name}"
        )

    def cut_off(
        self, record: Record, view: View
    ) -> tuple[Link, Record] | None:
        """Return a parent that nothing but a quarantined port can be on.

        Set down, it is no way to the wire for who holds that.

        :returns: the parent and the port; None if there is none, others are
            on the parent, or it is down.
        """
        _, parent = self.parent(record, view)
        if parent is None or not parent.up or record.kind == Kind.VF:
            return None
        keeper = view.quarantined(parent)
        if keeper is None:
            return None
        if any(not each.is_quarantined for each in view.on(parent)):
            return None
        if not self._is_pooled(parent, view) and record.vf is None:
            return None
        on = self._on(parent)
        # On a VF of a pool it can only be the tenant's that nobody accounts
        # for; on another parent it may be anybody's.
        ours = record.vf is not None and self._is_pooled(parent, view)
        strays = not ours and self._strays(on, view.records)
        taken = (
            _has_others(parent, on)
            or strays
            or self._links.addressed(parent)
            or any(each.id.pf == parent.name for each in view.vfs)
        )
        return None if taken else (parent, keeper)

    def lower(self, parent: Link) -> None:
        """Set a parent down; its alias goes on to say if we set it up."""
        self._links.configure(parent, up=False)

    def lift(self, record: Record, view: View) -> None:
        """Set a parent up again that was set down to cut a port off."""
        _, parent = self.parent(record, view)
        if parent is not None and not self._is_marked(parent):
            self._links.configure(parent, up=True)

    def _is_pooled(self, link: Link, view: View) -> bool:
        vf = view.vf_of(link)
        network = self._pools.network_of(link.name, vf.id if vf else None)
        return network is not None

    def clean_parent(self, record: Record, view: View) -> None:
        """Bring a parent that has no children left to the baseline.

        And down if we set it up, as a VF's alias says: or else it would be
        in use for ever (see nic.provision). The record of a plug knows, too.

        :param view: the host as it is after the removal.
        :raises LinkError: or NicError, if it cannot be.
        """
        if record.kind == Kind.VF:
            return
        if record.state is State.PLUGGING and self._put_back(record, view):
            view = View(self._links, self._vfs, view.records)
        _, parent = self.parent(record, view)
        if parent is None:
            return
        if view.children(parent):
            vf = view.vf_of(parent)
            if vf is not None and record.state is State.PLUGGING:
                # What it was set to for this one stays for the others.
                with contextlib.suppress(NotRecorded):
                    note_settings(self._vfs, vf.id, record.request)
            return
        if view.quarantined(parent) is not None:
            return
        if record.vf is not None and not self._is_unused(record, parent, view):
            return
        raised = record.state is State.PLUGGING and not record.parent_up
        try:
            self.clean(parent, view, record.port, raised=raised)
        except GONE as error:
            _gone(record, error)

    def _put_back(self, record: Record, view: View) -> bool:
        """Give a parent what it had before its first port.

        Its driver was being bound again when that plug was interrupted.

        :returns: whether its interface is another now.
        """
        vf = None if record.vf is None else view.vf_at(record.vf)
        if vf is None or not view.is_on(record, vf):
            return False
        if vf.driver is None:
            vf = self._vfs.reset(vf.id, depth=_PARENT.after)
        link = None if vf.netdev is None else self._links.get(vf.netdev)
        if link is None or link.index == record.parent_index:
            return False
        if link.name != record.parent:
            link = self._links.move(link, None, record.parent)
        mtu = record.parent_mtu or link.mtu
        self._links.configure(
            link,
            mtu=None if link.mtu == mtu else mtu,
            up=record.parent_up or None,
        )
        return True

    def _is_unused(self, record: Record, parent: Link, view: View) -> bool:
        """Return whether a VF can be set: nothing is on it in any namespace.

        :raises Quarantined: if something is that cannot be seen.
        """
        if parent.master is not None:
            return False  # of somebody's bridge or bond
        deadline = time.monotonic() + self._patience_s
        while (seen := view.use(parent, look=True)).unseen:
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    parent.name,
                    port=record.port,
                    detail="something that cannot be seen is on it",
                )
            # The kernel takes its time to end a namespace.
            time.sleep(PAUSE_S)
        seen = use.with_holders(seen, view.vf_of(parent))
        problems = use.why_not(seen, Act.RESET)
        if problems:
            LOG.warning(
                "%s: %s is not reset: %s is on it",
                report.about(record),
                parent.name,
                first_of(problems, proof.NAMED),
            )
        return not problems

    def clean(
        self,
        link: Link,
        view: View,
        port: str | None = None,
        *,
        raised: bool = False,
    ) -> bool:
        """Bring an idle VF to the baseline, and down; False if it is there.

        :param link: its interface, which nothing is on.
        :param raised: whether the port that is undone has set it up.
        """
        lower = raised or self._is_to_be_down(link)
        if lower:
            self._note(port, "parent-down")
            marked = self._is_marked(link)
            self._links.configure(link, up=False, alias="" if marked else None)
        vf = view.vf(link.name)
        if vf is None or not self._needs_reset(vf):
            return lower
        self._note(port, "baseline")
        self._vfs.reset(vf.id, depth=_PARENT.after)
        return True

    def _note(self, port: str | None, step: str) -> None:
        if port is not None:
            self._records.step(port, step)

    def _is_to_be_down(self, parent: Link) -> bool:
        """Return whether we set up an interface that nothing is on any more.

        What somebody has given an address, or to a bridge, is in use.
        """
        return (
            self._is_marked(parent)
            and parent.master is None
            and not self._links.addressed(parent)
        )

    def dirty(self, view: View) -> Iterable[Link]:
        """Yield the idle VFs of the pools that are not at the baseline.

        And parents that we set up, of the pools or not. A namespace that
        goes takes its subinterfaces along and tells nobody: their parents
        are found so.
        """
        for vf in view.vfs:
            link = None if vf.netdev is None else view.on_host(vf.netdev)
            if (
                link is not None
                and not use.why_not(
                    use.with_holders(view.use(link), vf), Act.CLEAN
                )
                and (self._is_marked(link) or self._needs_reset(vf))
                # What takes a look at all namespaces comes last.
                and not use.why_not(view.use(link, look=True), Act.CLEAN)
            ):
                yield link

    def _is_marked(self, link: Link) -> bool:
        return link.alias == alias.PARENT

    def _needs_reset(self, vf: VfState) -> bool:
        """Return whether a VF of a pool is not as clean as its NIC lets it."""
        return (
            self._pools.network_of(vf.netdev or "", vf.id) is not None
            and unlike(vf.settings, vf.baseline) is not None
            and not self._vfs.plan_reset(vf.id, depth=_PARENT.after).is_empty
        )

    def _bring_back(self, record: Record, view: View) -> bool:
        if record.vf is None or _is_anothers(record, view):
            return False
        vf = view.vf_at(record.vf)
        if vf is not None and not view.is_on(record, vf):
            LOG.info(
                "%s: gone: the VF was made again since", report.about(record)
            )
            return False
        if vf is None:
            if self._vfs.is_present(record.vf):
                raise errors.Quarantined(
                    record.vf,
                    port=record.port,
                    detail=f"its PF {record.nic} has no interface here",
                    remedy="bring the PF's interface back to the host, and "
                    "unplug the port again",
                )
            return False
        try:
            link = self._of_vf(record, vf)
            if link is not None:
                self._return(record, link, vf, view)
                return True
            # It was between two drivers.
            name = _host_name(record, None, vf.id, view)
            self._make_clean(record, vf.id, name, view)
        except GONE as error:
            if self._is_there(vf.id):
                raise  # the namespace went, and it is on the host again
            _gone(record, error)
        return False

    def _reset(self, record: Record, vf: VfId) -> VfState:
        """Bring a VF that was a tenant's to the baseline.

        Its driver is bound again: no attribute speaks of all that can be set
        inside of a namespace.

        :raises Quarantined: if it must have no other tenant, or its function
            cannot be reset.
        """
        self._records.step(record.port, "baseline")
        try:
            return self._vfs.reset(vf, depth=_WHOLE.after)
        except (FiltersRemain, FunctionNotReset) as error:
            raise errors.Quarantined(
                str(vf),
                port=record.port,
                detail=error.problem,
                remedy=error.remedy,
            ) from error

    def _of_vf(self, record: Record, vf: VfState) -> Link | None:
        """Return the interface of a VF; None if it has none at all.

        :raises Quarantined: if it is somewhere out of sight.
        """
        deadline = time.monotonic() + self._patience_s
        while True:
            now = self._vfs.observe(vf.id)
            if now.netdev is not None:
                return self._links.get(now.netdev)
            if now.driver is None:
                return None
            if is_vfio(now.driver):
                raise errors.Quarantined(
                    str(vf.id),
                    port=record.port,
                    detail=f"{vf.id.address} was bound to {now.driver}, by "
                    "hand or for a guest",
                    remedy="stop the guest that has it, unbind it (echo "
                    f"{vf.id.address} > /sys/bus/pci/drivers/{now.driver}/"
                    "unbind), and unplug the port again",
                )
            for thorough in (False, True):
                for each in self._links.all(
                    everywhere=True, thorough=thorough
                ):
                    if _is_of(each, vf, record):
                        return each
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    str(vf.id),
                    port=record.port,
                    detail=f"{vf.id.address} has its interface elsewhere",
                )
            time.sleep(PAUSE_S)

    def _is_there(self, vf: VfId) -> bool:
        try:
            self._vfs.observe(vf)
        except NoSuchDevice:
            return False
        return True

    def _return(
        self, record: Record, link: Link, vf: VfState, view: View
    ) -> None:
        host_name = _host_name(record, link, vf.id, view)
        last = link.mac
        self._records.step(record.port, "quiet")
        self._links.limit(link, Limits())
        # Its names and its alias are a tenant's: none may come home.
        self._links.strip(link)
        link = self._links.configure(
            link, up=False, promisc=False, allmulti=False, alias=""
        )
        if link.namespace is not None or link.name != host_name:
            self._records.step(record.port, "home")
            link = self._links.move(link, None, host_name)
        self._make_clean(record, vf.id, host_name, view, last)

    def _make_clean(
        self,
        record: Record,
        vf: VfId,
        name: str,
        view: View,
        last: str | None = None,
    ) -> None:
        """Reset a VF that is on the host, and give its interface its name.

        :param last: the MAC that it had; None where that is not known.
        """
        state = self._reset(record, vf)
        link = self._links.get(state.netdev or name)
        if link is None:
            return
        if link.name != name:
            # Its driver was bound again: the kernel numbered it anew.
            link = self._links.move(link, None, name)
        # The MAC of its last port must not stay on a second VF of the same
        # NIC; a driver that was bound again has made up another.
        self._records.step(record.port, "clean")
        pf = view.on_host(vf.pf)
        self._links.configure(
            link,
            mac=_random_mac() if link.mac == last else None,
            mtu=pf.mtu if pf is not None and pf.mtu != link.mtu else None,
            alias="",
        )


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


def _has_others(parent: Link, on: Sequence[Link]) -> bool:
    """Return whether the host itself has something on an interface.

    :param on: what is seen on it.
    """
    return parent.master is not None or any(
        each.namespace is None or each.kind not in KINDS for each in on
    )


def _stray(link: Link) -> str:
    return f"{link.kind} {link.name} in {link.namespace or 'the host'}"


def note_settings(vfs: Vfs, vf: VfId, request: Plug) -> None:
    """Write down what a VF is set to, as its ports need it.

    One in passthru mode has its parent's MAC, which it can change.
    """
    now = vfs.observe(vf).settings
    passthru = request.mode == budget.PASSTHRU
    vfs.tenancies.note(
        vf.address,
        VfSettings(
            mac=None if passthru else now.mac,
            vlan=now.vlan,
            spoofchk=now.spoofchk,
            trust=now.trust,
        ),
    )


def _is_anothers(record: Record, view: View) -> bool:
    """Return whether another port has a VF by now."""
    return any(
        each.kind == Kind.VF
        and each.vf == record.vf
        and each.port != record.port
        for each in view.records
    )


def _is_of(link: Link, vf: VfState, record: Record) -> bool:
    if link.device or link.kind:
        return link.device == vf.id.address and not link.kind
    # A kernel before 5.14 does not tell the device from afar.
    return (link.namespace_id, link.index) == (
        record.namespace_id,
        record.index,
    )


def _host_name(record: Record, link: Link | None, vf: VfId, view: View) -> str:
    """Return what the interface of a VF is to be called on the host.

    :param link: the interface as it is now; None if there is none.
    """
    # As it was, or as systemd names it.
    for name in (record.parent, f"{vf.pf}v{vf.index}"):
        there = view.on_host(name)
        free = there is None or there == link
        if free and len(name) <= MAX_INTERFACE:
            return name
    return validation.default(record.port)


def _random_mac() -> str:
    octets = (0x02, *secrets.token_bytes(5))
    return ":".join(f"{each:02x}" for each in octets)


def _gone(record: Record, error: Exception) -> None:
    reported = log.about(record.port, record.vf)
    LOG.info("%s: gone while it was unplugged (%s)", reported, error)
