# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""PFs and VFs in sysfs: what they are."""

import re
from typing import TypeVar

from sriov_rt.codec import Unknown
from sriov_rt.host import values
from sriov_rt.host import vfs
from sriov_rt.host.nics import NET
from sriov_rt.host.root import Root
from sriov_rt.host.vfs import DEVICES
from sriov_rt.nic import errors
from sriov_rt.nic import names
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfId
from sriov_rt.nic.quick import Quick
from sriov_rt.parse import errors as parse_errors
from sriov_rt.parse import numbers
from sriov_rt.parse import pci

_HEX = re.compile(r"0x([0-9a-f]{1,8})")
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+[vs]f[0-9]+")

T = TypeVar("T")


class Sysfs:
    """The part of the edge that reads files.

    :param root: where sysfs and procfs are.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._quick = Quick(root)

    def pfs(self) -> tuple[str, ...]:
        """Return the interfaces of the PFs that can have VFs, sorted."""
        listed = self._quick.names(NET)
        if listed is None:
            listed = self._known(f"/{NET}", self._root.list_dir(NET))
        return tuple(
            name
            for name in listed
            if self._total(name) and not self._is_representor(name)
        )

    def pf(self, name: str) -> Pf:
        """Return a PF.

        :raises NotAPf: if it can have no VFs.
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
            or self._is_representor(name)
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
            carrier=_or_none(
                values.switch(self._root, f"{NET}/{name}/carrier")
            ),
            total_vfs=total,
            vfs=tuple(VfId(name, index, where) for index, where in found),
            probes=_or_none(probes),
        )

    def locate(self, name: str) -> VfId:
        """Return the VF of a PCI address or an interface.

        :raises NotAVf: if it is no VF.
        :raises NoSuchDevice: if there is no such device.
        """
        address = name
        if names.is_interface(name):
            address = self._address(name)
        device = f"{DEVICES}/{address}"
        parent = self._quick.link(f"{device}/physfn")
        if parent is None:
            if self._root.exists(device) is not True:
                raise errors.NoSuchDevice(
                    name, None, "there is no such device"
                )
            raise errors.NotAVf(name, None, "it is no VF")
        listed = self._root.list_dir(f"{DEVICES}/{parent}/net")
        for pf in () if isinstance(listed, Unknown) else listed:
            if self._is_representor(pf):
                continue
            for each in self.pf(pf).vfs:
                if each.address == address:
                    return each
        raise errors.NotAVf(
            name, None, f"its PF {parent} has no interface here"
        )

    def _total(self, name: str) -> int:
        """Return how many VFs an interface's device can have."""
        path = f"{NET}/{name}/device/sriov_totalvfs"
        text = self._quick.text(path)
        if text is None:
            return 0
        try:
            return numbers.parse_int(text, "number of VFs", 0, vfs.MAX_VFS)
        except parse_errors.ParseError as error:
            raise errors.BadState(name, None, f"/{path}: {error}") from error

    def _is_representor(self, name: str) -> bool:
        """Tell whether an interface of a PF stands for one of its VFs.

        Those of switchdev mode have the PF's device and pf0vf3 as the name
        of their port (Documentation/networking/devlink/devlink-port.rst).
        """
        port = self._text(f"{NET}/{name}/phys_port_name", _REPRESENTOR)
        return port is not None

    def _address(self, interface: str) -> str:
        path = f"{NET}/{interface}"
        found = self._quick.link(f"{path}/device")
        try:
            return str(pci.PciAddress.parse(found or ""))
        except parse_errors.ParseError:
            if self._quick.names(path) is None:
                raise errors.NoSuchDevice(
                    interface, None, "there is no such interface"
                ) from None
            raise errors.NotAVf(interface, None, "it is not on PCI") from None

    def _text(self, path: str, pattern: re.Pattern[str]) -> str | None:
        text = self._quick.text(path)
        match = None if text is None else pattern.fullmatch(text)
        return None if match is None else match[match.lastindex or 0]

    def _id(self, name: str, path: str) -> str:
        found = self._text(path, _HEX)
        if found is None:
            raise errors.BadState(name, None, f"/{path} is no PCI id")
        return found.zfill(4)

    def _speed(self, path: str) -> int | None:
        speed = _or_none(values.integer(self._root, path, minimum=-1))
        # Some drivers give SPEED_UNKNOWN, -1, as unsigned.
        return None if speed in (None, -1, 0, 2**32 - 1) else speed

    def _known(self, device: str, value: T | Unknown) -> T:
        if isinstance(value, Unknown):
            raise errors.BadState(device, None, value.reason)
        return value


def _or_none(value: T | Unknown) -> T | None:
    return None if isinstance(value, Unknown) else value
