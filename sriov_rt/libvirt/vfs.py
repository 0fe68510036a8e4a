# SPDX-License-Identifier: Apache-2.0

"""Reset of a guest's VFs to the baseline, before and after its use."""

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Collection

from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.host.vfs import is_vfio
from sriov_rt.nic import errors
from sriov_rt.nic.model import VfId
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import Reset
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.use import Act
from sriov_rt.nic.vfs import Vfs
from sriov_rt.vif import tenants

_DOMAIN = MANAGERS[Kind.DOMAIN]

#: The longest name of a domain that is recorded, in characters.
_MAX_NAME = 255


def of_host() -> Vfs:
    """Return the verbs on this host's VFs, for libvirt's domains."""
    return Vfs.of_host(
        functools.partial(tenants.uses, guests=True), Kind.DOMAIN
    )


def prepare(
    vfs: Vfs, devices: Collection[PassedThrough], domain: str
) -> tuple[str, ...]:
    """Bring the VFs among some PCI devices to the baseline, for a domain.

    A VF in use is refused even if there is nothing to set.

    :param domain: name of the domain, which is recorded as the VFs' owner.
    :returns: the addresses of the VFs.
    :raises MacInUse: if a requested MAC belongs to another VF.
    :raises NicError: for the first VF that fails; the others are clean.
    """
    holder = Holder(Kind.DOMAIN, domain[:_MAX_NAME])

    def act(vf: VfId, device: PassedThrough) -> None:
        vfs.check(vf, Act.HAND_OUT)
        if device.mac is not None:
            vfs.check_mac(vf, device.mac, device.vlan)
        vfs.tenancies.assign(vf.address, holder)
        _reset(vfs, vf, holder, device.managed, _DOMAIN.before)
        in_use = dataclasses.replace(holder, state=State.IN_USE)
        vfs.tenancies.assign(vf.address, in_use)

    return _each(vfs, devices, act)


def release(
    vfs: Vfs, devices: Collection[PassedThrough], domain: str
) -> tuple[str, ...]:
    """Bring the VFs that a domain had to the baseline; see :func:`prepare`.

    VFs with another owner are left alone: the domain's start was refused
    because of them.
    """

    def act(vf: VfId, device: PassedThrough) -> None:
        tenancy = vfs.tenancies.get(vf.address)
        found = tenancy.of(Kind.DOMAIN)
        if found is None or found.id != domain[:_MAX_NAME]:
            return
        _reset(vfs, vf, found, device.managed, _DOMAIN.after)
        vfs.tenancies.release(vf.address, Kind.DOMAIN)

    return _each(vfs, devices, act)


def clean(vfs: Vfs, devices: Collection[PassedThrough]) -> tuple[str, ...]:
    """Bring VFs to the baseline for a manager that names no domain."""

    def act(vf: VfId, device: PassedThrough) -> None:
        vfs.check(vf, Act.HAND_OUT)
        vfs.reset(vf, depth=_DOMAIN.after)

    return _each(vfs, devices, act)


def _each(
    vfs: Vfs,
    devices: Collection[PassedThrough],
    act: Callable[[VfId, PassedThrough], None],
) -> tuple[str, ...]:
    problem: errors.NicError | None = None
    done = []
    for each in devices:
        try:
            vf = _located(vfs, each.address)
            if vf is None:
                continue
            with vfs.tenancies.locked(vf.address):
                act(vf, each)
        except errors.NicError as error:
            problem = problem or error
        else:
            done.append(each.address)
    if problem is not None:
        raise problem
    return tuple(done)


def _reset(
    vfs: Vfs, vf: VfId, holder: Holder, managed: bool, depth: Reset
) -> None:
    """Reset a VF; quarantine it if that fails.

    A VF that libvirt manages is given back to the host if it is still bound
    to vfio-pci. Any other keeps its driver, which the operator has chosen.
    """
    try:
        if managed and is_vfio(vfs.observe(vf).driver):
            vfs.restore(vf)
        else:
            vfs.reset(vf, depth=depth)
    except errors.NicError as error:
        vfs.tenancies.assign(vf.address, holder.quarantined(str(error)))
        raise


def _located(vfs: Vfs, address: str) -> VfId | None:
    """Return the VF of an address, None for another PCI device."""
    try:
        return vfs.locate(address)
    except errors.NotAVf:
        return None
