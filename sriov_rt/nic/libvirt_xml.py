# SPDX-License-Identifier: Apache-2.0

"""XML for libvirt's ways to attach a VF."""

import enum

from lxml import etree

from sriov_rt.nic import errors
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfId
from sriov_rt.parse.pci import PciAddress


class Way(enum.StrEnum):
    """How a VF is given to a guest.

    INTERFACE: libvirt sets MAC and VLAN, and keeps the guest from changing
    them. HOSTDEV: a PCI device that is set beforehand. NETWORK: a pool of VFs
    for 'virsh net-define'. POOLED: an interface that takes a VF of the pool.
    """

    INTERFACE = "interface"
    HOSTDEV = "hostdev"
    NETWORK = "network"
    POOLED = "pooled"


def interface(vf: VfId, mac: str | None, vlan: int | None) -> str:
    """Return an ``<interface>`` for a domain's devices.

    :param mac: MAC; None or NO_MAC for one that libvirt makes up.
    :param vlan: VLAN id; None or 0 for none.
    """
    top = etree.Element("interface", type="hostdev", managed="yes")
    _set_mac(top, mac)
    source = etree.SubElement(top, "source")
    _add_address(source, vf, type="pci")
    _set_vlan(top, vlan)
    return _text(top)


def hostdev(vf: VfId, mac: str | None, vlan: int | None) -> str:
    """Return a ``<hostdev>`` for a domain's devices.

    libvirt does not set it up: a comment lists what has to be set before.
    """
    top = etree.Element("hostdev", mode="subsystem", type="pci", managed="yes")
    words = []
    if mac not in (None, NO_MAC):
        words.append(f"mac={mac}")
    if vlan:
        words.append(f"vlan={vlan}")
    if words:
        command = f"sriov-rt vf set {vf} {' '.join(words)}"
        top.append(etree.Comment(f" before: {command} "))
    source = etree.SubElement(top, "source")
    _add_address(source, vf)
    return _text(top)


def network(pf: Pf, number: int | None, vlan: int | None) -> str:
    """Return a ``<network>`` of VFs, as ``virsh net-define`` takes it.

    The VFs are named one by one: a pool that names the PF starts more guests
    than it has VFs, without an error, and a VF that two had may not work until
    the next boot (shulou.com, on VF pass-through).

    :param number: number of VFs in the pool; None for all.
    :raises OutOfRange: if the PF has fewer.
    """
    has = len(pf.vfs)
    size = has if number is None else number
    if not 0 < size <= has:
        raise errors.OutOfRange(
            pf.name,
            "pool",
            f"{size} VFs requested for the pool, the PF has {has}",
        )
    pool = etree.Element("network")
    etree.SubElement(pool, "name").text = _pool(pf)
    forward = etree.SubElement(pool, "forward", mode="hostdev", managed="yes")
    for vf in pf.vfs[:size]:
        _add_address(forward, vf, type="pci")
    _set_vlan(pool, vlan)
    return _text(pool)


def pooled(pf: Pf, mac: str | None) -> str:
    """Return an ``<interface>`` for a domain that takes a VF of the pool.

    :param pf: PF whose pool :func:`network` describes.
    :param mac: MAC; None or NO_MAC for one that libvirt makes up.
    """
    user = etree.Element("interface", type="network")
    _set_mac(user, mac)
    etree.SubElement(user, "source", network=_pool(pf))
    return _text(user)


def _pool(pf: Pf) -> str:
    return f"sriov-{pf.name}"


def _set_mac(parent: etree._Element, mac: str | None) -> None:
    if mac not in (None, NO_MAC):
        etree.SubElement(parent, "mac", address=str(mac))


def _set_vlan(parent: etree._Element, vlan: int | None) -> None:
    if vlan:
        tags = etree.SubElement(parent, "vlan")
        etree.SubElement(tags, "tag", id=str(vlan))


def _add_address(parent: etree._Element, vf: VfId, **kind: str) -> None:
    found = PciAddress.parse(vf.address)
    etree.SubElement(
        parent,
        "address",
        {
            **kind,
            "domain": f"0x{found.domain:04x}",
            "bus": f"0x{found.bus:02x}",
            "slot": f"0x{found.device:02x}",
            "function": f"0x{found.function:x}",
        },
    )


def _text(top: etree._Element) -> str:
    text: str = etree.tostring(top, pretty_print=True, encoding="unicode")
    return text.rstrip()
