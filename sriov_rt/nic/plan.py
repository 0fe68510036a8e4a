# SPDX-License-Identifier: Apache-2.0

"""Plan of a change to a VF: the steps to its desired settings."""

import dataclasses
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import errors
from sriov_rt.nic import rules
from sriov_rt.nic import use
from sriov_rt.nic.families import THROUGH_PF
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import FilterRelease
from sriov_rt.nic.families import MacEffect
from sriov_rt.nic.families import Support
from sriov_rt.nic.model import ADDRESS_RANDOM
from sriov_rt.nic.model import ADDRESS_SET
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import Reset as Reset
from sriov_rt.nic.use import Act

#: Attributes that the kernel takes together, or else zeroes: IFLA_VF_VLAN and
#: IFLA_VF_RATE (do_setvfinfo in net/core/rtnetlink.c).
GROUPS = (
    (Attribute.VLAN, Attribute.QOS, Attribute.VLAN_PROTOCOL),
    (Attribute.MIN_TX_RATE, Attribute.MAX_TX_RATE),
)

_RATES = GROUPS[1]
_NETDEV = (Attribute.MTU, Attribute.PROMISC, Attribute.ALLMULTI)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A change of one attribute.

    :param before: present value; None if the kernel does not report it.
    """

    attribute: Attribute
    before: Any
    after: Any

    def __str__(self) -> str:
        before, after = formatted(self.before), formatted(self.after)
        return f"{self.attribute} {before} -> {after}"


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Plan of the changes to one VF.

    :param notes: sentences that an operator should know, too.
    :param expect: requested attributes as they are afterwards.
    :param payload: attributes that are written through the PF.
    :param rebind: why its driver is bound again; None if it is not.
    :param flr: whether its function is reset before its driver is bound.
    :param required: whether an attribute that the NIC lacks is an error.
    :param remains: what the PF keeps of the VF's last use, as a clause; None
        for nothing.
    :param shared: whether the VF can be used in spite of that.
    :param act: act for the judge of use.
    """

    vf: VfId
    family: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    expect: VfSettings
    payload: VfSettings
    rebind: str | None = None
    flr: bool = False
    required: bool = True
    remains: str | None = None
    shared: bool = False
    act: Act = Act.SET

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return (
            not self.steps
            and self.rebind is None
            and self.payload == VfSettings()
            and (self.remains is None or self.shared)
        )

    @property
    def pinned(self) -> str | None:
        """The MAC that is written although the PF shows it; else None.

        A PF shows a MAC that the VF's driver sent like one that was set
        through the PF. Only the latter is out of the tenant's reach
        (IGB_VF_FLAG_PF_SET_MAC and its like).
        """
        if any(step.attribute is Attribute.MAC for step in self.steps):
            return None
        return self.payload.mac

    def lines(self) -> Iterator[str]:
        """Yield the plan as text."""
        if self.is_empty:
            yield f"{self.vf}: nothing to do"
        else:
            yield f"{self.vf} ({self.vf.address}, {self.family}):"
        yield from (f"  {step}" for step in self.steps)
        if self.pinned is not None:
            yield f"  set mac {self.pinned} through {self.vf.pf}"
        if self.flr:
            yield "  reset its function, whatever its last user has left"
        if self.rebind is not None:
            yield f"  bind its driver again: {self.rebind}"
        yield from (f"  note: {note}" for note in self.notes)


def formatted(value: Any) -> str:
    """Return the value of a VF's attribute as text."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def make(
    family: Family,
    pf: Pf,
    observed: VfState,
    desired: VfSettings,
    *,
    required: bool = True,
    reset: Reset | None = None,
    mtus: tuple[int, int] | None = None,
) -> Plan:
    """Return the plan; empty if the VF is as requested.

    :param required: whether to refuse an attribute that the NIC lacks; else it
        is left out, as for the baseline, which is for all NICs.
    :param reset: depth of the reset; None for no reset.
    :param mtus: the lowest and the highest MTU of the VF's interface; None if
        unknown.
    :raises NicError: if the family or the link does not allow it.
    """
    notes: list[str] = []
    if desired.mtu is not None and mtus is not None:
        rules.check_mtu(f"{observed.id}", desired.mtu, mtus)
    remains = None if reset is None else _remaining(family, observed)
    if remains is not None:
        notes.append(remains)
    expect = _expected(family, observed, desired, required)
    _round(family, expect, notes)
    steps = tuple(
        Step(each, before, value)
        for each, value in expect.items()
        if (before := getattr(observed.settings, each)) != value
    )
    payload = _payload(observed.settings, expect, steps)
    if any(step.attribute in _RATES for step in steps):
        low, high = payload[_RATES[0]], payload[_RATES[1]]
        rules.check_rates(family, f"{observed.id}", low, high, pf)
    notes += _effects(family, steps)
    changed = frozenset(step.attribute for step in steps)
    again, note = _why_rebind(family, observed, expect, changed)
    if note is not None:
        notes.append(note)
    if again is None and reset is not None and Attribute.DRIVER not in changed:
        # A trusted VF may have set filters, which a rebind clears.
        fresh = reset.fresh or bool(observed.settings.trust)
        again = _why_fresh_rebind(pf, observed, fresh=fresh)
    return Plan(
        vf=observed.id,
        family=family.name,
        steps=steps,
        notes=tuple(notes),
        expect=VfSettings(**expect),
        payload=VfSettings(**payload),
        rebind=again,
        flr=_resets_function(family, observed, reset, again),
        required=required,
        remains=remains,
        shared=reset is not None and reset.shared,
        act=_act(reset, desired, again),
    )


def _act(reset: Reset | None, desired: VfSettings, rebind: str | None) -> Act:
    if reset is not None:
        return Act.RESET
    takes = desired.driver is not None or rebind is not None
    return Act.BIND if takes else Act.SET


def _remaining(family: Family, observed: VfState) -> str | None:
    """Return what the PF keeps of a VF's last use, as a clause.

    A trusted VF may set filters for any MAC, and receives the frames for it.
    So may one without an administrative MAC: no tenant has such a VF, but
    macvlans set filters on it.
    """
    if family.filter_release is FilterRelease.REBIND or not (
        observed.settings.trust or observed.keeps_filters
    ):
        return None
    return f"{observed.id.pf} keeps MAC filters that were set through the VF"


def _expected(
    family: Family, observed: VfState, desired: VfSettings, required: bool
) -> dict[Attribute, Any]:
    """Return the expected settings of a VF, as far as they are checked.

    :raises NicError: if the family does not accept them.
    """
    expect = {}
    for each in Attribute:
        value = getattr(desired, each)
        if value is None:
            continue
        rules.check(family, f"{observed.id}", each, value)
        if not _is_beside(family, observed, each, value, required):
            expect[each] = value
    return expect


def _is_beside(
    family: Family,
    observed: VfState,
    attribute: Attribute,
    value: Any,
    required: bool,
) -> bool:
    """Return whether an attribute is left out.

    :raises NoSuchDevice: if it belongs to an interface that is not here.
    :raises UnsupportedByNic: if the MAC cannot be removed.
    """
    if attribute in _NETDEV and observed.netdev is None:
        if not required or rules.is_neutral(attribute, value):
            return True
        raise errors.NoSuchDevice(
            f"{observed.id}",
            attribute,
            "the VF has no interface in this network namespace",
        )
    if attribute is Attribute.MAC and value == NO_MAC:
        return _keeps_mac(family, observed, required)
    if not rules.is_neutral(attribute, value):
        return False
    support = family.supports(attribute)
    unknown = getattr(observed.settings, attribute) is None
    return support is Support.NO or (unknown and not required)


def _keeps_mac(family: Family, observed: VfState, required: bool) -> bool:
    if family.clears_mac is not Support.NO:
        return False
    if required and observed.settings.mac != NO_MAC:
        raise errors.UnsupportedByNic(
            f"{observed.id}",
            Attribute.MAC,
            f"a VF of family {family.name} always has a MAC, its driver needs "
            "one",
        )
    return True


def _round(
    family: Family, expect: dict[Attribute, Any], notes: list[str]
) -> None:
    """Replace the requested rate with the one that the NIC keeps."""
    requested = expect.get(Attribute.MAX_TX_RATE)
    if requested is None:
        return
    effective = family.rate.effective(requested)
    if effective != requested:
        notes.append(
            f"max_tx_rate: {requested} requested, {effective} effective: "
            f"family {family.name} has {family.rate.minimum} Mb/s at the "
            f"least and steps of {family.rate.quantum}"
        )
        expect[Attribute.MAX_TX_RATE] = effective


def _payload(
    observed: VfSettings, expect: dict[Attribute, Any], steps: tuple[Step, ...]
) -> dict[Attribute, Any]:
    """Return what to write through the PF, with whole groups."""
    payload = {
        step.attribute: step.after
        for step in steps
        if step.attribute in THROUGH_PF
    }
    mac = expect.get(Attribute.MAC)
    if mac not in (None, NO_MAC):
        # See Plan.pinned.
        payload[Attribute.MAC] = mac
    for group in GROUPS:
        if payload.keys().isdisjoint(group):
            continue
        for each in group:
            value = expect.get(each)
            if value is None:
                value = getattr(observed, each)
            if value is None:
                value = getattr(rules.NEUTRAL, each)
            payload[each] = value
    return payload


def _effects(family: Family, steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        effect = family.effects.get(step.attribute)
        if effect is not None:
            yield f"changing {step.attribute} {effect}"


def _why_rebind(
    family: Family,
    observed: VfState,
    expect: Mapping[Attribute, Any],
    changed: Collection[Attribute],
) -> tuple[str | None, str | None]:
    """Return why the VF's driver has to be bound again, and a note.

    A VF's interface keeps the MAC that it came up with, or one that was set
    inside.

    :param expect: expected settings of the VF.
    :param changed: expected attributes that differ now.
    :raises VfBusy: if that would take something from its user.
    """
    device = observed.device
    if Attribute.DRIVER in changed:
        _refuse_if_used(observed)
        return None, None
    mac = expect.get(Attribute.MAC)
    if mac is None:
        return None, None
    if device.elsewhere and Attribute.MAC in changed:
        return None, (
            "its interface is in another network namespace and keeps its MAC "
            "until its driver is bound again"
        )
    if device.netdev is None or not _needs_rebind(
        family, device, mac, changes=Attribute.MAC in changed
    ):
        return None, None
    _refuse_if_used(observed)
    return f"{device.netdev} has the MAC {device.mac} until then", None


def _why_fresh_rebind(pf: Pf, observed: VfState, *, fresh: bool) -> str | None:
    """Return why a reset binds the VF's driver again; None if it does not.

    :param fresh: whether the reset asks for it in any case.
    :raises VfBusy: if that would take something from its user.
    """
    device = observed.device
    if device.driver is None:
        # It was not bound again after an unbind. The kernel binds no driver to
        # VFs of a PF that does not probe.
        return None if pf.probes is False else "it has no driver"
    if not fresh or is_vfio(device.driver) or device.elsewhere:
        return None
    _refuse_if_used(observed)
    return "its interface is then as a driver makes it"


def _resets_function(
    family: Family, observed: VfState, reset: Reset | None, rebind: str | None
) -> bool:
    """Return whether a reset includes one of the PCI function.

    vfio-pci does that by itself, whenever it is opened and closed
    (vfio_pci_core_enable and _disable in drivers/vfio/pci/vfio_pci_core.c).
    """
    return (
        family.resets_function
        and reset is not None
        and reset.fresh
        and rebind is not None
        and observed.device.driver is not None
    )


def _refuse_if_used(observed: VfState) -> None:
    """Refuse to rebind a driver that something in this namespace needs.

    :raises VfBusy: if something on the VF would be cut off.
    """
    if users := use.why_not(use.shown(observed), Act.BIND):
        raise errors.VfBusy(
            f"{observed.id}",
            Attribute.DRIVER,
            f"binding its driver would cut off {', '.join(users)}",
        )


def _needs_rebind(
    family: Family, device: VfDevice, mac: str, *, changes: bool
) -> bool:
    if mac == NO_MAC:
        # A driver keeps a MAC that was set inside or before.
        return changes or device.address_type == ADDRESS_SET
    if changes and family.mac_effect is MacEffect.NOW:
        return False
    if changes and device.address_type == ADDRESS_RANDOM:
        # iavf takes the MAC, but still reports it as random: later it would
        # look like one that was made up.
        return True
    if device.mac == mac:
        return False
    return not changes or family.mac_effect is MacEffect.AFTER_REBIND
