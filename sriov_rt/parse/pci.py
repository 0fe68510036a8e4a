# SPDX-License-Identifier: Apache-2.0

"""PCI addresses and ids."""

import dataclasses
import re
import typing

from sriov_rt.parse import errors

_ADDRESS = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?"
    r"(?P<bus>[0-9a-f]{2}):(?P<device>[01][0-9a-f])\.(?P<function>[0-7])",
    re.IGNORECASE | re.ASCII,
)
_ID = re.compile(
    r"(?P<vendor>[0-9a-f]{4})(?::(?P<product>[0-9a-f]{4}))?",
    re.IGNORECASE | re.ASCII,
)


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class PciAddress:
    """Address of a PCI function; addresses sort in the order of lspci.

    :param domain: 16 bits by ACPI's _SEG; Intel's VMD numbers its own from
        0x10000 (vmd_find_free_domain in drivers/pci/controller/vmd.c), so up
        to 32 bits are accepted, as in libvirt.
    :param bus: 8 bits.
    :param device: 5 bits, the slot (PCI_SLOT in include/uapi/linux/pci.h).
    :param function: 3 bits (PCI_FUNC there).
    """

    domain: int
    bus: int
    device: int
    function: int

    @classmethod
    def parse(cls, text: str) -> typing.Self:
        """Return the address that ``0000:41:10.3`` or ``41:10.3`` names.

        :raises ParseError: if it is no such address.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise errors.ParseError(
                "PCI address",
                text,
                "domain:bus:device.function such as 0000:41:10.3 expected",
            )
        return cls(
            int(match["domain"] or "0", 16),
            int(match["bus"], 16),
            int(match["device"], 16),
            int(match["function"]),
        )

    def __str__(self) -> str:
        return (
            f"{self.domain:04x}:{self.bus:02x}"
            f":{self.device:02x}.{self.function}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PciId:
    """Vendor and product of a PCI device.

    :param vendor: 16 bits.
    :param product: 16 bits; None for any product of the vendor.
    """

    vendor: int
    product: int | None = None

    @classmethod
    def parse(cls, text: str) -> typing.Self:
        """Return the id that ``8086`` or ``8086:10ca`` names.

        :raises ParseError: if it is no such id.
        """
        match = _ID.fullmatch(text)
        if match is None:
            raise errors.ParseError(
                "PCI id",
                text,
                "vendor or vendor:product such as 8086:10ca expected",
            )
        product = match["product"]
        return cls(
            int(match["vendor"], 16), int(product, 16) if product else None
        )

    def __str__(self) -> str:
        if self.product is None:
            return f"{self.vendor:04x}"
        return f"{self.vendor:04x}:{self.product:04x}"
