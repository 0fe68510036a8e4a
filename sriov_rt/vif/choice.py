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


"""The choice of a parent: pure, and the same for the same host."""

from collections.abc import Iterator

from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import budget
from sriov_rt.vif import endpoints
from sriov_rt.vif import errors
from sriov_rt.vif.budget import Candidate
from sriov_rt.vif.edge import Link
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import View

#: How many VFs a guest takes (shared with the requests' documentation).
MAX_VFS = 32

#: How many refusals of a pool's members an error tells.
_TOLD = 3


def choose(want: Plug, view: View, pools: Pools, rules: Rules) -> Candidate:
    """Return the parent of a port; for a whole VF, that.

    Of those that can carry it: on its NUMA node, with a carrier, with the
    fewest children, with the most room for MACs, and by name.

    :param want: a checked one.
    :raises VifError: if there is none, named for why.
    """
    if want.kind == Kind.VF:
        _check_number(want, view)
    refusals = []
    fit = []
    found = tuple(_candidates(want, view, pools))
    rule = endpoints.rule(want, view, found, rules)
    for each in found:
        trust = rules.allow_trust
        problem = budget.refusal(each, want, allow_trust=trust)
        if problem is None:
            problem = rule.refusal(each, want)
        if problem is None:
            fit.append(each)
        else:
            refusals.append(problem)
    if fit:
        return min(fit, key=lambda each: _rank(each, want))
    raise _no_parent(want, refusals)


def candidate(link: Link, view: View, pools: Pools) -> Candidate:
    """Return an interface with what matters for being a parent."""
    vf = view.vf_of(link)
    return Candidate(
        link,
        vf,
        pools.network_of(link.name, vf.id if vf else None) is not None,
        view.children(link),
        view.holder(link),
        view.quarantined(link),
    )


def _candidates(want: Plug, view: View, pools: Pools) -> Iterator[Candidate]:
    for name in _names(want, view, pools):
        link = view.here(name)
        if link is not None:
            yield candidate(link, view, pools)


def _names(want: Plug, view: View, pools: Pools) -> list[str]:
    if want.parent is not None:
        _check_parent(want, want.parent, view, pools)
        return [want.parent]
    found: dict[str, None] = {}
    network = want.physical_network or ""
    for member in pools.of(network):
        if not member.of_pf:
            link = view.here(member.name)
            vf = view.vf_of(link) if link else None
            # A VF may have come home by the name of another one.
            if pools.network_of(member.name, vf.id if vf else None) == network:
                found[member.name] = None
            continue
        for vf in view.vfs_of(member.name):
            # One that is named itself is on the network that says.
            netdev = vf.netdev or ""
            if pools.network_of(netdev, vf.id) == network:
                found[netdev] = None
    return list(found)


def _check_parent(want: Plug, parent: str, view: View, pools: Pools) -> None:
    link = view.here(parent)
    if link is None:
        raise errors.NoSuchLink(parent, port=want.port)
    if want.physical_network is None:
        return
    vf = view.vf_of(link)
    network = pools.network_of(parent, vf.id if vf else None)
    if network != want.physical_network:
        raise ParseError(
            "parent",
            parent,
            f"it is not of {want.physical_network} in [vif] parents",
        )


def _check_number(want: Plug, view: View) -> None:
    having = sum(
        each.owner == want.owner and each.kind == Kind.VF
        for each in view.records
    )
    if having >= MAX_VFS:
        raise errors.TooManyVfs(
            want.owner, port=want.port, detail=f"{having} VFs"
        )


def _rank(each: Candidate, want: Plug) -> tuple[object, ...]:
    node = each.vf.numa_node if each.vf else None
    far = want.numa_node is not None and node != want.numa_node
    no_carrier = each.link.up and not each.link.carrier
    room = each.room
    return (
        far,
        no_carrier,
        len(each.children),
        0 if room is None else -room,
        # Names sort as people count: v2 before v10.
        len(each.link.name),
        each.link.name,
    )


def _no_parent(want: Plug, refusals: list[errors.VifError]) -> errors.VifError:
    """Return the one reason, or all of them in one."""
    if len(refusals) == 1:
        return refusals[0]
    pool = want.physical_network or want.parent or ""
    same = {type(each) for each in refusals}
    if not refusals:
        detail = "it has no interface on this host"
    else:
        # The VFs of one NIC may be refused for one reason.
        told = tuple(
            dict.fromkeys(
                f"{each.device}: {each.detail or each.problem}"
                for each in refusals
            )
        )
        detail = ", ".join(told[:_TOLD])
        if len(told) > _TOLD:
            detail += f" and {len(told) - _TOLD} more"
    named = same.pop() if len(same) == 1 else errors.NoParent
    if errors.SpreadNeeded in same:
        # Else there would be a parent.
        named = errors.SpreadNeeded
    return named(pool, port=want.port, detail=detail)
