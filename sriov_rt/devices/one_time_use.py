# SPDX-License-Identifier: Apache-2.0

"""One-time-use devices, and which of them are due for cleaning; no I/O.

Nova gives such a device a resource provider ``NODE_ADDRESS`` below the node's
(nova/compute/pci_placement_translator.py). It reserves the inventory when an
instance gets the device, and never un-reserves it.
"""

import dataclasses
import enum
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.parse.pci import PciAddress
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Nova's trait on the providers of one-time-use devices.
TRAIT = "HW_PCI_ONE_TIME_USE"

#: The longest name of a provider that a sentence shows, in characters.
_MAX_NAME = 80


class Availability(enum.StrEnum):
    """State of a device in Placement.

    Available to the next instance, allocated to one, or due, which means
    reserved without an instance.
    """

    AVAILABLE = "available"
    ALLOCATED = "allocated"
    DUE = "due"


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """Inventory of one resource class in Placement."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Holding:
    """Inventories and allocations of a provider.

    :param inventories: inventories by resource class.
    :param generation: the provider's generation in the inventories' answer.
    :param is_allocated: whether a consumer has an allocation.
    :param allocations_generation: the same in the allocations' answer.
    """

    inventories: Mapping[str, Inventory]
    generation: int
    is_allocated: bool
    allocations_generation: int

    @property
    def resource_class(self) -> str:
        """The one resource class of a device."""
        (found,) = self.inventories
        return found


def address_of(name: str, node: str) -> PciAddress | Reason:
    """Return the PCI address in a provider's name.

    :param node: the name of the node's provider.
    """
    start, _, text = name.rpartition("_")
    try:
        found = PciAddress.parse(text)
    except errors.ParseError:
        found = None
    # Nova writes the whole address, in upper case.
    if start != node or found is None or str(found).upper() != text:
        return unnamed(name, node)
    return found


def unnamed(name: str, node: str) -> Reason:
    """Return the Reason for a provider that is not a device of a node."""
    if len(name) > _MAX_NAME:
        name = f"{name[: _MAX_NAME - 3]}..."
    return reason("device_unnamed", provider=name, node=node)


def judge(
    address: PciAddress, provider: str, holding: Holding
) -> Availability | Reason:
    """Return the availability of a device, or why it is left alone.

    :param provider: UUID of its provider.
    """
    inventories = holding.inventories.values()
    if not _is_of_nova(holding.inventories):
        shown = ", ".join(
            f"{name} {each.reserved} of {each.total} reserved"
            for name, each in sorted(holding.inventories.items())
        )
        return reason(
            "device_inventory_odd",
            address=str(address),
            inventory=shown or "it has none",
            provider=provider,
        )
    if holding.is_allocated:
        return Availability.ALLOCATED
    if not any(each.reserved for each in inventories):
        return Availability.AVAILABLE
    if holding.generation != holding.allocations_generation:
        return reason("device_provider_changed", address=str(address))
    return Availability.DUE


def _is_of_nova(inventories: Mapping[str, Inventory]) -> bool:
    """Return whether these are one device, either reserved or not."""
    if len(inventories) != 1:
        return False
    (found,) = inventories.values()
    return found.total == 1 and found.reserved in (0, 1)
