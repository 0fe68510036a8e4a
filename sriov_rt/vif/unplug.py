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


"""Removal of a port: unplug, and undo of a plug that was not finished."""

import logging
import secrets
import time
from collections.abc import Iterable

from sriov_rt.nic.errors import FiltersRemain
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.vif import alias
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import report
from sriov_rt.vif import validation
from sriov_rt.vif.journal import Action
from sriov_rt.vif.journal import Entry
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.link import Link
from sriov_rt.vif.link import Links
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Limits
from sriov_rt.vif.plan import unlike
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import Away
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

#: How long the kernel is given to end a namespace, and to bring a VF's
#: interface back out of it, in seconds; and between two looks.
PATIENCE_S = 2.0
PAUSE_S = 0.05

#: What a tenant can stack on our interface.
KINDS = ("macvlan", "macvtap", "ipvlan", "ipvtap")

#: What has gone needs no way back.
GONE = (errors.NoSuchLink, NoSuchDevice)


class Undo:
    """Takes ports off a host, from whatever state they are in.

    Every step can be done again; what has gone is done.
    """

    def __init__(
        self,
        links: Links,
        vfs: Vfs,
        pools: Pools,
        journal: Journal,
        locks: Locks,
        away: Away,
    ) -> None:
        self._away = away
        self._locks = locks
        self._links = links
        self._vfs = vfs
        self._pools = pools
        self._journal = journal

    def remove(self, entry: Entry, view: View, *, held: bool = True) -> bool:
        """Remove a port's interface; False if there was none.

        :param view: the host as it is now.
        :param held: whether the caller has the lock of its parent.
        :raises Quarantined: if it may be somewhere out of sight.
        :raises VifError: or NicError, if it cannot be.
        """
        vf = None if entry.vf is None else view.vf_at(entry.vf)
        with self._away(None if vf is None else vf.id):
            if entry.kind == Kind.VF:
                return self._bring_back(entry, view)
            return self._delete(entry, view, held=held)

    def _delete(self, entry: Entry, view: View, *, held: bool) -> bool:
        if not entry.index:
            LOG.warning(
                "%s: an older sriov-rt has not noted which interface it "
                "made; see whether %s in %s is left, and delete it",
                report.about(entry),
                entry.interface,
                entry.namespace or "the host",
            )
            return False
        link = self._find(entry, view, held=held)
        if link is None:
            return False
        self._journal.step(entry.port, "delete")
        return self._links.delete(link)

    def unstack(self, entry: Entry, view: View) -> None:
        """Remove what a tenant has made on our parent; that is locked.

        What is stacked on a macvlan the kernel puts on that one's parent
        (macvlan_common_newlink in drivers/net/macvlan.c): with the VLAN of
        the port, it would outlive it.

        :param view: the host as it is after the removal.
        :raises VifError: if something cannot be removed.
        """
        parent = view.on_host(entry.parent)
        if (
            entry.action != Action.UNPLUG
            or entry.kind == Kind.VF
            or entry.vf is None
            or entry.space is None
            or parent is None
            or not self._is_pooled(parent, view)
        ):
            return
        for each in self._links.all_in(entry.namespace, entry.space):
            if (
                each.kind in KINDS
                and each.parent == parent.index
                and view.record_of(each) is None
            ):
                LOG.warning(
                    "%s: %s was made on %s beside it, and is deleted too",
                    report.about(entry),
                    each.name,
                    entry.parent,
                )
                self._links.delete(each)

    def _idle(self, entry: Entry, *, held: bool) -> bool | None:
        """Return whether nothing is on a port's parent.

        :param held: whether the caller has its lock: who plugs a port on it
            meanwhile would be refused.
        """
        if held:
            return self._links.idle(entry.parent)
        with self._locks.parent(entry.parent):
            return self._links.idle(entry.parent)

    def _is_pooled(self, link: Link, view: View) -> bool:
        vf = view.vf_of(link)
        network = self._pools.network_of(link.name, vf.id if vf else None)
        return network is not None

    def _find(self, entry: Entry, view: View, *, held: bool) -> Link | None:
        """Return the interface of a macvlan, macvtap or ipvlan.

        :returns: None if it is sure to be gone.
        :raises Quarantined: if it is neither seen nor sure to be gone.
        """
        parent = view.on_host(entry.parent)
        if parent is None or parent.index != entry.parent_index:
            return None  # it went, and what was on it too
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self._seen(entry, held=held)
            if found is not None:
                return found
            if self._idle(entry, held=held):
                return None
            # What was killed before it was made is nowhere.
            made = entry.action == Action.UNPLUG
            problem = self._unseen(entry, parent) if made else None
            if problem is None:
                return None
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    entry.parent, port=entry.port, detail=problem
                )
            # The kernel takes its time to end a namespace.
            time.sleep(PAUSE_S)

    def _seen(self, entry: Entry, *, held: bool) -> Link | None:
        """Return the interface where it was plugged, or else wherever."""
        there = self._links.at(entry.namespace, entry.space, entry.index)
        if there is not None and report.is_it(entry, there):
            return there
        if self._idle(entry, held=held):
            return None
        for thorough in (False, True):
            for each in self._links.all(everywhere=True, thorough=thorough):
                if report.is_it(entry, each):
                    return each
        return None

    def _unseen(self, entry: Entry, parent: Link) -> str | None:
        """Return why an interface that is not seen may be there."""
        if entry.space is None:
            return None  # it was deleted here, or moved to where one sees
        if not self._links.ended(entry.space):
            return (
                f"{entry.interface} has left its namespace, which is there "
                "still"
            )
        known = {
            each.mac
            for each in self._links.all(everywhere=True, thorough=True)
            if each.parent == parent.index
        }
        heard = self._links.strangers(parent.name, known)
        if heard:
            return (
                "its namespace has ended, and somebody unseen has the MAC "
                f"{', '.join(heard)}"
            )
        return None

    def rest(self, entry: Entry, view: View) -> None:
        """Bring a parent that has no children left to the baseline.

        And down if we set it up, as a VF's alias says: or else it would be
        in use for ever (see nic.provision). The entry of a plug knows, too.

        :param view: the host as it is after the removal.
        :raises VifError: or NicError, if it cannot be.
        """
        parent = view.on_host(entry.parent)
        if entry.kind == Kind.VF or parent is None or view.children(parent):
            return
        if view.quarantined(parent) is not None:
            return
        if entry.vf is not None and not self._is_rested(entry, parent, view):
            return
        raised = entry.action == Action.PLUG and not entry.parent_up
        try:
            self.clean(parent, view, entry.port, raised=raised)
        except GONE as error:
            _gone(entry, error)

    def _is_rested(self, entry: Entry, parent: Link, view: View) -> bool:
        """Return whether a VF can be set: nothing is on it in any namespace.

        :raises Quarantined: if something is that cannot be seen.
        """
        if parent.master is not None:
            return False  # of somebody's bridge or bond
        deadline = time.monotonic() + PATIENCE_S
        while self._links.idle(parent.name) is False:
            view.look_everywhere()
            if view.children(parent):
                break
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    parent.name,
                    port=entry.port,
                    detail="something that cannot be seen is on it",
                )
            # The kernel takes its time to end a namespace.
            time.sleep(PAUSE_S)
        view.look_everywhere()
        left = view.children(parent)
        if left:
            LOG.warning(
                "%s: %s stays as it is, for %s in %s is on it",
                report.about(entry),
                parent.name,
                left[0].name,
                left[0].namespace or "this namespace",
            )
        return not left

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
        self._vfs.reset(vf.id, shared=True)
        return True

    def _note(self, port: str | None, step: str) -> None:
        if port is not None:
            self._journal.step(port, step)

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
                and view.holder(link) is None
                and view.quarantined(link) is None
                and not view.children(link)
                and (self._is_marked(link) or self._needs_reset(vf))
                and self.is_idle(link, view)
            ):
                yield link

    def is_idle(self, link: Link, view: View) -> bool:
        """Return whether nothing is on an interface, in any namespace."""
        if self._links.idle(link.name) is False:
            return False
        view.look_everywhere()
        return not view.children(link)

    def _is_marked(self, link: Link) -> bool:
        return link.alias == alias.PARENT

    def _needs_reset(self, vf: VfState) -> bool:
        """Return whether a VF of a pool is not as clean as its NIC lets it."""
        return (
            self._pools.network_of(vf.netdev or "", vf.id) is not None
            and unlike(vf.settings, BASELINE) is not None
            and not self._vfs.plan_reset(vf.id, shared=True).is_empty
        )

    def _bring_back(self, entry: Entry, view: View) -> bool:
        vf = None if entry.vf is None else view.vf_at(entry.vf)
        if vf is None or _is_anothers(entry, view):
            return False
        try:
            link = self._of_vf(entry, vf)
            if link is not None:
                self._return(entry, link, vf, view)
                return True
            # It was between two drivers.
            name = _host_name(entry, None, vf.id, view)
            self._settle(entry, vf.id, name, view)
        except GONE as error:
            if self._is_there(vf.id):
                raise  # the namespace went, and it is on the host again
            _gone(entry, error)
        return False

    def _reset(self, entry: Entry, vf: VfId) -> VfState:
        """Bring a VF that was a tenant's to the baseline.

        Its driver is bound again: no attribute speaks of all that can be set
        inside of a namespace.

        :raises Quarantined: if it must have no other tenant.
        """
        self._journal.step(entry.port, "baseline")
        try:
            return self._vfs.reset(vf, fresh=True)
        except FiltersRemain as error:
            raise errors.Quarantined(
                str(vf), port=entry.port, detail=str(error)
            ) from error

    def _of_vf(self, entry: Entry, vf: VfState) -> Link | None:
        """Return the interface of a VF; None if it has none at all.

        :raises Quarantined: if it is somewhere out of sight.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            now = self._vfs.observe(vf.id)
            if now.netdev is not None:
                return self._links.get(now.netdev)
            if now.driver is None:
                return None
            for thorough in (False, True):
                for each in self._links.all(
                    everywhere=True, thorough=thorough
                ):
                    if _is_of(each, vf, entry) and each.nsid is None:
                        return each
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    str(vf.id),
                    port=entry.port,
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
        self, entry: Entry, link: Link, vf: VfState, view: View
    ) -> None:
        home = _host_name(entry, link, vf.id, view)
        last = link.mac
        self._journal.step(entry.port, "quiet")
        self._links.limit(link, Limits())
        # Its names and its alias are a tenant's: none may come home.
        self._links.strip(link)
        link = self._links.configure(
            link, up=False, promisc=False, allmulti=False, alias=""
        )
        if link.namespace is not None or link.name != home:
            self._journal.step(entry.port, "home")
            link = self._links.move(link, None, home)
        self._settle(entry, vf.id, home, view, last)

    def _settle(
        self,
        entry: Entry,
        vf: VfId,
        name: str,
        view: View,
        last: str | None = None,
    ) -> None:
        """Reset a VF that is on the host, and give its interface its name.

        :param last: the MAC that it had; None where that is not known.
        """
        state = self._reset(entry, vf)
        link = self._links.get(state.netdev or name)
        if link is None:
            return
        if link.name != name:
            # Its driver was bound again: the kernel numbered it anew.
            link = self._links.move(link, None, name)
        # The MAC of its last port must not stay on a second VF of the same
        # NIC; a driver that was bound again has made up another.
        self._journal.step(entry.port, "clean")
        pf = view.on_host(vf.pf)
        self._links.configure(
            link,
            mac=_random_mac() if link.mac == last else None,
            mtu=pf.mtu if pf is not None and pf.mtu != link.mtu else None,
            alias="",
        )


def _is_anothers(entry: Entry, view: View) -> bool:
    """Return whether another port has a VF by now."""
    return any(
        each.kind == Kind.VF
        and each.vf == entry.vf
        and each.port != entry.port
        for each in view.records
    )


def _is_of(link: Link, vf: VfState, entry: Entry) -> bool:
    if link.device or link.kind:
        return link.device == vf.id.address and not link.kind
    # A kernel before 5.14 does not tell the device from afar.
    return (link.space, link.index) == (entry.space, entry.index)


def _host_name(entry: Entry, link: Link | None, vf: VfId, view: View) -> str:
    """Return what the interface of a VF is to be called on the host.

    :param link: the interface as it is now; None if there is none.
    """
    # As it was, or as systemd names it.
    for name in (entry.parent, f"{vf.pf}v{vf.index}"):
        there = view.on_host(name)
        free = there is None or there == link
        if free and len(name) <= validation.MAX_INTERFACE:
            return name
    return validation.default(entry.port)


def _random_mac() -> str:
    octets = (0x02, *secrets.token_bytes(5))
    return ":".join(f"{each:02x}" for each in octets)


def _gone(entry: Entry, error: Exception) -> None:
    told = log.about(entry.port, entry.vf)
    LOG.info("%s: gone while it was unplugged (%s)", told, error)
