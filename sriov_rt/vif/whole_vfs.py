# SPDX-License-Identifier: Apache-2.0

"""VFs that are ports themselves: handed out, and given back."""

import logging
import secrets
import time

from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.tc import Limits
from sriov_rt.nic.errors import FiltersRemain
from sriov_rt.nic.errors import FunctionNotReset
from sriov_rt.nic.errors import NoSuchDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Kind as Holding
from sriov_rt.parse.link import MAX_INTERFACE
from sriov_rt.vif import errors
from sriov_rt.vif import log
from sriov_rt.vif import validation
from sriov_rt.vif.host import GONE
from sriov_rt.vif.host import PAUSE_S
from sriov_rt.vif.host import Host
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Record
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.view import View

LOG = logging.getLogger(__name__)

_WHOLE = MANAGERS[Holding.WHOLE]


class WholeVfs:
    """Hands VFs out, and takes them back from wherever they are."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._links = host.links
        self._vfs = host.vfs
        self._records = host.records

    def _note(self, plan: PlugPlan, step: str) -> None:
        self._records.step(plan.request.port, step)

    def hand_out(self, plan: PlugPlan, record: Record) -> Link:
        """Return the interface of a VF: clean, set, and in its namespace.

        :param record: the record of its intent, with that namespace.
        """
        request = plan.request
        assert plan.vf is not None
        assert plan.settings is not None
        before = self._links.get(plan.parent)
        mtu = request.mtu
        if mtu is None and before is not None:
            mtu = before.mtu
        self._note(plan, "baseline")
        state = self._vfs.reset(plan.vf, depth=_WHOLE.before)
        # Its interface gets the MAC before the PF sets it: afterwards it could
        # only by a reload of its driver, and not at all if it is not trusted
        # (igbvf_set_mac in igbvf/netdev.c).
        self._note(plan, "own")
        link = self._own(plan, self._netdev(plan, state.netdev), mtu)
        self._note(plan, "settings")
        state = self._vfs.apply(self._vfs.plan(plan.vf, plan.settings))
        link = self._netdev(plan, state.netdev)
        if (link.mac, link.alias) != (plan.request.mac, str(plan.alias)):
            # The VF's driver was rebound, which made a new interface.
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

    def give_back(self, record: Record, view: View) -> bool:
        """Return a VF to the host and the baseline; False if there was none.

        :raises Quarantined: if the VF is out of sight or cannot be reset.
        """
        if record.vf is None or _is_anothers(record, view):
            return False
        vf = view.vf_at(record.vf)
        if vf is not None and not view.is_on(record, vf):
            LOG.info("%s: gone: the VF was made again since", log.of(record))
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
            # The VF was between two drivers.
            name = _host_name(record, None, vf.id, view)
            self._make_clean(record, vf.id, name, view)
        except GONE as error:
            if self._is_there(vf.id):
                raise  # its namespace ended: it is on the host again
            LOG.info(
                "%s: gone while it was unplugged (%s)", log.of(record), error
            )
        return False

    def _reset(self, record: Record, vf: VfId) -> VfState:
        """Reset a tenant's VF to the baseline.

        Its driver is rebound: no attribute shows all that can be set inside a
        namespace.

        :raises Quarantined: if no other tenant may get it, or its function
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
        """Return the interface of a VF; None if it has none.

        :raises Quarantined: if it is out of sight.
        """
        deadline = self._host.deadline()
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
        # Its names and alias are the tenant's: none may reach the host.
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
        """Reset a VF that is on the host, and restore its interface's name.

        :param last: MAC that it had; None if unknown.
        """
        state = self._reset(record, vf)
        link = self._links.get(state.netdev or name)
        if link is None:
            return
        if link.name != name:
            # The VF's driver was rebound, and the kernel gave it a new name.
            link = self._links.move(link, None, name)
        # The MAC of its last port must not stay on a second VF of the same
        # NIC; a rebound driver has made up another.
        self._records.step(record.port, "clean")
        pf = view.on_host(vf.pf)
        self._links.configure(
            link,
            mac=_random_mac() if link.mac == last else None,
            mtu=pf.mtu if pf is not None and pf.mtu != link.mtu else None,
            alias="",
        )


def _is_anothers(record: Record, view: View) -> bool:
    """Return whether another port has a VF now."""
    return any(
        each.kind == Kind.VF
        and each.vf == record.vf
        and each.port != record.port
        for each in view.records
    )


def _is_of(link: Link, vf: VfState, record: Record) -> bool:
    if link.device or link.kind:
        return link.device == vf.id.address and not link.kind
    # Before Linux 5.14 the device of a link is not shown from outside.
    return (link.namespace_id, link.index) == (
        record.namespace_id,
        record.index,
    )


def _host_name(record: Record, link: Link | None, vf: VfId, view: View) -> str:
    """Return the name that a VF's interface gets on the host.

    :param link: its interface now; None if there is none.
    """
    # Its former name, or the one that systemd gives it.
    for name in (record.parent, f"{vf.pf}v{vf.index}"):
        there = view.on_host(name)
        free = there is None or there == link
        if free and len(name) <= MAX_INTERFACE:
            return name
    return validation.default(record.port)


def _random_mac() -> str:
    octets = (0x02, *secrets.token_bytes(5))
    return ":".join(f"{each:02x}" for each in octets)
