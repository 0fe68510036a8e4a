# SPDX-License-Identifier: Apache-2.0

"""Parents of ports: offered, set up for ports, and cleaned without them."""

import contextlib
import logging
import time
from collections.abc import Iterable

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import use
from sriov_rt.nic.errors import NotRecorded
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Kind as Holding
from sriov_rt.nic.use import Act
from sriov_rt.nic.vfs import Vfs
from sriov_rt.reason import first_of
from sriov_rt.vif import alias
from sriov_rt.vif import budget
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import proof
from sriov_rt.vif.host import GONE
from sriov_rt.vif.host import PAUSE_S
from sriov_rt.vif.host import Host
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.model import KINDS
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record
from sriov_rt.vif.model import State
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.plan import unlike
from sriov_rt.vif.search import Search
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

_PARENT = MANAGERS[Holding.PARENT]


def offer(view: View, pools: Pools, virt_type: str) -> Offer:
    """Return what a host offers.

    :param pools: parents that the operator names; one that is absent, or is
        handed out as a whole VF, carries nothing.
    :param virt_type: ``[libvirt] virt_type`` of its nova-compute.
    """
    parents: dict[str, set[str]] = {}
    vfs: dict[str, set[str]] = {}
    for member in pools.members:
        if not member.of_pf:
            link = view.on_host(member.name)
            if link is not None:
                parents.setdefault(member.network, set()).add(link.name)
                if view.vf_of(link) is not None:
                    vfs.setdefault(member.network, set()).add(link.name)
            continue
        for vf in view.vfs_of(member.name):
            netdev = vf.netdev or ""
            if pools.network_of(netdev, vf.id) == member.network:
                for found in (parents, vfs):
                    found.setdefault(member.network, set()).add(netdev)
    return Offer(
        {network: len(names) for network, names in parents.items()},
        {network: len(names) for network, names in vfs.items()},
        frozenset(KINDS.get(virt_type, {})),
    )


def note_settings(vfs: Vfs, vf: VfId, request: Plug) -> None:
    """Record what a VF is set to for its ports.

    In passthru mode a port has its parent's MAC, which it can change.
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


class Parents:
    """Sets parents up for their first port, and cleans them after the last."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._vfs = host.vfs
        self._records = host.records
        self._search = Search(host.links, host.vfs)

    def renew(self, todo: PlugPlan) -> bool:
        """Rebind the driver of a parent before its first port ever.

        Earlier settings of its interface would affect all of its ports. An
        interface with an address, an alias or a bridge is in use and stays.

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
            # The kernel gave it a new number.
            link = self._links.move(link, None, before.name)
        self._links.configure(
            link,
            mtu=None if link.mtu == before.mtu else before.mtu,
            up=before.up or None,
        )
        self._vfs.tenancies.bind(vf.address)
        LOG.info("vf=%s bound again before its first port", vf.address)
        return True

    def clean_after(self, record: Record, view: View) -> None:
        """Reset a parent that has no children left to the baseline.

        Set it down, too, if we set it up, as a VF's alias or the record of a
        plug says: else it would be in use for ever (see nic.provision).

        :param view: the host as it is after the removal.
        :raises LinkError: or NicError, if it cannot be cleaned.
        """
        if record.kind == Kind.VF:
            return
        if record.state is State.PLUGGING and self._put_back(record, view):
            view = self._host.view(view.records)
        _, parent = self._search.parent(record, view)
        if parent is None:
            return
        if view.children(parent):
            vf = view.vf_of(parent)
            if vf is not None and record.state is State.PLUGGING:
                # Settings made for this port stay for the others.
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
            LOG.info(
                "%s: gone while it was unplugged (%s)", log.of(record), error
            )

    def _put_back(self, record: Record, view: View) -> bool:
        """Restore what a parent had before its first port.

        The plug was interrupted while the parent's driver was rebound.

        :returns: whether its interface is another one now.
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

        :raises Quarantined: if something that cannot be seen is on it.
        """
        if parent.master is not None:
            return False  # in a bridge or bond
        deadline = self._host.deadline()
        while (seen := view.use(parent, look=True)).unseen:
            if time.monotonic() >= deadline:
                raise errors.Quarantined(
                    parent.name,
                    port=record.port,
                    detail="something that cannot be seen is on it",
                )
            # The kernel takes time to end a namespace.
            time.sleep(PAUSE_S)
        seen = use.with_holders(seen, view.vf_of(parent))
        problems = use.why_not(seen, Act.RESET)
        if problems:
            LOG.warning(
                "%s: %s is not reset: %s is on it",
                log.of(record),
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
        """Reset an idle VF and set it down; False if nothing had to change.

        :param link: its interface, which has nothing on it.
        :param raised: whether the port that is being undone has set it up.
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
        self._vfs.reset(vf.id, depth=_PARENT.after)
        return True

    def _note(self, port: str | None, step: str) -> None:
        if port is not None:
            self._records.step(port, step)

    def _is_to_be_down(self, parent: Link) -> bool:
        """Return whether we set up an idle interface, which goes down again.

        An interface with an address or in a bridge is in use.
        """
        return (
            parent.alias == alias.PARENT
            and parent.master is None
            and not self._links.addressed(parent)
        )

    def dirty(self, view: View) -> Iterable[Link]:
        """Yield idle VFs of the pools that are not at the baseline.

        Yield idle parents that we set up, too, in a pool or not. A namespace
        that ends takes its subinterfaces along without a notice: this finds
        their parents.
        """
        for vf in view.vfs:
            link = None if vf.netdev is None else view.on_host(vf.netdev)
            if (
                link is not None
                and not use.why_not(
                    use.with_holders(view.use(link), vf), Act.CLEAN
                )
                and (link.alias == alias.PARENT or self._needs_reset(vf))
                # The look at all namespaces is slow, so it comes last.
                and not use.why_not(view.use(link, look=True), Act.CLEAN)
            ):
                yield link

    def _needs_reset(self, vf: VfState) -> bool:
        """Return whether a pool's VF is less clean than its NIC allows."""
        return (
            self._host.pools.network_of(vf.netdev or "", vf.id) is not None
            and unlike(vf.settings, vf.baseline) is not None
            and not self._vfs.plan_reset(vf.id, depth=_PARENT.after).is_empty
        )
