# SPDX-License-Identifier: Apache-2.0

"""Binding of VF drivers, with retries until name and MAC are right."""

import logging
from collections.abc import Iterable

from sriov_rt.host.vfs import is_vfio
from sriov_rt.nic import errors
from sriov_rt.nic import waiting
from sriov_rt.nic.families import Family
from sriov_rt.nic.kernel import Kernel
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.waiting import Clock

LOG = logging.getLogger(__name__)

#: How long to try to restore the interface's old name, seconds.
RENAME_S = 2.0

# Errors that pass once udev, or the interface with the name, moves on.
_PASSING = (errors.NoSuchDevice, errors.VfBusy, errors.NameTaken)


def keep(
    kernel: Kernel,
    vf: VfId,
    device: VfDevice,
    name: str | None,
    clock: Clock,
) -> VfDevice:
    """Give a VF's new interface the name of the old one, if possible.

    The configuration has that name, but the kernel makes up another. udev may
    also be renaming the interface just now.

    :param device: the VF's device as it is now.
    :param name: name of the old interface; None if there was none.
    :returns: its device afterwards.
    """
    if name is None or device.netdev is None:
        return device
    problem: errors.NicError | None = None

    def renamed() -> VfDevice | None:
        nonlocal problem
        found = kernel.device(vf)
        if found.netdev == name:
            return found
        try:
            kernel.rename(found.netdev or "", name)
        except _PASSING as error:
            problem = error
        return None

    found = waiting.until(clock, RENAME_S, renamed)
    if found is not None:
        return found
    LOG.warning(
        "vf=%s: its interface was %s and has another name now (%s); rename "
        "it, or name it by udev or systemd.link",
        vf.address,
        name,
        problem,
    )
    return kernel.device(vf)


#: How often binding a driver is tried. An 82576 still resets one to two
#: seconds after sriov_numvfs; its VFs then come up with random MACs or not at
#: all.
ATTEMPTS = 4
PAUSE_S = 1.0

#: How long an interface may take after its driver is bound, seconds.
INTERFACE_S = 5.0

#: How long a PF may take to show what a VF has sent to it, seconds.
ANSWER_S = 1.0

_HOPELESS = (
    errors.NotPermitted,
    errors.RefusedByDriver,
    errors.NoSuchDevice,
    errors.DriverMissing,
)


def bind(
    kernel: Kernel,
    family: Family,
    vf: VfId,
    driver: str | None,
    mac: str | None,
    clock: Clock,
) -> VfDevice:
    """Bind a VF to the same or another driver, and wait until it is up.

    :param driver: name of the driver; None for the kernel's choice.
    :param mac: MAC that its interface has to have; None or NO_MAC for any.
    :returns: its device afterwards.
    :raises NotReady: if it is not up after all attempts.
    """
    problem = ""
    before = kernel.device(vf)
    name = before.netdev
    for attempt in range(ATTEMPTS):
        if attempt:
            LOG.info("vf=%s: bound again, since %s", vf.address, problem)
            clock.sleep(PAUSE_S)
        try:
            kernel.bind(vf, driver)
        except _HOPELESS:
            _give_back(kernel, vf, before, driver)
            raise
        except errors.NicError as error:
            problem = str(error)
            continue
        device = waiting.until(
            clock, INTERFACE_S, lambda: _up(kernel.device(vf), driver)
        )
        if device is None:
            problem = "it has no interface"
        elif device.netdev is not None and (
            mac not in (None, NO_MAC, device.mac)
        ):
            problem = f"its interface has the MAC {device.mac} and not {mac}"
        elif not _is_answered(kernel, family, vf, clock):
            problem = "its PF has not answered its driver"
        else:
            return keep(kernel, vf, device, name, clock)
    _give_back(kernel, vf, before, driver)
    raise errors.NotReady(
        f"{vf}",
        "driver",
        f"bound {ATTEMPTS} times, but {problem}",
    )


def _give_back(
    kernel: Kernel, vf: VfId, before: VfDevice, driver: str | None
) -> None:
    """Bind a VF to its former driver after another could not be bound."""
    if before.driver in (None, driver):
        return
    try:
        if kernel.device(vf).driver is None:
            kernel.bind(vf, before.driver)
    except errors.NicError as error:
        LOG.warning("vf=%s: it has no driver now: %s", vf.address, error)


def unanswered(
    kernel: Kernel, family: Family, vfs: Iterable[VfId]
) -> tuple[VfId, ...]:
    """Return the VFs of a PF whose drivers got no answer from it.

    They have an interface without a link. If the family does not show this, or
    the PF is down, none is returned.
    """
    some = tuple(vfs)
    if not some or not family.shows_made_up:
        return ()
    name = some[0].pf
    if kernel.pf(name).carrier is None:
        return ()
    reported = {index: each.mac for index, each in kernel.read(name).items()}
    found = []
    for vf in some:
        shown, own = reported.get(vf.index), kernel.device(vf).mac
        if None not in (shown, own) and shown != own:
            found.append(vf)
    return tuple(found)


def _is_answered(
    kernel: Kernel, family: Family, vf: VfId, clock: Clock
) -> bool:
    """Wait for the PF to answer the VF's driver; return whether it did."""
    return (
        waiting.until(
            clock,
            ANSWER_S,
            lambda: None if unanswered(kernel, family, (vf,)) else True,
        )
        is not None
    )


def _up(device: VfDevice, driver: str | None) -> VfDevice | None:
    if driver is not None and device.driver != driver:
        return None
    if is_vfio(device.driver) or device.netdev is not None:
        return device
    return None
