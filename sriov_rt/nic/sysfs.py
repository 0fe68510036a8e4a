# SPDX-License-Identifier: Apache-2.0

"""Reading and writing of PFs and VFs in sysfs."""

import fnmatch
import os
import pathlib
import re
from collections.abc import Sequence
from typing import TypeVar

from sriov_rt.codec import Unknown
from sriov_rt.codec import known_or
from sriov_rt.host import interfaces
from sriov_rt.host import values
from sriov_rt.host import vfs
from sriov_rt.host.interfaces import NET
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import DEVICES
from sriov_rt.host.vfs import is_vfio
from sriov_rt.kernel.rtnetlink import IFF_ALLMULTI
from sriov_rt.kernel.rtnetlink import IFF_PROMISC
from sriov_rt.kernel.rtnetlink import IFF_UP
from sriov_rt.nic import affinity
from sriov_rt.nic import errors
from sriov_rt.nic import names
from sriov_rt.nic.model import EswitchMode
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.parse import errors as parse_errors
from sriov_rt.parse import link
from sriov_rt.parse import numbers

DRIVERS = "sys/bus/pci/drivers"

#: A file of sysfs is at most a page.
PAGE = 4096

_HEX = re.compile(r"0x([0-9a-f]{1,8})")
_FLAGS = re.compile(r"0x[0-9a-f]{1,8}")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)

T = TypeVar("T")


def _text(root: Root, relative: str) -> str | None:
    """Return the text of a file, stripped of white space."""
    text = root.read_text(relative, PAGE, may_be_empty=True)
    return None if isinstance(text, Unknown) else text.strip()


def _link(root: Root, relative: str) -> str | None:
    """Return the last part of a link's target."""
    return known_or(values.link_name(root, relative), None)


def _names(root: Root, relative: str) -> Sequence[str] | None:
    """Return the sorted names in a directory."""
    return known_or(root.list_dir(relative), None)


def write(
    root: Root,
    relative: str,
    text: str,
    device: str,
    attribute: str | None = None,
) -> None:
    """Write one value to a file of sysfs.

    :param relative: path below the root; the file has to exist.
    :param device: device of the file, for the error.
    :raises NicError: by the kernel's errno; NotPermitted if a link leads
        outside the root.
    """
    path = pathlib.Path(root.path, relative)
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.path.resolve()):
            raise errors.NotPermitted(
                device, attribute, f"/{relative} leads out of the root"
            )
        descriptor = os.open(real, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, f"{text}\n".encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        code = error.errno or 0
        raise errors.from_errno(code, device, attribute) from error


class Sysfs:
    """PFs and VFs of a host, as sysfs shows them.

    :param root: root of sysfs and procfs.
    """

    def __init__(self, root: Root) -> None:
        self._root = root

    def pfs(self) -> tuple[str, ...]:
        """Return the interfaces of PFs that can have VFs, sorted."""
        listed = _names(self._root, NET)
        if listed is None:
            listed = self._known(f"/{NET}", self._root.list_dir(NET))
        return tuple(
            name
            for name in listed
            if self._total(name) and self._is_first(name)
        )

    def pf(self, name: str) -> Pf:
        """Return a PF.

        :raises NotAPf: if it cannot have VFs.
        :raises NoSuchDevice: if there is no such interface.
        """
        names.parse_interface(name)
        if self._root.exists(f"{NET}/{name}") is not True:
            raise errors.NoSuchDevice(name, None, "there is no such interface")
        total = self._total(name)
        device = f"{NET}/{name}/device"
        address = values.link_name(self._root, device)
        if (
            not total
            or not isinstance(address, str)
            or interfaces.is_representor(self._root, name)
        ):
            raise errors.NotAPf(name, None, "it can have no VFs")
        found = self._known(name, vfs.find(self._root, device))
        probes = values.switch(self._root, f"{device}/sriov_drivers_autoprobe")
        return Pf(
            name=name,
            address=address,
            driver=self._known(
                name, values.link_name(self._root, f"{device}/driver")
            ),
            vendor=self._id(name, f"{device}/vendor"),
            product=self._id(name, f"{device}/device"),
            speed_mbps=self._speed(f"{NET}/{name}/speed"),
            carrier=known_or(
                values.switch(self._root, f"{NET}/{name}/carrier"), None
            ),
            total_vfs=total,
            vfs=tuple(VfId(name, index, where) for index, where in found),
            probes=known_or(probes, None),
            eswitch=self._eswitch(address),
        )

    def locate(self, name: str) -> VfId:
        """Return the VF with a PCI address or an interface.

        :raises NotAVf: if the device is no VF.
        :raises NoSuchDevice: if there is no such device.
        """
        address = name
        if link.is_interface(name):
            address = self._address(name)
        device = f"{DEVICES}/{address}"
        parent = _link(self._root, f"{device}/physfn")
        if parent is None:
            if self._root.exists(device) is not True:
                raise errors.NoSuchDevice(
                    name, None, "there is no such device"
                )
            raise errors.NotAVf(name, None, "it is no VF")
        for pf in self._ports(parent):
            for each in self.pf(pf).vfs:
                if each.address == address:
                    return each
        raise errors.NotAVf(
            name, None, f"its PF {parent} has no interface on this host"
        )

    def is_vf(self, address: str) -> bool | Unknown:
        """Return whether there is a VF at a PCI address."""
        return self._root.exists(f"{DEVICES}/{address}/physfn")

    def device(self, vf: VfId) -> VfDevice:
        """Return the PCI device of a VF and its interface.

        ``promisc`` and ``allmulti`` are also on here if only an upper
        interface needs them.

        :raises NoSuchDevice: if the VF is gone.
        """
        device = f"{DEVICES}/{vf.address}"
        if _text(self._root, f"{device}/vendor") is None:
            raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
        listed = known_or(interfaces.of_function(self._root, vf.address), None)
        netdev = listed[0] if listed else None
        bare = VfDevice(
            driver=_link(self._root, f"{device}/driver"),
            netdev=netdev,
            # The directory remains after the interface has moved.
            elsewhere=listed is not None and not listed,
            iommu_group=_number(_link(self._root, f"{device}/iommu_group")),
            # It is -1 if the platform has none.
            numa_node=_number(_text(self._root, f"{device}/numa_node")),
        )
        return bare if netdev is None else self._whole(bare)

    def check_driver(self, vf: VfId, driver: str) -> None:
        """Refuse a driver that cannot be bound to a VF.

        The kernel would only refuse it once the VF has lost its driver.

        :raises DriverMissing: if the kernel has no driver of that name.
        :raises UnsupportedByNic: if the driver is for other devices.
        """
        _find(self._root, vf, driver)
        device = f"{DEVICES}/{vf.address}"
        if values.link_name(self._root, f"{device}/driver") == driver:
            return
        module = values.link_name(self._root, f"{DRIVERS}/{driver}/module")
        modalias = self._root.read_text(f"{device}/modalias")
        release = self._root.read_text("proc/sys/kernel/osrelease")
        if not (
            isinstance(module, str)
            and isinstance(modalias, str)
            and isinstance(release, str)
        ):
            return
        patterns = _pci_aliases(self._root, release.strip(), module)
        # Drivers that take any device, such as vfio-pci, name none.
        if patterns and not any(
            fnmatch.fnmatchcase(modalias.strip(), each) for each in patterns
        ):
            raise errors.UnsupportedByNic(
                f"{vf}",
                "driver",
                f"the driver '{driver}' is for other devices",
            )

    def bind(self, vf: VfId, driver: str | None) -> None:
        """Unbind a VF from its driver, and bind it to the same or another.

        :param driver: name of the driver; None for the kernel's choice.
        :raises DriverMissing: if there is no such driver.
        :raises NicError: by the kernel's errno; the VF may then have no
            driver.
        """
        device = f"{DEVICES}/{vf.address}"
        if driver is not None:
            _find(self._root, vf, driver)
        if self._root.exists(f"{device}/driver") is True:
            _write(self._root, vf, f"{device}/driver/unbind", vf.address)
        _write(self._root, vf, f"{device}/driver_override", driver or "")
        parent = values.link_name(self._root, f"{device}/physfn")
        with affinity.away_from(self._root, str(parent)):
            if driver is None:
                _write(self._root, vf, "sys/bus/pci/drivers_probe", vf.address)
            else:
                _write(self._root, vf, f"{DRIVERS}/{driver}/bind", vf.address)
        if not is_vfio(driver):
            # The next bind finds the VF as the kernel made it.
            _write(self._root, vf, f"{device}/driver_override", "")

    def flr(self, vf: VfId) -> None:
        """Reset the function of a VF."""
        _write(self._root, vf, f"{DEVICES}/{vf.address}/reset", "1")

    def provision(self, pf: str, number: int, *, probe: bool) -> None:
        """Set how many VFs a PF has.

        :param probe: whether drivers are bound to new VFs.
        :raises VfBusy: if it already has VFs, and another number of them.
        """
        device = f"{NET}/{names.parse_interface(pf)}/device"
        attribute = "sriov_drivers_autoprobe"
        path = f"{device}/{attribute}"
        write(self._root, path, str(int(probe)), pf, attribute)
        write(self._root, f"{device}/sriov_numvfs", str(number), pf, "vfs")

    def _total(self, name: str) -> int:
        """Return how many VFs an interface's device can have."""
        path = f"{NET}/{name}/device/sriov_totalvfs"
        text = _text(self._root, path)
        if text is None:
            return 0
        try:
            return numbers.parse_int(text, "number of VFs", 0, vfs.MAX_VFS)
        except parse_errors.ParseError as error:
            raise errors.BadState(name, None, f"/{path}: {error}") from error

    def _eswitch(self, address: str) -> EswitchMode:
        """Return the mode of a PF's embedded switch, by its representors."""
        beside = _names(self._root, f"{DEVICES}/{address}/net") or ()
        if any(interfaces.is_representor(self._root, each) for each in beside):
            return EswitchMode.SWITCHDEV
        return EswitchMode.LEGACY

    def _is_first(self, name: str) -> bool:
        """Return whether an interface is the first port of its function."""
        address = values.link_name(self._root, f"{NET}/{name}/device")
        return self._ports(str(address))[:1] == (name,)

    def _ports(self, address: str) -> tuple[str, ...]:
        """Return the interfaces of a PF by their ports."""
        listed = interfaces.ports(self._root, address)
        return () if isinstance(listed, Unknown) or listed is None else listed

    def _address(self, interface: str) -> str:
        found = interfaces.pci_address(self._root, interface)
        if isinstance(found, str):
            return found
        if _names(self._root, f"{NET}/{interface}") is None:
            raise errors.NoSuchDevice(
                interface, None, "there is no such interface"
            )
        raise errors.NotAVf(interface, None, "it is not on PCI")

    def _text(self, path: str, pattern: re.Pattern[str]) -> str | None:
        text = _text(self._root, path)
        match = None if text is None else pattern.fullmatch(text)
        return None if match is None else match[match.lastindex or 0]

    def _id(self, name: str, path: str) -> str:
        found = self._text(path, _HEX)
        if found is None:
            raise errors.BadState(name, None, f"/{path} is no PCI id")
        return found.zfill(4)

    def _speed(self, path: str) -> int | None:
        speed = known_or(values.integer(self._root, path, minimum=-1), None)
        # Some drivers return SPEED_UNKNOWN, -1, as unsigned.
        return None if speed in (None, -1, 0, 2**32 - 1) else speed

    def _known(self, device: str, value: T | Unknown) -> T:
        if isinstance(value, Unknown):
            raise errors.BadState(device, None, value.reason)
        return value

    def _whole(self, bare: VfDevice) -> VfDevice:
        """Return the device, completed with its interface's attributes."""
        inner = f"{NET}/{bare.netdev}"
        flags = _matching(_FLAGS, _text(self._root, f"{inner}/flags"))
        address = _text(self._root, f"{inner}/address") or ""
        bits = None if flags is None else int(flags, 16)
        return VfDevice(
            driver=bare.driver,
            netdev=bare.netdev,
            alias=_text(self._root, f"{inner}/ifalias") or "",
            iommu_group=bare.iommu_group,
            numa_node=bare.numa_node,
            mac=address if link.is_mac(address) else None,
            address_type=_number(
                _text(self._root, f"{inner}/addr_assign_type")
            ),
            mtu=_number(_text(self._root, f"{inner}/mtu")),
            promisc=None if bits is None else bool(bits & IFF_PROMISC),
            allmulti=None if bits is None else bool(bits & IFF_ALLMULTI),
            up=None if bits is None else bool(bits & IFF_UP),
            uppers=tuple(
                name.removeprefix("upper_")
                for name in _names(self._root, inner) or ()
                if name.startswith("upper_")
            ),
        )


def _matching(pattern: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and pattern.fullmatch(text) else None


def _number(text: str | None) -> int | None:
    found = _matching(_NUMBER, text)
    return None if found is None else int(found)


def _pci_aliases(root: Root, release: str, module: str) -> list[str]:
    """Return the PCI aliases of a module, as modprobe reads them."""
    path = pathlib.Path(root.path, "lib/modules", release, "modules.alias")
    found = []
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) == 3 and words[2].replace(
                    "-", "_"
                ) == module.replace("-", "_"):
                    found.append(words[1])
    except OSError:
        return []
    return [each for each in found if each.startswith("pci:")]


def _find(root: Root, vf: VfId, driver: str) -> None:
    if root.exists(f"{DRIVERS}/{driver}") is not True:
        raise errors.DriverMissing(
            f"{vf}", "driver", f"the kernel has no PCI driver '{driver}'"
        )


def _write(root: Root, vf: VfId, path: str, text: str) -> None:
    write(root, path, text, f"{vf}", "driver")
