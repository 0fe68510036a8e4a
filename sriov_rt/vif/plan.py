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


"""Plan of a plug: the parent that is chosen, and the steps there."""

import dataclasses
import hashlib
from collections.abc import Iterator

from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.plan import formatted
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import budget
from sriov_rt.vif import endpoints
from sriov_rt.vif import errors
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.budget import Candidate
from sriov_rt.vif.link import Link
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.settings import Member
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import View

#: How many VFs a guest takes (shared with the requests' documentation).
MAX_VFS = 32

#: How many refusals of a pool's members an error tells.
_SHOWN = 3


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
        link = view.on_host(name)
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
            name = _name(member, view, pools)
            if name is not None:
                found[name] = None
            continue
        for vf in view.vfs_of(member.name):
            # One that is named itself is on the network that says.
            netdev = vf.netdev or ""
            if pools.network_of(netdev, vf.id) == network:
                found[netdev] = None
    return list(found)


def _name(member: Member, view: View, pools: Pools) -> str | None:
    """Return what the interface is called that a pool names; None for none.

    A VF may be back by the name of another one, or by the kernel's.
    """
    link = view.on_host(member.name)
    vf = view.vf_of(link) if link else None
    if link is not None and (
        pools.network_of(member.name, vf.id if vf else None) == member.network
    ):
        return member.name
    for each in view.vfs:
        if f"{each.id.pf}v{each.id.index}" == member.name:
            return each.netdev
    return None


def _check_parent(want: Plug, parent: str, view: View, pools: Pools) -> None:
    link = view.on_host(parent)
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
        detail = "[vif] parents has no interface of it on this host"
    else:
        # The VFs of one NIC may be refused for one reason.
        told = tuple(
            dict.fromkeys(
                f"{each.device}: {each.detail or each.problem}"
                for each in refusals
            )
        )
        detail = ", ".join(told[:_SHOWN])
        if len(told) > _SHOWN:
            detail += f" and {len(told) - _SHOWN} more"
    named = same.pop() if len(same) == 1 else errors.NoParent
    if errors.SpreadNeeded in same:
        # Else there would be a parent.
        named = errors.SpreadNeeded
    return named(pool, port=want.port, detail=detail)


@dataclasses.dataclass(frozen=True, slots=True)
class PlugPlan:
    """Everything that is decided before anything is done.

    :param want: the port, checked; its MAC is None for the kernel's choice.
    :param interface: the name that it gets.
    :param parent: the interface that it sits on; of a whole VF, its own.
    :param parent_index: its index.
    :param vf: the VF that it is or sits on.
    :param reset: whether that VF is brought to the baseline first.
    :param settings: what the VF is then set to; None for nothing.
    :param parent_up: whether the parent was up.
    """

    want: Plug
    interface: str
    parent: str
    parent_index: int
    vf: VfId | None
    reset: bool
    settings: VfSettings | None
    parent_up: bool
    alias: Alias

    @property
    def is_rare(self) -> bool:
        """Whether it could hurt who is on the VF unseen."""
        return self.reset or self.settings is not None

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, one line a step."""
        want = self.want
        where = want.namespace or "this namespace"
        if self.reset:
            yield f"reset {self.vf} to the baseline"
        if self.settings is not None:
            yield f"set of {self.vf}: {_settings_text(self.settings)}"
        if want.kind == Kind.VF:
            yield f"move {self.parent} to {where} as {self.interface}"
        else:
            if not self.parent_up:
                yield f"set {self.parent} up"
            yield (
                f"make {want.kind} {want.mode} {self.interface} on"
                f" {self.parent} in {where}"
            )
        yield f"alias {self.alias}"
        yield from _details(self)
        yield f"set {self.interface} up and announce it"


def make(want: Plug, view: View, pools: Pools, rules: Rules) -> PlugPlan:
    """Return the plan for a port that is not plugged.

    :param want: a checked one.
    :raises VifError: if it cannot be plugged, named for why.
    """
    try:
        found = choose(want, view, pools, rules)
    except errors.SpreadNeeded:
        if not rules.unaccelerated:
            raise
        want = dataclasses.replace(want, onload=False)
        found = choose(want, view, pools, rules)
    want = dataclasses.replace(want, mac=_mac(want))
    name = want.name or ""
    _check_name(want, name, found, view)
    whole = want.kind == Kind.VF
    settings = None
    if found.vf is not None:
        settings = _whole(want) if whole else _shared(want, found)
    return PlugPlan(
        want=want,
        interface=name,
        parent=found.link.name,
        parent_index=found.link.index,
        vf=found.vf.id if found.vf else None,
        reset=whole,
        settings=settings,
        parent_up=found.link.up,
        alias=Alias(
            want.port,
            want.owner,
            home=found.link.name if whole else "",
            network=(want.network or "") if want.onload else "",
        ),
    )


def _mac(want: Plug) -> str | None:
    """Return the MAC of a port.

    A VF's driver makes up another one each time that it is loaded, so a
    whole VF without one gets one that follows from its port: locally
    administered, unicast.
    """
    if want.mac is not None or want.kind != Kind.VF:
        return want.mac
    digest = hashlib.sha256(want.port.encode()).digest()
    return ":".join(f"{each:02x}" for each in (0x02, *digest[:5]))


def _whole(want: Plug) -> VfSettings:
    return VfSettings(mac=want.mac, vlan=want.vlan or None)


def _shared(want: Plug, found: Candidate) -> VfSettings | None:
    """Return what a parent VF is to be, None if it may stay as it is.

    The first child finds it at the baseline, save for an administrative
    MAC: that is the operator's, and ports may be known by it.
    """
    if found.vf is None or not found.ours:
        return None
    now = found.vf.settings
    trust = budget.wants_trust(want, now)
    if found.children:
        return VfSettings(trust=True) if trust and not now.trust else None
    return unlike(
        now,
        dataclasses.replace(BASELINE, mac=None, vlan=want.vlan, trust=trust),
    )


def unlike(now: VfSettings, wanted: VfSettings) -> VfSettings | None:
    """Return what has to change, None if that is nothing.

    What the NIC does not tell, it does not have.
    """
    changes = {}
    for field in dataclasses.fields(VfSettings):
        found, value = getattr(now, field.name), getattr(wanted, field.name)
        if None not in (found, value) and found != value:
            changes[field.name] = value
    return VfSettings(**changes) if changes else None


def _check_name(want: Plug, name: str, found: Candidate, view: View) -> None:
    """Refuse a name that another interface of the namespace has.

    One that comes just then the kernel refuses.
    """
    there = view.named(name, want.namespace)
    if there is None or (want.kind == Kind.VF and there == found.link):
        return
    record = view.record_of(there)
    if record is None:
        raise errors.NameTaken(name, port=want.port)
    raise errors.NotOurs(
        name, port=want.port, detail=f"it is port {record.port}"
    )


def _details(plan: PlugPlan) -> Iterator[str]:
    want = plan.want
    for what, value in (
        ("MAC", want.mac),
        ("MTU", want.mtu),
        ("kbit/s out", want.limits.out_kbps),
        ("kbit/s in", want.limits.in_kbps),
    ):
        if value is not None:
            yield f"{what} {value}"
    if want.onload:
        yield f"accelerated on network {want.network}"
    yield from (f"address {each}" for each in want.addresses)
    yield from (f"route {to} through {by}" for to, by in want.routes)


def _settings_text(settings: VfSettings) -> str:
    return ", ".join(
        f"{field.name} {formatted(value)}"
        for field in dataclasses.fields(settings)
        if (value := getattr(settings, field.name)) is not None
    )
