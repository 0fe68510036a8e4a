# SPDX-License-Identifier: Apache-2.0

"""PCI devices of the host that are passed through to a domain."""

import dataclasses
import re

from sriov_rt.guest.domain import Domain
from sriov_rt.guest.xml import DomainRejected
from sriov_rt.guest.xml import Element

#: The most devices of one domain that are read: QEMU has 32 slots on each of
#: its buses, and an article names 32 VFs as a limit.
MAX_DEVICES = 1024

#: Attribute to its largest value (PCI: 16 bits of domain, 8 of bus, 5 of
#: device, 3 of function).
_PARTS = (("domain", 0xFFFF), ("bus", 0xFF), ("slot", 31), ("function", 7))

_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,8}|[0-9]{1,10}", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class PassedThrough:
    """One PCI device.

    :param address: such as ``0000:01:10.0``.
    :param managed: whether libvirt unbinds it from its host driver, and
        binds it again.
    :param mac: MAC that the domain names for a VF; None if it names none.
    :param vlan: VLAN that libvirt sets on a VF; 0 for none.
    """

    address: str
    managed: bool
    mac: str | None = None
    vlan: int = 0


def of(domain: Domain) -> tuple[PassedThrough, ...]:
    """Return the PCI devices of a domain, in its order, each once.

    A device of a pool (``<interface type='network'>``) is left out: it has no
    address before libvirt has allocated it.

    :raises DomainRejected: for an invalid address.
    """
    found: dict[str, PassedThrough] = {}
    for each in domain.devices():
        if not _is_pci(each):
            continue
        address = each.find("source/address")
        if address is None:
            continue
        if len(found) == MAX_DEVICES:
            raise DomainRejected(f"more than {MAX_DEVICES} PCI devices")
        text = _address(address)
        managed = each.get("managed") == "yes"
        device = PassedThrough(text, managed, *_network(each))
        found.setdefault(text, device)
    return tuple(found.values())


def _is_pci(device: Element) -> bool:
    if device.tag == "interface":
        return device.get("type") == "hostdev"
    return (
        device.tag == "hostdev"
        and device.get("mode", "subsystem") == "subsystem"
        and device.get("type") == "pci"
    )


def _network(device: Element) -> tuple[str | None, int]:
    """Return the MAC and the VLAN of a device; libvirt checks both itself."""
    mac, tags = device.find("mac"), device.findall("vlan/tag")
    vlan = tags[0].get("id", "0") if len(tags) == 1 else "0"
    return (
        None if mac is None else mac.get("address", "").lower() or None,
        int(vlan) if _NUMBER.fullmatch(vlan) and vlan.isdigit() else 0,
    )


def _address(element: Element) -> str:
    numbers = []
    for name, most in _PARTS:
        text = element.get(name, "0")
        if not _NUMBER.fullmatch(text):
            raise DomainRejected(f"{text[:32]!r} is no PCI {name}")
        # As libvirt reads it: a leading 0 does not mean octal.
        number = int(text, 16 if text.startswith("0x") else 10)
        if number > most:
            raise DomainRejected(f"{text[:32]!r} is no PCI {name}")
        numbers.append(number)
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*numbers)
