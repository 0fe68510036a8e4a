# SPDX-License-Identifier: Apache-2.0

"""Providers of one-time-use devices in Placement, read and un-reserved."""

import dataclasses
from typing import Any

from sriov_rt.devices.one_time_use import TRAIT
from sriov_rt.devices.one_time_use import Holding
from sriov_rt.devices.one_time_use import Inventory
from sriov_rt.placement import resource_provider
from sriov_rt.placement.resource_provider import PlacementUnreachable
from sriov_rt.placement.resource_provider import field

#: The first microversion that can list a tree's providers (1.14) with a
#: trait (1.18).
TREE_MICROVERSION = "1.18"


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceProvider:
    """The resource provider of a device.

    :param parent: UUID of its parent; None for a root.
    """

    uuid: str
    name: str
    parent: str | None


class DeviceProviders(resource_provider.Placement):
    """Read one-time-use devices, and un-reserve them.

    Every method raises PlacementUnreachable and PlacementRefused.
    """

    def one_time_use(self, root: str) -> tuple[DeviceProvider, ...]:
        """Return the providers of a tree that have the trait.

        :param root: UUID of the node's provider.
        """
        answer = self._request(
            "GET",
            "/resource_providers",
            TREE_MICROVERSION,
            params={"in_tree": root, "required": TRAIT},
        )
        listed = field(self._json(answer), "resource_providers", list)
        return tuple(
            DeviceProvider(
                field(each, "uuid", str),
                field(each, "name", str),
                each.get("parent_provider_uuid"),
            )
            for each in listed
        )

    def holding(self, uuid: str) -> Holding:
        """Return the inventories and the allocations of a provider."""
        path = f"/resource_providers/{uuid}"
        found = self._json(self._request("GET", f"{path}/inventories"))
        inventories = {
            name: _inventory(each)
            for name, each in field(found, "inventories", dict).items()
        }
        # Read them later: an allocation in between raises the generation.
        used = self._json(self._request("GET", f"{path}/allocations"))
        return Holding(
            inventories,
            field(found, "resource_provider_generation", int),
            bool(field(used, "allocations", dict)),
            field(used, "resource_provider_generation", int),
        )

    def unreserve(self, uuid: str, holding: Holding) -> None:
        """Set reserved to 0; the rest of the inventory stays.

        :param holding: state of the provider, with the generation that
            Placement has to match.
        :raises GenerationConflict: if the generation has changed.
        """
        name = holding.resource_class
        body = {
            **dataclasses.asdict(holding.inventories[name]),
            "reserved": 0,
        }
        self._replace(uuid, f"inventories/{name}", body, holding.generation)


def _inventory(found: Any) -> Inventory:
    numbers = {
        each.name: field(found, each.name, int)
        for each in dataclasses.fields(Inventory)
        if each.name != "allocation_ratio"
    }
    ratio = found.get("allocation_ratio")
    if isinstance(ratio, bool) or not isinstance(ratio, int | float):
        raise PlacementUnreachable("'allocation_ratio' is no number")
    return Inventory(**numbers, allocation_ratio=ratio)
