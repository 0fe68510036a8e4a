# SPDX-License-Identifier: Apache-2.0

"""Network interfaces of a host in sysfs: their links and PCI functions."""

import re

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.host import values
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse import pci

NET = "sys/class/net"
DEVICES = "sys/bus/pci/devices"

ETHERNET = "ethernet"
INFINIBAND = "infiniband"
WIFI = "wifi"

#: Link types that distinguish Nics (ARPHRD_* in if_arp.h).
_TYPES = {1: ETHERNET, 32: INFINIBAND}
#: Files of a wireless station: access points drop other source MACs.
_WIRELESS = ("phy80211", "wireless")
#: Documentation/networking/devlink/devlink-port.rst
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:[vs]f[0-9]+)?")
#: A bus between a PCI function and its interface.
_VIRTIO = re.compile(r"virtio[0-9]+")


def link_type(root: Root, name: str) -> str | Unknown:
    """Return the link type of an interface.

    :returns: ``ethernet``, ``infiniband``, ``wifi``, or ``type N`` with the
        kernel's number of any other.
    """
    for each in _WIRELESS:
        there = root.exists(f"{NET}/{name}/{each}")
        if isinstance(there, Unknown):
            return there
        if there:
            return WIFI
    number = values.integer(root, f"{NET}/{name}/type", maximum=0xFFFF)
    if isinstance(number, Unknown):
        return number
    return _TYPES.get(number, f"type {number}")


def is_representor(root: Root, name: str) -> bool:
    """Return whether an interface represents a VF or another function.

    In switchdev mode such interfaces are on the PF's own PCI function, with a
    port name such as pf0vf3; the PF itself has p0 or none.
    """
    port = values.parsed(root, f"{NET}/{name}/phys_port_name", str)
    return isinstance(port, str) and _REPRESENTOR.fullmatch(port) is not None


def function(root: Root, name: str) -> str:
    """Return the directory of an interface's device.

    A virtio-net device is one level below its PCI function.
    """
    device = f"{NET}/{name}/device"
    found = values.link_name(root, device)
    is_virtio = isinstance(found, str) and _VIRTIO.fullmatch(found)
    return f"{device}/.." if is_virtio else device


def pci_address(root: Root, name: str) -> str | None | Unknown:
    """Return the PCI address of an interface's function.

    :returns: None if the interface is not on PCI.
    """
    device = function(root, name)
    found = (
        root.real_name(device)
        if device.endswith("/..")
        else values.link_name(root, device)
    )
    if found is None or isinstance(found, Unknown):
        return found
    try:
        return str(pci.PciAddress.parse(found))
    except errors.ParseError:
        return None  # on another bus: 1-1:1.0, vmbus_0_11, mlx5_core.sf.2


def of_function(root: Root, address: str) -> tuple[str, ...] | None | Unknown:
    """Return the interfaces of a PCI function, sorted.

    :param address: PCI address of the function.
    :returns: None if the function's driver makes none; empty if all are in
        other network namespaces.
    """
    found: list[str] | None = None
    names = root.list_dir(f"{DEVICES}/{address}")
    if isinstance(names, Unknown):
        return None if root.exists(f"{DEVICES}/{address}") is False else names
    for each in (".", *filter(_VIRTIO.fullmatch, names)):
        directory = f"{DEVICES}/{address}/{each}/net".replace("/./", "/")
        listed = root.list_dir(directory)
        if not isinstance(listed, Unknown):
            found = [*(found or ()), *listed]
        elif root.exists(directory) is not False:
            return listed
    return None if found is None else tuple(found)


def ports(root: Root, address: str) -> tuple[str, ...] | None | Unknown:
    """Return the interfaces of a PF by their ports, without representors.

    :param address: PCI address of the PF.
    :returns: as for :func:`of_function`.
    """
    names = of_function(root, address)
    if names is None or isinstance(names, Unknown):
        return names
    own = (each for each in names if not is_representor(root, each))
    return tuple(sorted(own, key=lambda each: _port(root, each)))


def _port(root: Root, name: str) -> int:
    """Return the number of an interface's port on its function, from 0."""
    return known_or(values.integer(root, f"{NET}/{name}/dev_port"), 0)
