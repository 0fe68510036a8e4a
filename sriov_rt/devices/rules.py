# SPDX-License-Identifier: Apache-2.0

"""Rules for a clean PCI device; no I/O."""

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.host.vfs import is_vfio
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Length of the header of the configuration space, bytes: the part that is
#: readable without CAP_SYS_ADMIN (pci_read_config in
#: drivers/pci/pci-sysfs.c).
HEADER = 64

#: Offsets in the header (include/uapi/linux/pci_regs.h), and one bit.
_COMMAND, _STATUS, _AFTER_STATUS = 4, 6, 8
_MASTER = 1 << 2

#: Resets that return a whole function to its initial state. A reset by power
#: state (pm) skips parts that stay powered, which depends on the device. The
#: kernel uses the first method in its file (pci_reset_fn_methods).
WHOLE = frozenset(
    {"device_specific", "acpi", "flr", "af_flr", "bus", "cxl_bus"}
)


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """A PCI device, as the kernel shows it.

    :param identity: vendor and product as they were enumerated, ``8086:10c9``.
    :param is_vf: whether it is a VF itself.
    :param vfs: number of its VFs.
    :param driver: name of its driver; None if it has none.
    :param methods: the kernel's reset methods for it, the preferred one first.
    :param holder: the process that has it or its IOMMU group through VFIO.
    :param header: the first HEADER bytes of its configuration space.
    :param errors: PCIe errors since the boot, by severity; empty where the
        device does not count them.
    """

    address: str
    identity: str
    is_vf: bool
    vfs: int
    driver: str | None
    methods: tuple[str, ...]
    holder: str | None | Unknown
    header: bytes
    errors: Mapping[str, int]

    @property
    def answers_as(self) -> str:
        """Vendor and product that the device itself reports now."""
        vendor, product = (
            int.from_bytes(self.header[at : at + 2], "little") for at in (0, 2)
        )
        return f"{vendor:04x}:{product:04x}"

    @property
    def is_master(self) -> bool:
        """Whether it may access memory by DMA."""
        command = int.from_bytes(self.header[_COMMAND:_STATUS], "little")
        return bool(command & _MASTER)


def why_not(device: Device) -> Reason | None:
    """Return why a device must not be reset; None if it may be."""
    return next(_forbidding(device), None)


def _forbidding(device: Device) -> Iterator[Reason]:
    address = device.address
    if device.is_vf:
        yield reason("device_is_vf", address=address)
    if isinstance(device.holder, Unknown):
        yield reason(
            "device_use_unknown", address=address, why=device.holder.reason
        )
    elif device.holder is not None:
        yield reason("device_held", address=address, holder=device.holder)
    if device.driver is not None and not is_vfio(device.driver):
        yield reason("device_of_host", address=address, driver=device.driver)
    if device.vfs:
        yield reason("device_has_vfs", address=address, vfs=device.vfs)
    if device.answers_as != device.identity:
        yield reason(
            "device_lost",
            address=address,
            found=device.answers_as,
            wanted=device.identity,
        )
    if not device.methods or device.methods[0] not in WHOLE:
        yield reason(
            "device_without_reset",
            address=address,
            methods=" ".join(device.methods),
        )


def why_not_clean(before: Device, after: Device) -> Reason | None:
    """Return why a device is not clean after its reset; None if it is."""
    if found := why_not(after):
        return found
    problems = list(_differences(before, after))
    if not problems:
        return None
    return reason(
        "device_not_clean", address=after.address, why=", ".join(problems)
    )


def _differences(before: Device, after: Device) -> Iterator[str]:
    if after.driver != before.driver:
        yield f"its driver is {after.driver} and was {before.driver}"
    # No process has it open, and vfio-pci disables this before and after a
    # guest.
    if after.is_master:
        yield "it may write to memory (bus master)"
    if _kept(before.header) != _kept(after.header):
        yield "the header of its configuration space is another one"
    for severity, count in after.errors.items():
        more = count - before.errors.get(severity, 0)
        if more > 0:
            yield f"it had {more} {severity} PCIe errors meanwhile"
    if after.errors.keys() != before.errors.keys():
        yield "it counts PCIe errors in another way"


def _kept(header: bytes) -> bytes:
    """Return a header without its status, which changes by itself."""
    return header[:_STATUS] + header[_AFTER_STATUS:]
