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


"""The steps of a plug, in their order."""

from sriov_rt.vif import alias
from sriov_rt.vif import budget
from sriov_rt.vif import errors
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Links
from sriov_rt.vif.edge import Subinterface
from sriov_rt.vif.journal import Entry
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Limits
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.view import Away
from sriov_rt.vif.view import Vfs


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
        remac = passthru and plan.mac is not None
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
                mac=None if passthru else plan.mac,
                mtu=want.mtu,
                alias=str(plan.alias),
                # Not before its limits hold and its MAC is its own.
                up=not remac and want.limits == Limits(),
            )
        )
        if remac and link.mac != plan.mac:
            self._note(plan, "mac")
            link = self._links.configure(link, mac=plan.mac)
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
        if (link.mac, link.alias) != (plan.mac, str(plan.alias)):
            # Its driver was bound again, and the interface is a new one.
            self._note(plan, "own")
            link = self._own(plan, link)
        self._note(plan, "move")
        return self._links.move(
            link, want.namespace, plan.interface, entry.space
        )

    def _own(self, plan: PlugPlan, link: Link) -> Link:
        mac, mtu = plan.mac, plan.want.mtu
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
