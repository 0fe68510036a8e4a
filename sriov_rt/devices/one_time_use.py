# SPDX-License-Identifier: Apache-2.0

"""One-time-use devices: which of them are due to be cleaned; no I/O.

Nova gives such a device a resource provider ``NODE_ADDRESS`` beneath that of
the node (nova/compute/pci_placement_translator.py), reserves its inventory
when an instance gets it, and never un-reserves it.
"""

import dataclasses
import enum
from collections.abc import Mapping

from sriov_rt.parse import errors
from sriov_rt.parse.pci import PciAddress
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: The trait that Nova gives the providers of one-time-use devices.
TRAIT = "HW_PCI_ONE_TIME_USE"

#: The longest name of a provider that a sentence shows, in characters.
_MAX_NAME = 80


class Availability(enum.StrEnum):
    """State of a device in Placement.

    Available to the next instance, allocated to one, or due: reserved, and
    no instance has it.
    """

    AVAILABLE = "available"
    ALLOCATED = "allocated"
    DUE = "due"


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """Inventory of one resource class, as Placement has it."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float


@dataclasses.dataclass(frozen=True, slots=True)
class Holding:
    """Inventories and allocations of a provider.

    :param inventories: by resource class.
    :param generation: of the provider when the inventories were read.
    :param is_allocated: whether a consumer has any of it.
    :param allocations_generation: of the provider when that was read.
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
    # Nova writes it in upper case, and whole.
    if start != node or found is None or str(found).upper() != text:
        return unnamed(name, node)
    return found


def unnamed(name: str, node: str) -> Reason:
    """Return the Reason of a provider that is no device of a node."""
    if len(name) > _MAX_NAME:
        name = f"{name[: _MAX_NAME - 3]}..."
    return reason("device_unnamed", provider=name, node=node)


def judge(
    address: PciAddress, provider: str, holding: Holding
) -> Availability | Reason:
    """Return the availability of a device, or why nothing is done to it.

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
    """Return whether it is one device, reserved as a whole or not at all."""
    if len(inventories) != 1:
        return False
    (found,) = inventories.values()
    return found.total == 1 and found.reserved in (0, 1)
