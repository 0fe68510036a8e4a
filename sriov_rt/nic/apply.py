# SPDX-License-Identifier: Apache-2.0

"""Applying of plans to VFs, verified by reading back."""

import dataclasses
import logging
import secrets
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import changed
from sriov_rt.nic import driver_binding
from sriov_rt.nic import errors
from sriov_rt.nic import plan
from sriov_rt.nic import waiting
from sriov_rt.nic.families import THROUGH_PF
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import FilterRelease
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfState
from sriov_rt.nic.plan import Plan
from sriov_rt.nic.waiting import Clock

LOG = logging.getLogger(__name__)

#: How long to wait for a VF that resets, seconds: i40e's change of trust takes
#: seconds, igb's PF one to two after sriov_numvfs.
RESETTING_S = 10.0

#: The most VFs in a request: 250 bytes each, and the kernel's list of them has
#: a 16-bit length.
PACKED = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """Outcome of a write to a VF.

    :param left_out: attributes that the NIC lacks, or keeps at another value,
        where that is no error.
    :param refused: error for the others; None if all of them are written.
    """

    left_out: frozenset[Attribute] = frozenset()
    refused: errors.NicError | None = None


def write_all(
    kernel: Kernel,
    family: Family,
    plans: Mapping[int, plan.Plan],
    clock: Clock,
) -> Mapping[int, Written]:
    """Write the plans of one PF's VFs.

    All go in one request; if that fails, VF by VF and then attribute by
    attribute, so that the error names the one that failed.

    :param plans: plan of each VF, by its index; no plan is empty.
    :returns: outcome by index, for VFs whose request failed.
    :raises NicError: for the first attribute that fails, except in a reset.
    """
    indices = sorted(plans)
    found: dict[int, Written] = {}
    for start in range(0, len(indices), PACKED):
        some = indices[start : start + PACKED]
        pf = plans[some[0]].vf.pf
        try:
            kernel.write(pf, {each: plans[each].payload for each in some})
        except errors.NicError as error:
            LOG.debug("pf=%s: one by one, since %s", pf, error)
            for each in some:
                found[each] = _one(kernel, family, plans[each], clock)
    return found


_MAC = (Attribute.MAC,)
_SPOOFCHK = (Attribute.SPOOFCHK,)

#: Errors after which no other attribute would be accepted either.
_HOPELESS = (errors.NoSuchDevice, errors.NotPermitted, errors.TryAgain)


def _one(
    kernel: Kernel, family: Family, desired: plan.Plan, clock: Clock
) -> Written:
    """Write a plan's attributes one by one.

    A reset continues after a refused attribute: the others must not keep
    values of the last tenant.

    :raises NicError: for the first that fails, except in a reset.
    """
    failed: dict[tuple[Attribute, ...], errors.NicError] = {}
    for group in _groups(desired.payload):
        try:
            _write_group(kernel, family, desired, group, clock)
        except errors.NicError as error:
            if desired.required or isinstance(error, _HOPELESS):
                raise
            failed[group] = error
    left_out: set[Attribute] = set()
    if _lacks_mac(desired, failed) and _set_local_mac(kernel, desired):
        failed.pop(_MAC, None)
        left_out.update(_MAC)
        if _SPOOFCHK in failed:
            _write_again(kernel, family, desired, failed, clock)
    refused: list[errors.NicError] = []
    for group, why in failed.items():
        if isinstance(why, errors.UnsupportedByNic):
            LOG.warning("vf=%s: left out, since %s", desired.vf.address, why)
            left_out.update(group)
        else:
            refused.append(why)
    if len(refused) > 1:
        refused = [errors.SeveralRefused(f"{desired.vf}", refused)]
    return Written(frozenset(left_out), refused[0] if refused else None)


def _lacks_mac(
    desired: plan.Plan,
    failed: Mapping[tuple[Attribute, ...], errors.NicError],
) -> bool:
    """Return whether a VF that should lose its MAC has to have one.

    Many drivers refuse zeros as a MAC (is_valid_ether_addr in bnx2x's
    bnx2x_set_vf_mac and others). mlx4 refuses them, too, and refuses spoof
    checking without a MAC (mlx4_set_vf_mac and mlx4_set_vf_spoofchk).
    """
    if desired.expect.mac != NO_MAC:
        return False
    spoofchk = failed.get(_SPOOFCHK)
    return _MAC in failed or (
        spoofchk is not None
        and not isinstance(spoofchk, errors.UnsupportedByNic)
    )


def _set_local_mac(kernel: Kernel, desired: plan.Plan) -> bool:
    """Give a VF a new local MAC; return whether its PF accepted it."""
    mac = "02:" + secrets.token_bytes(5).hex(":")
    part = VfSettings(mac=mac)
    try:
        kernel.write(desired.vf.pf, {desired.vf.index: part})
    except errors.NicError as error:
        LOG.debug("vf=%s: mac %s: %s", desired.vf.address, mac, error)
        return False
    LOG.info(
        "vf=%s: it has the MAC %s, since its PF takes none away",
        desired.vf.address,
        mac,
    )
    return True


def _write_again(
    kernel: Kernel,
    family: Family,
    desired: plan.Plan,
    failed: dict[tuple[Attribute, ...], errors.NicError],
    clock: Clock,
) -> None:
    """Set spoof checking once there is a MAC to check."""
    try:
        _write_group(kernel, family, desired, _SPOOFCHK, clock)
    except errors.NicError as error:
        failed[_SPOOFCHK] = error
    else:
        del failed[_SPOOFCHK]


def _write_group(
    kernel: Kernel,
    family: Family,
    desired: plan.Plan,
    group: tuple[Attribute, ...],
    clock: Clock,
) -> None:
    part = VfSettings(
        **{each: getattr(desired.payload, each) for each in group}
    )
    try:
        _patiently(kernel, family, desired, part, clock)
    except errors.NicError as error:
        raise _blame(kernel, desired, group, error) from error


def _groups(payload: VfSettings) -> Iterator[tuple[Attribute, ...]]:
    """Yield the attributes to write, grouped as the kernel takes them."""
    grouped = {each for group in plan.GROUPS for each in group}
    for each in Attribute:
        if each in THROUGH_PF - grouped and getattr(payload, each) is not None:
            yield (each,)
    for group in plan.GROUPS:
        if getattr(payload, group[0]) is not None:
            yield group


def _patiently(
    kernel: Kernel,
    family: Family,
    desired: plan.Plan,
    part: VfSettings,
    clock: Clock,
) -> None:
    """Write one group; retry while the VF resets."""
    last: errors.NicError | None = None

    def attempt() -> bool | None:
        nonlocal last
        try:
            kernel.write(desired.vf.pf, {desired.vf.index: part})
        except errors.NicError as error:
            if error.code not in family.transient:
                raise
            last = error
            return None
        return True

    if waiting.until(clock, RESETTING_S, attempt) is None:
        code = None if last is None else last.code
        raise errors.TryAgain(
            f"{desired.vf}",
            None,
            f"still resetting after {RESETTING_S:.0f} s",
            code,
        ) from last


def _blame(
    kernel: Kernel,
    desired: plan.Plan,
    group: Collection[Attribute],
    error: errors.NicError,
) -> errors.NicError:
    """Return the error with the attribute that failed.

    :raises NoSuchDevice: if the VF is gone, for which drivers return EINVAL.
    """
    if isinstance(error, errors.RefusedByNic):
        kernel.device(desired.vf)
    changed = [
        step.attribute for step in desired.steps if step.attribute in group
    ]
    attribute = changed[0] if changed else min(group)
    kind = type(error)
    if kind is errors.NoRoom and error.code is not None:
        kind = errors.kind(error.code, attribute)
    return kind(f"{desired.vf}", attribute, error.problem, error.code)


def differences(
    expect: VfSettings,
    found: VfState,
    beside: Collection[Attribute] = (),
) -> tuple[tuple[str, Any, Any], ...]:
    """Return (attribute, expected, found) of each difference.

    Attributes that the driver does not report cannot be compared.

    :param beside: attributes to leave out.
    """
    reported = [
        (name, desired, got)
        for name, got, desired in changed(found.settings, expect)
        if name not in beside
    ]
    inner = found.device.mac
    if inner is not None and expect.mac not in (None, NO_MAC, inner):
        reported.append(("the interface's mac", expect.mac, inner))
    return tuple(reported)


#: How long a VF may take to have its settings, seconds: its driver requests
#: the MAC again after a reset by the PF.
READBACK_S = 10.0

Observe = Callable[[Collection[int]], Mapping[int, VfState]]


def apply(
    kernel: Kernel,
    family: Family,
    plans: Sequence[Plan],
    observe: Observe,
    clock: Clock,
) -> tuple[VfState, ...]:
    """Apply plans for VFs of one PF, and return the new states of the VFs.

    :param observe: reads the VFs with some indices in one request.
    :raises VerifyFailed: if another value is read back.
    :raises FunctionNotReset: if the function of a VF cannot be reset.
    :raises FiltersRemain: if all is as planned, but no other tenant may get
        one of the VFs.
    """
    named = {each.vf.index: each for each in plans}
    written = {
        index: each
        for index, each in named.items()
        if any(getattr(each.payload, name) is not None for name in THROUGH_PF)
    }
    for each in plans:
        if _ends_trust(family, each):
            kernel.tenancies.mark(each.vf.address)
    done = write_all(kernel, family, written, clock)
    for each in plans:
        _device(kernel, family, each, clock)
        if not each.is_empty:
            LOG.info(
                "vf=%s pf=%s: %s",
                each.vf.address,
                each.vf.pf,
                ", ".join(map(str, each.steps)) or _unseen(each),
            )
    found = _verified(named, done, observe, clock)
    for outcome in done.values():
        if outcome.refused is not None:
            raise outcome.refused
    for each in plans:
        if each.remains is not None and not each.shared:
            raise errors.FiltersRemain(f"{each.vf}", each.remains, each.vf.pf)
    return found


def _ends_trust(family: Family, desired: Plan) -> bool:
    """Return whether a PF keeps filters of a VF that loses its trust."""
    return family.filter_release is FilterRelease.REMAKE and any(
        step.attribute is Attribute.TRUST and step.before
        for step in desired.steps
    )


def _unseen(done: Plan) -> str:
    """Return what a plan did if it changed no attribute."""
    if done.flr:
        return "function reset, driver bound again"
    if done.rebind is not None:
        return "driver bound again"
    return f"mac {done.payload.mac} set through {done.vf.pf}"


def _device(
    kernel: Kernel, family: Family, desired: Plan, clock: Clock
) -> None:
    """Bind the VF's driver and set its interface."""
    changed = {step.attribute for step in desired.steps}
    mac = desired.expect.mac
    if Attribute.DRIVER in changed:
        driver = desired.expect.driver
        driver_binding.bind(kernel, family, desired.vf, driver, mac, clock)
    elif desired.rebind is not None:
        if desired.flr:
            _reset_function(kernel, desired)
        driver = kernel.device(desired.vf).driver
        driver_binding.bind(kernel, family, desired.vf, driver, mac, clock)
    inner = VfSettings(
        **{
            each: getattr(desired.expect, each)
            for each in (Attribute.MTU, Attribute.PROMISC, Attribute.ALLMULTI)
            if each in changed
        }
    )
    if inner == VfSettings():
        return
    # Looked up only now: a driver makes a new interface when it is bound.
    netdev = kernel.device(desired.vf).netdev
    if netdev is None:
        raise errors.NoSuchDevice(
            f"{desired.vf}", None, "its interface has gone"
        )
    kernel.set_netdev(netdev, inner)


def _reset_function(kernel: Kernel, desired: Plan) -> None:
    """Reset the function of a VF, before its driver is bound again.

    :raises FunctionNotReset: if that fails.
    """
    try:
        kernel.flr(desired.vf)
    except (errors.NoSuchDevice, errors.NotPermitted):
        raise
    except errors.NicError as error:
        raise errors.FunctionNotReset(
            f"{desired.vf}", error.problem, error.code
        ) from error


def _verified(
    plans: Mapping[int, Plan],
    done: Mapping[int, Written],
    observe: Observe,
    clock: Clock,
) -> tuple[VfState, ...]:
    found: Mapping[int, VfState] = {}
    differing: dict[int, tuple[tuple[str, object, object], ...]] = {}

    def as_expected() -> bool | None:
        nonlocal found
        found = observe(tuple(plans))
        differing.clear()
        for index, each in plans.items():
            outcome = done.get(index, Written())
            if outcome.refused is not None:
                continue
            differs = differences(each.expect, found[index], outcome.left_out)
            if differs:
                differing[index] = differs
        return None if differing else True

    if waiting.until(clock, READBACK_S, as_expected) is None:
        index, differs = next(iter(differing.items()))
        raise errors.VerifyFailed(f"{plans[index].vf}", differs)
    return tuple(found[index] for index in plans)
