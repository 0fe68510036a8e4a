# SPDX-License-Identifier: Apache-2.0

"""Network interfaces of PCI devices, from ``/sys/class/net``."""

import re

from sriov_rt.codec import Unknown
from sriov_rt.facts import Nic
from sriov_rt.facts import NicFacts
from sriov_rt.facts import Vf
from sriov_rt.host import interfaces
from sriov_rt.host import values
from sriov_rt.host import vfio
from sriov_rt.host import vfs
from sriov_rt.host.interfaces import NET
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse import link
from sriov_rt.parse import numbers

#: IP_MAX_MTU is 65,535; loopback's 65,536 is the largest in use.
MAX_MTU = 2**31 - 1

#: Speed that a driver does not know (include/uapi/linux/ethtool.h).
SPEED_UNKNOWN = -1

_HEX_ID = re.compile(r"(?:0x)?([0-9a-f]{1,4})")


def observe(root: Root) -> NicFacts:
    """Return the interfaces whose function is on PCI and is not a VF."""
    names = root.list_dir(NET)
    if isinstance(names, Unknown):
        return NicFacts(names)
    nics = []
    owners = vfs.Owners(root, vfio.Holders(root))
    for name in names:
        address = _address(root, name)
        if isinstance(address, Unknown):
            return NicFacts(address)
        if address is not None:
            nics.append(_nic(root, name, address, owners))
    return NicFacts(tuple(nics))


def _address(root: Root, name: str) -> str | None | Unknown:
    """Return the PCI address; None for a VF, or an interface not on PCI."""
    address = interfaces.pci_address(root, name)
    if address is None or isinstance(address, Unknown):
        return address
    is_vf = root.exists(f"{interfaces.function(root, name)}/physfn")
    if isinstance(is_vf, Unknown):
        return is_vf
    if is_vf or interfaces.is_representor(root, name):
        return None
    return address


def _nic(root: Root, name: str, address: str, owners: vfs.Owners) -> Nic:
    interface = f"{NET}/{name}"
    device = interfaces.function(root, name)
    # If one function has several ports, its VFs count for the first.
    ports = interfaces.ports(root, address)
    has_vfs = isinstance(ports, Unknown) or not ports or ports[0] == name
    return Nic(
        name=name,
        address=address,
        driver=values.link_name(root, f"{device}/driver"),
        vendor=_pci_id(root, f"{device}/vendor"),
        device=_pci_id(root, f"{device}/device"),
        numa_node=_numa_node(root, device),
        speed_mbps=_speed(root, interface),
        carrier=values.switch(root, f"{interface}/carrier"),
        mac=values.parsed(root, f"{interface}/address", _mac),
        mtu=values.integer(root, f"{interface}/mtu", maximum=MAX_MTU),
        sriov_totalvfs=_sriov(root, device, "sriov_totalvfs"),
        sriov_numvfs=_sriov(root, device, "sriov_numvfs"),
        vf_device=_vf_device(root, device),
        link=interfaces.link_type(root, name),
        vfs=_vfs(root, device, owners) if has_vfs else (),
    )


def _hex_id(text: str) -> str:
    match = _HEX_ID.fullmatch(text)
    if match is None:
        raise errors.ParseError("PCI id", text, "four hex digits expected")
    return match[1].zfill(4)


def _pci_id(root: Root, path: str) -> str | Unknown:
    return values.parsed(root, path, _hex_id)


def _mac(text: str) -> str:
    if not link.is_hardware_address(text):
        raise errors.ParseError(
            "hardware address", text, "hex digits in pairs expected"
        )
    return text


def _numa_node(root: Root, device: str) -> int | None | Unknown:
    path = f"{device}/numa_node"
    node = values.unless_absent(
        root,
        path,
        values.integer(root, path, minimum=-1),
        -1,
        beside=f"{device}/vendor",
    )
    return None if node == -1 else node


def _speed(root: Root, interface: str) -> int | Unknown:
    """Return the speed, Mbit/s; a read is EINVAL if the interface is down."""
    path = f"{interface}/speed"
    speed = values.integer(root, path, minimum=SPEED_UNKNOWN)
    # Some drivers return it as unsigned.
    if speed in (SPEED_UNKNOWN, 2**32 - 1):
        return Unknown(f"/{path}: the driver does not know it")
    return speed


def _sriov(root: Root, device: str, name: str) -> int | Unknown:
    """Return a count of VFs; a device without SR-IOV lacks the file."""
    path = f"{device}/{name}"
    return values.unless_absent(
        root,
        path,
        values.integer(root, path, maximum=vfs.MAX_VFS),
        0,
        beside=f"{device}/vendor",
    )


def _vf_device(root: Root, device: str) -> str | None | Unknown:
    path = f"{device}/sriov_vf_device"
    found: str | None | Unknown = _pci_id(root, path)
    return values.unless_absent(
        root, path, found, None, beside=f"{device}/vendor"
    )


def _vfs(
    root: Root, device: str, owners: vfs.Owners
) -> tuple[Vf, ...] | Unknown:
    links = vfs.find(root, device)
    if isinstance(links, Unknown):
        return links
    return tuple(_vf(root, index, address, owners) for index, address in links)


def _vf(root: Root, index: int, address: str, owners: vfs.Owners) -> Vf:
    """Return the facts of one VF.

    :param index: number of the VF on its PF, from 0.
    :param address: PCI address of the VF.
    """
    device = f"{vfs.DEVICES}/{address}"
    driver = values.link_name(root, f"{device}/driver")
    netdev = _netdev(root, address)
    group = _iommu_group(root, device)
    return Vf(
        index=index,
        address=address,
        driver=driver,
        netdev=netdev,
        iommu_group=group,
        owner=owners.of(address, driver, netdev, group),
    )


def _netdev(root: Root, address: str) -> str | None | Unknown:
    names = interfaces.of_function(root, address)
    if isinstance(names, Unknown):
        return names
    return names[0] if names else None


def _iommu_group(root: Root, device: str) -> int | None | Unknown:
    path = f"{device}/iommu_group"
    name = values.link_name(root, path)
    if name is None or isinstance(name, Unknown):
        return name
    try:
        return numbers.parse_int(name, "IOMMU group", 0, values.MAX_INT)
    except errors.ParseError as error:
        return values.garbled(path, error)
