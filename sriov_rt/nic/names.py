# SPDX-License-Identifier: Apache-2.0

"""Names of a VF on a command line."""

import dataclasses

from sriov_rt.nic import errors
from sriov_rt.parse import errors as parse_errors
from sriov_rt.parse import link
from sriov_rt.parse import numbers
from sriov_rt.parse import pci

#: VFs of a PF have numbers of 16 bits (PCI_SRIOV_TOTAL_VF, pci_regs.h).
MAX_INDEX = 65535


@dataclasses.dataclass(frozen=True, slots=True)
class VfName:
    """A VF, named in one of three ways.

    :param address: PCI address; None for the other ways.
    :param interface: the VF's own, or with an index its PF's.
    """

    address: str | None = None
    interface: str | None = None
    index: int | None = None


def parse_interface(text: str) -> str:
    """Return the name of an interface.

    :raises BadName: if it is invalid: it has a slash or space, or is too long.
    """
    if not link.is_interface(text):
        raise errors.BadName(
            repr(text[:80]), None, "no interface can have that name"
        )
    return text


def parse(text: str) -> VfName:
    """Return what ``0000:01:10.0``, ``enp1s0/3`` or ``enp1s0v3`` names.

    :raises BadName: if the text has none of these forms.
    """
    if link.is_interface(text):
        return VfName(interface=text)
    name, slash, number = text.partition("/")
    try:
        if slash and link.is_interface(name):
            index = numbers.parse_int(number, "VF", 0, MAX_INDEX)
            return VfName(interface=name, index=index)
        return VfName(address=str(pci.PciAddress.parse(text)))
    except parse_errors.ParseError:
        raise errors.BadName(
            repr(text[:80]), None, "that names no VF"
        ) from None
