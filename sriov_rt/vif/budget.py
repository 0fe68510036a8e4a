# SPDX-License-Identifier: Apache-2.0

"""The rules of the hardware: whether a parent can carry a port."""

import dataclasses
from collections.abc import Sequence

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import use
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfState
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from sriov_rt.vif import errors
from sriov_rt.vif.model import Child
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.model import Record

PASSTHRU = "passthru"

#: Kinds that take the parent's rx_handler: as macvlan does, and as ipvlan does
#: (macvtap_newlink calls macvlan_common_newlink).
_MACVLANS = frozenset({"macvlan", "macvtap"})
_IPVLANS = frozenset({"ipvlan", "ipvtap"})


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An interface that could be a port's parent, or the port itself.

    :param vf: None if it is no VF.
    :param ours: whether it is in a pool, so that we may set its VF.
    :param children: interfaces on it: those in the records, those in this
        namespace and, after a look at all, those in other namespaces.
    :param holder: port that has its VF to itself.
    :param quarantined: port that may still be on it, out of sight.
    :param drifted: settings of its VF that others have changed, as clauses.
    """

    link: Link
    vf: VfState | None
    ours: bool
    children: Sequence[Child]
    holder: Record | None = None
    quarantined: Record | None = None
    drifted: Sequence[str] = ()

    @property
    def goes_on(self) -> bool:
        """Whether ports of its network go on sharing a quarantined parent.

        A VF is not handed out again. A parent that is no VF may never be idle,
        so a deleted port does not keep others from sharing it.
        """
        return (
            self.quarantined is not None
            and self.quarantined.removed
            and self.vf is None
            and bool(self.children)
        )

    @property
    def use(self) -> Use:
        """Its users, as clauses for the judge of use."""
        holder, quarantined = self.holder, self.quarantined
        found = Use(
            whole=None
            if holder is None
            else f"it is port {holder.port} of {holder.owner}",
            quarantined=()
            if quarantined is None or self.goes_on
            else (f"port {quarantined.port} on it is quarantined",),
            on=tuple(f"{each.name} is on it" for each in self.children[:1]),
            drifted=tuple(self.drifted),
        )
        return use.with_holders(found, self.vf)

    @property
    def room(self) -> int | None:
        """How many more MACs it takes; None if unknown.

        The filter of its own MAC does not count against the budget.
        """
        if self.vf is None or self.vf.mac_budget is None:
            return None
        return self.vf.mac_budget - sum(map(_has_mac, self.children))


def has_own_mac(request: Plug) -> bool:
    """Return whether a port's MAC needs a filter beside its parent's."""
    return (
        request.kind in (Kind.MACVLAN, Kind.MACVTAP)
        and request.mode != PASSTHRU
    )


def wants_trust(request: Plug, settings: VfSettings) -> bool:
    """Return whether only a trusted VF would pass the port's MAC.

    A VF with an administrative MAC is refused a new filter and a new MAC of
    its own (igb_set_vf_mac_filter in igb_main.c, and likewise in ixgbe_sriov.c
    and i40e_virtchnl_pf.c).
    """
    if settings.mac in (None, NO_MAC):
        return False
    passthru = request.mode == PASSTHRU and request.mac is not None
    return has_own_mac(request) or passthru


def refusal(
    found: Candidate, request: Plug, *, allow_trust: bool
) -> LinkError | None:
    """Return why a port cannot be on a parent; None if it can.

    :param request: a checked port.
    :param allow_trust: whether a pool's VF may be set trusted.
    """
    if (problem := _taken(found, request)) is not None:
        return kernel_errors.ParentTaken(
            found.link.name, port=request.port, detail=problem
        )
    if (problem := _unfit(found, request)) is not None:
        return errors.NoParent(
            found.link.name, port=request.port, detail=problem
        )
    if request.kind == Kind.VF:
        return None
    if _untrusted(found, request) and not (allow_trust and found.ours):
        return errors.TrustNeeded(found.link.name, port=request.port)
    if has_own_mac(request) and found.room is not None and found.room < 1:
        detail = f"{found.vf.mac_budget} of them" if found.vf else ""
        return errors.BudgetExceeded(
            found.link.name, port=request.port, detail=detail
        )
    return None


def _taken(found: Candidate, request: Plug) -> str | None:
    alone = request.kind == Kind.VF or request.mode == PASSTHRU
    act = Act.HAND_OUT if alone else Act.SHARE
    if problems := use.why_not(found.use, act):
        return problems[0]
    if alone:
        return None
    # One child stands for all of its kind and mode.
    kinds = {(each.kind, each.mode): each for each in found.children}
    for each in kinds.values():
        if (problem := _excluded(each, request)) is not None:
            return problem
    return None


def _excluded(child: Child, request: Plug) -> str | None:
    """Return how a child excludes a port of another kind or mode."""
    macvlan = request.kind in (Kind.MACVLAN, Kind.MACVTAP)
    if child.kind in (_IPVLANS if macvlan else _MACVLANS):
        return (
            f"{child.kind} {child.name} and {request.kind} exclude each other"
        )
    if child.kind in _MACVLANS and child.mode == PASSTHRU:
        return f"{child.name} has it to itself"
    # All ipvlans of a parent share one mode: a new one would change the
    # others' (ipvlan_set_port_mode in drivers/net/ipvlan/ipvlan_main.c).
    if child.kind in _IPVLANS and child.mode != request.mode:
        return f"its ipvlans are {child.mode}"
    return None


def _unfit(found: Candidate, request: Plug) -> str | None:
    if request.kind == Kind.VF:
        return _not_whole(found.vf)
    if request.mtu is not None and request.mtu > found.link.mtu:
        # A subinterface's MTU is at most its parent's (macvlan_change_mtu).
        return f"its MTU is {found.link.mtu}, and {request.mtu} is requested"
    if found.vf is None:
        return "it is no VF that could tag a VLAN" if request.vlan else None
    tagged = found.vf.settings.vlan or 0
    if tagged == request.vlan or (found.ours and not found.children):
        return None
    return f"its VLAN is {tagged}, and {request.vlan} is requested"


def _not_whole(vf: VfState | None) -> str | None:
    """Return why a VF cannot be handed out as a whole."""
    if vf is None:
        return "it is no VF"
    if vf.keeps_filters:
        return (
            f"{vf.id.pf} keeps MAC filters of macvlans that were on it until "
            "its VFs are made again"
        )
    return None


def _untrusted(found: Candidate, request: Plug) -> bool:
    return (
        found.vf is not None
        and wants_trust(request, found.vf.settings)
        and not found.vf.settings.trust
    )


def _has_mac(child: Child) -> bool:
    return child.kind in _MACVLANS and child.mode != PASSTHRU
