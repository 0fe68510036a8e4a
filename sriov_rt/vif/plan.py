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


"""What plugging a port will do, as a value."""

import dataclasses
import hashlib
from collections.abc import Iterator

from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.vif import budget
from sriov_rt.vif import choice
from sriov_rt.vif import errors
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.budget import Candidate
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import Plug
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.settings import Rules
from sriov_rt.vif.view import View


@dataclasses.dataclass(frozen=True, slots=True)
class PlugPlan:
    """Everything that is decided before anything is done.

    :param want: the port, checked.
    :param interface: the name that it gets.
    :param parent: the interface that it sits on; of a whole VF, its own.
    :param parent_index: its index.
    :param vf: the VF that it is or sits on.
    :param reset: whether that VF is brought to the baseline first.
    :param settings: what the VF is then set to; None for nothing.
    :param parent_up: whether the parent was up.
    :param mac: None for the kernel's choice.
    """

    want: Plug
    interface: str
    parent: str
    parent_index: int
    vf: VfId | None
    reset: bool
    settings: VfSettings | None
    parent_up: bool
    mac: str | None
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
            yield f"set of {self.vf}: {_told(self.settings)}"
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
        found = choice.choose(want, view, pools, rules)
    except errors.SpreadNeeded:
        if not rules.unaccelerated:
            raise
        want = dataclasses.replace(want, onload=False)
        found = choice.choose(want, view, pools, rules)
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
        mac=_mac(want),
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
    return VfSettings(mac=_mac(want), vlan=want.vlan or None)


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
        ("MAC", plan.mac),
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


def _told(settings: VfSettings) -> str:
    found = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value is not None:
            told = {True: "on", False: "off"}.get(value, value)
            told = value if type(value) is int else told
            found.append(f"{field.name} {told}")
    return ", ".join(found)
