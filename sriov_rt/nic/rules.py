# SPDX-License-Identifier: Apache-2.0

"""Rules of NIC families: the values that each accepts."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from sriov_rt.nic import errors
from sriov_rt.nic.families import Attribute
from sriov_rt.nic.families import Family
from sriov_rt.nic.families import Support
from sriov_rt.nic.model import BASELINE
from sriov_rt.nic.model import Pf
from sriov_rt.parse import link

#: Priorities of 802.1Q have 3 bits.
MAX_QOS = 7

#: ETH_MIN_MTU and ETH_MAX_MTU of include/uapi/linux/if_ether.h.
MIN_MTU = 68
MAX_MTU = 65535

#: IFLA_VF_RATE has 32 bits.
MAX_RATE = 2**32 - 1

#: Attributes as they are on a NIC that lacks them.
NEUTRAL = dataclasses.replace(BASELINE, spoofchk=None)

_DRIVER = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_neutral(attribute: Attribute, value: Any) -> bool:
    """Return whether a value is that of a NIC without the attribute."""
    return bool(value is not None and value == getattr(NEUTRAL, attribute))


def check(
    family: Family, device: str, attribute: Attribute, value: Any
) -> None:
    """Refuse a value that the family never accepts.

    :param device: VF, for the error.
    :raises UnsupportedByNic: if it lacks the attribute or value.
    :raises OutOfRange: if no NIC accepts the value.
    """
    if family.supports(attribute) is Support.NO and not is_neutral(
        attribute, value
    ):
        why = family.why_not.get(attribute, "the NIC does not have it")
        raise errors.UnsupportedByNic(
            device, attribute, f"{why} (family {family.name})"
        )
    find = _CHECKS.get(attribute)
    problem = find(value) if find is not None else None
    if problem is not None:
        raise errors.OutOfRange(device, attribute, problem)
    if (
        attribute is Attribute.LINK_STATE
        and value not in family.link_states
        and not is_neutral(attribute, value)
    ):
        raise errors.UnsupportedByNic(
            device,
            attribute,
            f"family {family.name} does not do '{value}', though its driver "
            "may take it",
        )


def check_rates(
    family: Family, device: str, minimum: int, maximum: int, pf: Pf
) -> None:
    """Refuse effective rates that the NIC would refuse or not keep.

    :param minimum: Mbit/s; likewise the maximum.
    :raises OutOfRange: if a rate is not within its bounds.
    :raises LinkNeeded: if the PF's link does not allow rates.
    """
    _check_link(family, device, pf)
    rate = family.rate
    bounds = [] if rate.maximum is None else [rate.maximum]
    if rate.to_link and pf.speed_mbps is not None:
        bounds.append(pf.speed_mbps)
    attribute, problem = Attribute.MAX_TX_RATE, None
    if maximum and maximum < rate.minimum:
        problem = f"{maximum} Mb/s is below {rate.minimum}, the least"
    elif bounds and maximum > min(bounds):
        problem = f"{maximum} Mb/s is above {min(bounds)}, the most"
    elif maximum and minimum > maximum:
        attribute = Attribute.MIN_TX_RATE
        problem = f"{minimum} Mb/s is above max_tx_rate, {maximum}"
    if problem is not None:
        raise errors.OutOfRange(device, attribute, problem)


def check_mtu(device: str, value: int, bounds: tuple[int, int]) -> None:
    """Refuse an MTU that the VF's driver would refuse.

    :param bounds: the lowest and the highest MTU, bytes.
    :raises OutOfRange: if it is not within the bounds.
    """
    least, most = bounds
    if not least <= value <= most:
        raise errors.OutOfRange(
            device,
            Attribute.MTU,
            f"{value} is not within {least} to {most}, which its driver takes",
        )


def _check_link(family: Family, device: str, pf: Pf) -> None:
    rate = family.rate
    problem = None
    if rate.needs_carrier and not pf.carrier:
        problem = (
            f"family {family.name} takes rates, and clears them, only while "
            f"{pf.name} has a carrier"
        )
    elif rate.link_mbps is not None and pf.speed_mbps != rate.link_mbps:
        problem = (
            f"family {family.name} takes rates at {rate.link_mbps} Mb/s only "
            f"and {pf.name} is linked at {pf.speed_mbps}"
        )
    if problem is not None:
        raise errors.LinkNeeded(device, Attribute.MAX_TX_RATE, problem)


def mac_problem(value: str) -> str | None:
    """Return why a text cannot be a VF's MAC, as a clause; None if it can.

    :param value: text in lower case.
    """
    if not link.is_mac(value):
        return f"{value!r} is no MAC in lower case"
    if link.is_multicast(value):
        return f"{value} is a multicast address"
    return None


def _driver(value: str) -> str | None:
    return None if _DRIVER.fullmatch(value) else f"{value!r} is no driver"


def _within(minimum: int, maximum: int) -> Callable[[int], str | None]:
    def find(value: int) -> str | None:
        if minimum <= value <= maximum:
            return None
        return f"{value} is not within {minimum} to {maximum}"

    return find


_CHECKS: dict[Attribute, Callable[[Any], str | None]] = {
    Attribute.MAC: mac_problem,
    Attribute.VLAN: _within(0, link.MAX_VLAN),
    Attribute.QOS: _within(0, MAX_QOS),
    Attribute.MIN_TX_RATE: _within(0, MAX_RATE),
    Attribute.MAX_TX_RATE: _within(0, MAX_RATE),
    Attribute.MTU: _within(MIN_MTU, MAX_MTU),
    Attribute.DRIVER: _driver,
}
