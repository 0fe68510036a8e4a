# SPDX-License-Identifier: Apache-2.0

"""Virtual functions: their drivers, interfaces and owners."""

import re

from sriov_rt.codec import Unknown
from sriov_rt.host import interfaces
from sriov_rt.host import values
from sriov_rt.host import vfio
from sriov_rt.host.interfaces import DEVICES as DEVICES
from sriov_rt.host.root import Root
from sriov_rt.parse import errors
from sriov_rt.parse import pci

#: TotalVFs is a 16-bit register (PCI_SRIOV_TOTAL_VF in pci_regs.h).
MAX_VFS = 65535

#: Drivers that give a whole device to a process: vfio-pci, and others of its
#: family such as mlx5_vfio_pci. All drivers below drivers/vfio/pci in the
#: kernel have such names.
_VARIANT = re.compile(r"(?:[\w-]+[-_])?vfio[-_]pci")

#: Owner of a VF whose interface is in another network namespace: sysfs shows
#: an interface only in its own.
ELSEWHERE = "another network namespace"

_LINK = re.compile(r"virtfn([0-9]{1,5})")


class Owners:
    """Owners of VFs, as the kernel reports them.

    :param processes: holders of VFIO groups; read only if needed.
    """

    def __init__(self, root: Root, processes: vfio.Holders) -> None:
        self._root = root
        self._processes = processes

    def of(
        self,
        address: str,
        driver: str | None | Unknown,
        netdev: str | None | Unknown,
        group: int | None | Unknown,
    ) -> str | None | Unknown:
        """Return the owner of a VF; None if it has none.

        :param address: PCI address of the VF.
        """
        if isinstance(netdev, str):
            alias = self._root.read_text(
                f"{interfaces.NET}/{netdev}/ifalias", may_be_empty=True
            )
            if isinstance(alias, Unknown):
                return alias
            return alias.strip() or None
        if is_vfio(driver):
            return self._processes.of(f"{DEVICES}/{address}", group)
        if netdev is None and driver is not None:
            # The directory remains after its interface has moved.
            moved = interfaces.of_function(self._root, address) == ()
            return ELSEWHERE if moved else None
        return netdev


def is_vfio(driver: str | None | Unknown) -> bool:
    """Return whether a driver gives whole VFs to guests."""
    return isinstance(driver, str) and bool(_VARIANT.fullmatch(driver))


def find(root: Root, device: str) -> tuple[tuple[int, str], ...] | Unknown:
    """Return index and PCI address of each VF of a device, in order.

    :param device: directory of the PF's PCI device.
    """
    names = root.list_dir(device)
    if isinstance(names, Unknown):
        return names
    found = []
    for name in names:
        if not (match := _LINK.fullmatch(name)):
            continue
        target = values.link_name(root, f"{device}/{name}")
        if isinstance(target, Unknown):
            return target
        if target is None:
            continue  # removed since its directory was listed
        try:
            address = str(pci.PciAddress.parse(target))
        except errors.ParseError as error:
            return values.garbled(f"{device}/{name}", error)
        found.append((int(match[1]), address))
    return tuple(sorted(found))
