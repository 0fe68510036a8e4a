# SPDX-License-Identifier: Apache-2.0

"""Plan of a plug: the chosen parent, and the steps."""

import dataclasses
import hashlib
from collections.abc import Iterator

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.errors import LinkError
from sriov_rt.kernel.link import Link
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import differing
from sriov_rt.nic.model import VfId
from sriov_rt.nic.plan import formatted
from sriov_rt.nic.use import Act
from sriov_rt.parse.errors import ParseError
from sriov_rt.reason import first_of
from sriov_rt.vif import budget
from sriov_rt.vif import endpoints
from sriov_rt.vif import errors
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.budget import Candidate
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.settings import Member
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import View

#: The most VFs that a guest takes (also in the requests' documentation).
MAX_VFS = 32

#: How many refusals of a pool's members an error shows.
_SHOWN = 3


def choose(request: Plug, view: View, pools: Pools, rules: Rules) -> Candidate:
    """Return the parent of a port; for a whole VF, the VF itself.

    Of those that can carry it, the best is on its NUMA node, has a carrier,
    the fewest children and the most room for MACs, and is first by name.

    :param request: a checked port.
    :raises LinkError: if there is none; its class names the reason.
    """
    if request.kind == Kind.VF:
        _check_number(request, view)
    refusals = []
    fit = []
    found = tuple(_candidates(request, view, pools))
    rule = endpoints.rule(request, view.records, found, rules.onload_nics)
    for each in found:
        trust = rules.allow_trust
        problem = budget.refusal(each, request, allow_trust=trust)
        if problem is None:
            problem = rule.refusal(each, request)
        if problem is None:
            fit.append(each)
        else:
            refusals.append(problem)
    if fit:
        return min(fit, key=lambda each: _rank(each, request))
    raise _no_parent(request, refusals)


def candidate(link: Link, view: View, pools: Pools) -> Candidate:
    """Return an interface as a candidate for a parent."""
    vf = view.vf_of(link)
    return Candidate(
        link,
        vf,
        pools.network_of(link.name, vf.id if vf else None) is not None,
        view.children(link),
        view.holder(link),
        view.quarantined(link),
        () if vf is None else view.drift(vf),
    )


def _candidates(
    request: Plug, view: View, pools: Pools
) -> Iterator[Candidate]:
    for name in _names(request, view, pools):
        link = view.on_host(name)
        if link is not None and name not in view.avoid:
            yield candidate(link, view, pools)


def _names(request: Plug, view: View, pools: Pools) -> list[str]:
    if request.parent is not None:
        _check_parent(request, request.parent, view, pools)
        return [request.parent]
    found: dict[str, None] = {}
    network = request.physical_network or ""
    for member in pools.of(network):
        if not member.of_pf:
            name = _name(member, view, pools)
            if name is not None:
                found[name] = None
            continue
        for vf in view.vfs_of(member.name):
            # A VF that is named itself is on the network of that entry.
            netdev = vf.netdev or ""
            if pools.network_of(netdev, vf.id) == network:
                found[netdev] = None
    return list(found)


def _name(member: Member, view: View, pools: Pools) -> str | None:
    """Return the present name of a pool's interface; None if it is absent.

    A VF may have returned under the kernel's name or another VF's.
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


def _check_parent(
    request: Plug, parent: str, view: View, pools: Pools
) -> None:
    link = view.on_host(parent)
    if link is None:
        raise kernel_errors.NoSuchLink(parent, port=request.port)
    if request.physical_network is None:
        return
    vf = view.vf_of(link)
    network = pools.network_of(parent, vf.id if vf else None)
    if network != request.physical_network:
        raise ParseError(
            "parent",
            parent,
            f"it is not of {request.physical_network} in [vif] parents",
        )


def _check_number(request: Plug, view: View) -> None:
    having = sum(
        each.owner == request.owner and each.kind == Kind.VF
        for each in view.records
    )
    if having >= MAX_VFS:
        raise errors.TooManyVfs(
            request.owner, port=request.port, detail=f"{having} VFs"
        )


def _rank(each: Candidate, request: Plug) -> tuple[object, ...]:
    node = each.vf.numa_node if each.vf else None
    far = request.numa_node is not None and node != request.numa_node
    no_carrier = each.link.up and not each.link.carrier
    room = each.room
    return (
        far,
        no_carrier,
        len(each.children),
        0 if room is None else -room,
        # Names sort in natural order: v2 before v10.
        len(each.link.name),
        each.link.name,
    )


def _no_parent(request: Plug, refusals: list[LinkError]) -> LinkError:
    """Return the only reason, or one error with all of them."""
    if len(refusals) == 1:
        return refusals[0]
    pool = request.physical_network or request.parent or ""
    same = {type(each) for each in refusals}
    if not refusals:
        detail = "[vif] parents has no interface of it on this host"
    else:
        # The VFs of one NIC may all have the same reason.
        reported = tuple(
            dict.fromkeys(
                f"{each.device}: {each.detail or each.problem}"
                for each in refusals
            )
        )
        detail = first_of(reported, _SHOWN)
    named = same.pop() if len(same) == 1 else errors.NoParent
    if errors.SpreadNeeded in same:
        # Otherwise there would be a parent.
        named = errors.SpreadNeeded
    return named(pool, port=request.port, detail=detail)


@dataclasses.dataclass(frozen=True, slots=True)
class PlugPlan:
    """All decisions of a plug, made before anything is done.

    :param request: the checked port; if its MAC is None, the kernel chooses.
    :param interface: name that its interface gets.
    :param parent: interface that it sits on; for a whole VF, the VF's own.
    :param parent_index: index of that interface.
    :param vf: the VF that it is or sits on.
    :param reset: whether that VF is reset to the baseline first.
    :param settings: what the VF is then set to; None to set nothing.
    :param parent_up: whether the parent was up.
    :param first: whether it is the first port on a parent of ours.
    :param inode: inode of the VF's device in sysfs; 0 without one.
    :param parent_mtu: MTU of the parent.
    """

    request: Plug
    interface: str
    parent: str
    parent_index: int
    vf: VfId | None
    reset: bool
    settings: VfSettings | None
    parent_up: bool
    alias: Alias
    first: bool = False
    inode: int = 0
    parent_mtu: int = 0

    @property
    def is_rare(self) -> bool:
        """Whether it could affect, or join, unseen users of the parent."""
        return self.reset or self.settings is not None or self.first

    @property
    def act(self) -> Act:
        """The act for the judge of use."""
        if self.reset:
            return Act.HAND_OUT
        return Act.SHARE if self.settings is None else Act.RESET

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, one line for each step."""
        request = self.request
        where = request.namespace or "this namespace"
        if self.reset:
            yield f"reset {self.vf} to the baseline"
        if self.settings is not None:
            yield f"set of {self.vf}: {_settings_text(self.settings)}"
        if request.kind == Kind.VF:
            yield f"move {self.parent} to {where} as {self.interface}"
        else:
            if not self.parent_up:
                yield f"set {self.parent} up"
            yield (
                f"make {request.kind} {request.mode} {self.interface} on"
                f" {self.parent} in {where}"
            )
        yield f"alias {self.alias}"
        yield from _details(self)
        yield f"set {self.interface} up and announce it"


def make(request: Plug, view: View, pools: Pools, rules: Rules) -> PlugPlan:
    """Return the plan for a port that is not plugged.

    :param request: a checked port.
    :raises LinkError: if it cannot be plugged; its class names the reason.
    """
    try:
        found = choose(request, view, pools, rules)
    except errors.SpreadNeeded:
        if not rules.unaccelerated:
            raise
        request = dataclasses.replace(request, onload=False)
        found = choose(request, view, pools, rules)
    request = dataclasses.replace(request, mac=_mac(request))
    name = request.name or ""
    _check_name(request, name, found, view)
    whole = request.kind == Kind.VF
    settings = None
    if found.vf is not None:
        settings = _whole(request) if whole else _shared(request, found)
    return PlugPlan(
        request=request,
        interface=name,
        parent=found.link.name,
        parent_index=found.link.index,
        vf=found.vf.id if found.vf else None,
        reset=whole,
        settings=settings,
        parent_up=found.link.up,
        alias=Alias(
            request.port,
            request.owner,
            host_name=found.link.name if whole else "",
            network=(request.network or "") if request.onload else "",
        ),
        first=found.ours and not whole and not found.children,
        inode=found.vf.tenancy.inode if found.vf else 0,
        parent_mtu=found.link.mtu,
    )


def _mac(request: Plug) -> str | None:
    """Return the MAC of a port.

    A VF's driver makes up another MAC each time that it is loaded. So a whole
    VF without one gets one derived from its port: locally administered,
    unicast.
    """
    if request.mac is not None or request.kind != Kind.VF:
        return request.mac
    digest = hashlib.sha256(request.port.encode()).digest()
    return ":".join(f"{each:02x}" for each in (0x02, *digest[:5]))


def _whole(request: Plug) -> VfSettings:
    return VfSettings(mac=request.mac, vlan=request.vlan or None)


def _shared(request: Plug, found: Candidate) -> VfSettings | None:
    """Return the settings that a parent VF needs; None to leave it as it is.

    The first child finds the VF at the baseline, except for an administrative
    MAC: that is the operator's, and ports may be known by it.
    """
    if found.vf is None or not found.ours:
        return None
    now = found.vf.settings
    trust = budget.wants_trust(request, now)
    if found.children:
        return VfSettings(trust=True) if trust and not now.trust else None
    return unlike(
        now,
        dataclasses.replace(
            found.vf.baseline, mac=None, vlan=request.vlan, trust=trust
        ),
    )


def unlike(now: VfSettings, desired: VfSettings) -> VfSettings | None:
    """Return the settings that have to change; None if there are none.

    A setting that the NIC does not report, it does not have.
    """
    changes = differing(now, desired)
    return None if changes == VfSettings() else changes


def _check_name(
    request: Plug, name: str, found: Candidate, view: View
) -> None:
    """Refuse a name that another interface of the namespace has.

    If such an interface appears after this check, the kernel refuses.
    """
    there = view.named(name, request.namespace)
    if there is None or (request.kind == Kind.VF and there == found.link):
        return
    record = view.record_of(there)
    if record is None:
        raise kernel_errors.NameTaken(name, port=request.port)
    raise errors.NotOurs(
        name, port=request.port, detail=f"it is port {record.port}"
    )


def _details(plan: PlugPlan) -> Iterator[str]:
    request = plan.request
    for what, value in (
        ("MAC", request.mac),
        ("MTU", request.mtu),
        ("kbit/s out", request.limits.out_kbps),
        ("kbit/s in", request.limits.in_kbps),
    ):
        if value is not None:
            yield f"{what} {value}"
    if request.onload:
        yield f"accelerated on network {request.network}"
    yield from (f"address {each}" for each in request.addresses)
    yield from (f"route {to} through {by}" for to, by in request.routes)


def _settings_text(settings: VfSettings) -> str:
    return ", ".join(
        f"{field.name} {formatted(value)}"
        for field in dataclasses.fields(settings)
        if (value := getattr(settings, field.name)) is not None
    )
