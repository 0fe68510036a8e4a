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


"""The rules of the hardware: whether a parent can carry a port."""

import dataclasses
from collections.abc import Sequence

from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.model import VfState
from sriov_rt.vif import errors
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.link import Link
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.records import Record

PASSTHRU = "passthru"

#: The kinds that take the parent's rx_handler as macvlan does, and as
#: ipvlan does (macvtap_newlink calls macvlan_common_newlink).
_MACVLANS = frozenset({"macvlan", "macvtap"})
_IPVLANS = frozenset({"ipvlan", "ipvtap"})


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """An interface that could be a port's parent, or the port itself.

    :param vf: None if it is no VF.
    :param ours: whether a pool has it, so that its VF is ours to set.
    :param children: what sits on it: the ports of the records, what is here
        and, where that was looked at, what is in other namespaces.
    :param holder: the port that has its VF to itself.
    :param quarantined: a port that may still be on it, unseen.
    """

    link: Link
    vf: VfState | None
    ours: bool
    children: Sequence[Link]
    holder: Record | None = None
    quarantined: Record | None = None

    @property
    def room(self) -> int | None:
        """How many more MACs it takes; None if that is not known.

        Its own MAC has a filter that is not of the budget.
        """
        if self.vf is None or self.vf.mac_budget is None:
            return None
        return self.vf.mac_budget - sum(map(_has_mac, self.children))


def has_own_mac(want: Plug) -> bool:
    """Return whether a port's MAC needs a filter beside its parent's."""
    return want.kind in (Kind.MACVLAN, Kind.MACVTAP) and want.mode != PASSTHRU


def wants_trust(want: Plug, settings: VfSettings) -> bool:
    """Return whether the port's MAC passes a VF that is trusted only.

    A new filter, and a new MAC of its own, are refused to a VF that has an
    administrative MAC (igb_set_vf_mac_filter in igb_main.c, and likewise in
    ixgbe_sriov.c and i40e_virtchnl_pf.c).
    """
    if settings.mac in (None, NO_MAC):
        return False
    passthru = want.mode == PASSTHRU and want.mac is not None
    return has_own_mac(want) or passthru


def refusal(
    found: Candidate, want: Plug, *, allow_trust: bool
) -> VifError | None:
    """Return why a port cannot be on a parent; None if it can.

    :param want: a checked one.
    :param allow_trust: whether a VF of a pool may be set trusted.
    """
    if (problem := _taken(found, want)) is not None:
        return errors.ParentTaken(
            found.link.name, port=want.port, detail=problem
        )
    if (problem := _unfit(found, want)) is not None:
        return errors.NoParent(found.link.name, port=want.port, detail=problem)
    if want.kind == Kind.VF:
        return None
    if _untrusted(found, want) and not (allow_trust and found.ours):
        return errors.TrustNeeded(found.link.name, port=want.port)
    if has_own_mac(want) and found.room is not None and found.room < 1:
        detail = f"{found.vf.mac_budget} of them" if found.vf else ""
        return errors.BudgetExceeded(
            found.link.name, port=want.port, detail=detail
        )
    return None


def _taken(found: Candidate, want: Plug) -> str | None:
    if found.holder is not None:
        return f"it is port {found.holder.port} of {found.holder.owner}"
    if found.quarantined is not None:
        return f"port {found.quarantined.port} on it is quarantined"
    if want.kind == Kind.VF:
        return _occupied(found.children)
    if want.mode == PASSTHRU:
        return _occupied(found.children)
    # A hundred of one kind and mode are as good as one.
    kinds = {(each.kind, each.mode): each for each in found.children}
    for each in kinds.values():
        if (problem := _excluded(each, want)) is not None:
            return problem
    return None


def _excluded(child: Link, want: Plug) -> str | None:
    """Return how a child keeps a port of another kind or mode off."""
    macvlan = want.kind in (Kind.MACVLAN, Kind.MACVTAP)
    if child.kind in (_IPVLANS if macvlan else _MACVLANS):
        return f"{child.kind} {child.name} and {want.kind} exclude each other"
    if child.kind in _MACVLANS and child.mode == PASSTHRU:
        return f"{child.name} has it to itself"
    # One mode for all of a parent's ipvlans: a new one would change the
    # others' (ipvlan_set_port_mode in drivers/net/ipvlan/ipvlan_main.c).
    if child.kind in _IPVLANS and child.mode != want.mode:
        return f"its ipvlans are {child.mode}"
    return None


def _occupied(children: Sequence[Link]) -> str | None:
    return f"{children[0].name} is on it" if children else None


def _unfit(found: Candidate, want: Plug) -> str | None:
    if want.kind == Kind.VF:
        return _not_whole(found.vf)
    if want.mtu is not None and want.mtu > found.link.mtu:
        # A subinterface's is its parent's at most (macvlan_change_mtu).
        return f"its MTU is {found.link.mtu}, and {want.mtu} is requested"
    if found.vf is None:
        return "it is no VF that could tag a VLAN" if want.vlan else None
    tagged = found.vf.settings.vlan or 0
    if tagged == want.vlan or (found.ours and not found.children):
        return None
    return f"its VLAN is {tagged}, and {want.vlan} is requested"


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


def _untrusted(found: Candidate, want: Plug) -> bool:
    return (
        found.vf is not None
        and wants_trust(want, found.vf.settings)
        and not found.vf.settings.trust
    )


def _has_mac(child: Link) -> bool:
    return child.kind in _MACVLANS and child.mode != PASSTHRU
