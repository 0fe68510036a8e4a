# SPDX-License-Identifier: Apache-2.0

"""A host with a one-time-use device, and the Placement that tracks it."""

from collections.abc import Callable
from typing import Any
from unittest import mock

from sriov_rt.devices import cleaning
from sriov_rt.devices.one_time_use import Holding
from sriov_rt.devices.one_time_use import Inventory
from sriov_rt.devices.providers import DeviceProvider
from sriov_rt.devices.sysfs import Devices
from sriov_rt.host import container
from sriov_rt.placement import resource_provider
from tests.unit.host import trees

NODE = "rt-1"
ROOT = "11111111-1111-4111-8111-111111111111"
UUID = "22222222-2222-4222-8222-222222222222"
OTHER = "44444444-4444-4444-8444-444444444444"
CONSUMER = "33333333-3333-4333-8333-333333333333"
ADDRESS = "0000:41:00.0"
CLASS = "CUSTOM_PCI_8086_10C9"
DEVICE = f"sys/bus/pci/devices/{ADDRESS}"


def header(
    vendor: int = 0x8086, product: int = 0x10C9, command: int = 0x2
) -> bytes:
    """Return the header of a configuration space."""
    begin = b"".join(
        each.to_bytes(2, "little") for each in (vendor, product, command, 0x10)
    )
    return begin.ljust(64, b"\1")


def put_device(
    tree: trees.Tree,
    address: str = ADDRESS,
    vfs: int = 0,
    product: int = 0x10C9,
) -> None:
    """Put a device on vfio-pci into a tree, which nobody holds."""
    device = f"sys/bus/pci/devices/{address}"
    for name, text in {
        "vendor": "0x8086\n",
        "device": f"{product:#06x}\n",
        "reset_method": "flr bus\n",
        "reset": "",
        "sriov_numvfs": f"{vfs}\n",
        "aer_dev_fatal": "Undefined 0\nDLP 2\nTOTAL_ERR_FATAL 2\n",
        "aer_dev_nonfatal": "Undefined 0\nTOTAL_ERR_NONFATAL 0\n",
    }.items():
        tree.write(f"{device}/{name}", text)
    tree.write(f"{device}/config", header(product=product))
    tree.link(f"{device}/driver", "../../../bus/pci/drivers/vfio-pci")
    tree.link(f"{device}/iommu_group", "../../../kernel/iommu_groups/41")
    tree.write("proc/1/comm", "systemd\n")
    if not (tree.path / "proc/1/fd/0").is_symlink():
        tree.link("proc/1/fd/0", "/dev/null")
    (tree.path / "run/sriov-rt").mkdir(parents=True, exist_ok=True)


class FakePlacement:
    """Placement with the providers of one-time-use devices.

    :ivar before: called with each request's name before it is answered.
    """

    def __init__(self) -> None:
        self.providers: dict[str, DeviceProvider] = {}
        self.inventories: dict[str, dict[str, Inventory]] = {}
        self.consumers: dict[str, set[str]] = {}
        self.generations: dict[str, int] = {}
        self.add(ADDRESS, UUID)
        self.before: Callable[[str], None] = lambda request: None

    def add(self, address: str, uuid: str = OTHER) -> None:
        """Add the provider of a device, which is reserved and of nobody."""
        self.providers[uuid] = DeviceProvider(uuid, f"{NODE}_{address}", ROOT)
        self.inventories[uuid] = {CLASS: Inventory(1, 1, 1, 1, 1, 1.0)}
        self.consumers[uuid] = set()
        self.generations[uuid] = 7

    def find(self, name: str) -> str:
        self.before("find")
        if name != NODE:
            raise resource_provider.ProviderMissing(name)
        return ROOT

    def one_time_use(self, root: str) -> tuple[DeviceProvider, ...]:
        self.before("list")
        return tuple(self.providers.values())

    def holding(self, uuid: str) -> Holding:
        self.before("holding")
        generation = self.generations[uuid]
        self.before("allocations")
        return Holding(
            dict(self.inventories[uuid]),
            generation,
            bool(self.consumers[uuid]),
            self.generations[uuid],
        )

    def unreserve(self, uuid: str, holding: Holding) -> None:
        self.before("unreserve")
        if holding.generation != self.generations[uuid]:
            raise resource_provider.GenerationConflict(uuid)
        self.set_reserved(0, uuid)

    def set_reserved(self, reserved: int, uuid: str = UUID) -> None:
        """Change the inventory, as anybody may."""
        self.inventories[uuid] = {CLASS: Inventory(1, reserved, 1, 1, 1, 1.0)}
        self.generations[uuid] += 1

    def allocate(self) -> None:
        """Give the device to an instance."""
        self.consumers[UUID].add(CONSUMER)
        self.generations[UUID] += 1

    @property
    def reserved(self) -> int:
        return self.inventories[UUID][CLASS].reserved


class DevicesTest(trees.TreeTest):
    """A host with one device, reserved and of nobody."""

    def setUp(self) -> None:
        super().setUp()
        put_device(self.tree)
        self.placement = FakePlacement()
        self.devices = Devices(self.tree.root)
        self.reports: list[str] = []
        self.sees_processes = True
        patch = mock.patch.object(
            container, "sees_host_processes", lambda proc: self.sees_processes
        )
        patch.start()
        self.addCleanup(patch.stop)

    def cleaning(self, chosen: bool = True, **parts: Any) -> cleaning.Cleaning:
        return cleaning.Cleaning(
            parts.get("placement", self.placement),
            parts.get("devices", self.devices),
            NODE,
            lambda address: chosen,
            self.reports.append,
        )

    def was_reset(self) -> bool:
        return (self.tree.path / DEVICE / "reset").read_text() == "1\n"
