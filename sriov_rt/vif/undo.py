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


"""The way back: of an unplug, and of a plug that was not finished."""

import logging
import secrets
from collections.abc import Iterable

from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.settings import BASELINE
from sriov_rt.nic.words import VfId
from sriov_rt.nic.words import VfState
from sriov_rt.vif import alias
from sriov_rt.vif import attribution
from sriov_rt.vif import errors
from sriov_rt.vif import homes
from sriov_rt.vif import tell
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Links
from sriov_rt.vif.entries import Action
from sriov_rt.vif.entries import Entry
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.plan import unlike
from sriov_rt.vif.pools import Pools
from sriov_rt.vif.view import Away
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View
from sriov_rt.vif.words import Kind
from sriov_rt.vif.words import Limits

LOG = logging.getLogger(__name__)

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
        away: Away,
    ) -> None:
        self._away = away
        self._links = links
        self._vfs = vfs
        self._pools = pools
        self._journal = journal

    def remove(self, entry: Entry, view: View) -> bool:
        """Remove a port's interface; False if there was none.

        :param view: the host as it is now.
        :raises VifError: or NicError, if it cannot be.
        """
        vf = None if entry.vf is None else view.vf_at(entry.vf)
        with self._away(None if vf is None else vf.id):
            if entry.kind == Kind.VF:
                return self._bring_home(entry, view)
            return self._delete(entry, view)

    def _delete(self, entry: Entry, view: View) -> bool:
        done = False
        for link in attribution.subinterfaces(entry, view):
            self._journal.step(entry.port, "delete")
            done |= self._links.delete(link)
        return done

    def rest(self, entry: Entry, view: View) -> None:
        """Bring a parent that has no children left to the baseline.

        And down if we set it up, as a VF's alias says: or else it would be
        in use for ever (see nic.provision). The entry of a plug knows, too.

        :param view: the host as it is after the removal.
        :raises VifError: or NicError, if it cannot be.
        """
        parent = view.here(entry.parent)
        if entry.kind == Kind.VF or parent is None or view.children(parent):
            return
        raised = entry.action == Action.PLUG and not entry.parent_up
        try:
            self.clean(parent, view, entry.port, raised=raised)
        except GONE as error:
            _gone(entry, error)

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
            marked = link.alias == alias.PARENT
            self._links.configure(link, up=False, alias="" if marked else None)
        vf = view.vf(link.name)
        if vf is None or not self._needs_reset(vf):
            return lower
        self._note(port, "baseline")
        self._vfs.reset(vf.id)
        return True

    def _note(self, port: str | None, step: str) -> None:
        if port is not None:
            self._journal.step(port, step)

    def _is_to_be_down(self, parent: Link) -> bool:
        """Tell whether we set up an interface that nothing is on any more.

        What somebody has given an address, or to a bridge, is in use.
        """
        return (
            parent.alias == alias.PARENT
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
            link = None if vf.netdev is None else view.here(vf.netdev)
            if (
                link is not None
                and alias.is_free(link.alias)
                and not view.children(link)
                and (link.alias or self._needs_reset(vf))
            ):
                yield link

    def _needs_reset(self, vf: VfState) -> bool:
        """Tell whether a VF of a pool is not as clean as its NIC lets it."""
        return (
            self._pools.network_of(vf.netdev or "", vf.id.pf) is not None
            and unlike(vf.settings, BASELINE) is not None
            and not self._vfs.plan_reset(vf.id).is_empty
        )

    def _bring_home(self, entry: Entry, view: View) -> bool:
        link, vf = attribution.whole(entry, view)
        try:
            if link is not None:
                self._return(entry, link, vf, view)
                return True
            if vf is not None and vf.netdev is None and vf.driver is None:
                # It was between two drivers.
                self._journal.step(entry.port, "baseline")
                self._vfs.reset(vf.id)
        except GONE as error:
            if vf is not None and self._is_there(vf.id):
                raise  # the namespace went, and it is on the host again
            _gone(entry, error)
        return False

    def _is_there(self, vf: VfId) -> bool:
        try:
            self._vfs.observe(vf)
        except NoSuchDevice:
            return False
        return True

    def _return(
        self, entry: Entry, link: Link, vf: VfState | None, view: View
    ) -> None:
        identity = vf.id if vf is not None else None
        home = self._home(entry, link, identity, view)
        last = link.mac
        self._journal.step(entry.port, "quiet")
        self._links.limit(link, Limits())
        link = self._links.configure(
            link, up=False, promisc=False, allmulti=False
        )
        if link.namespace is not None or link.name != home:
            self._journal.step(entry.port, "home")
            link = self._links.move(link, None, home)
        self._journal.step(entry.port, "baseline")
        identity = identity or self._vfs.locate(link.name)
        state = self._vfs.reset(identity)
        again = self._links.get(state.netdev or home)
        if again is None:
            return
        if again.name != home:
            # Its driver was bound again: the kernel numbered it anew.
            again = self._links.move(again, None, home)
        # The alias goes last: until then it says whose the VF is. The MAC
        # of its last port must not stay on a second VF of the same NIC; a
        # driver that was bound again has made up another.
        self._journal.step(entry.port, "clean")
        pf = view.here(identity.pf)
        self._links.configure(
            again,
            mac=_random_mac() if again.mac == last else None,
            mtu=pf.mtu if pf is not None and pf.mtu != again.mtu else None,
            alias="",
        )

    def _home(
        self, entry: Entry, link: Link, vf: VfId | None, view: View
    ) -> str:
        """Return what the interface of a VF is called on the host."""
        whose = alias.parse(link.alias)
        sure = entry.action == Action.PLUG
        hint = entry.parent
        if not sure and whose is not None and whose.home:
            hint = whose.home
        return homes.choose(hint, link, vf, view, self._pools, sure=sure)


def _random_mac() -> str:
    octets = (0x02, *secrets.token_bytes(5))
    return ":".join(f"{each:02x}" for each in octets)


def _gone(entry: Entry, error: Exception) -> None:
    told = tell.about(entry.port, entry.vf)
    LOG.info("%s: gone while it was unplugged (%s)", told, error)
