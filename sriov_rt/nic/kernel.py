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

"""Edge to the kernel's VFs: rtnetlink and sysfs, as the verbs need them.

``Machine`` is the real one; the unit tests have one that behaves
like each family.
"""

import contextlib
import dataclasses
import errno
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Protocol

import pyroute2

from sriov_rt import rtnetlink
from sriov_rt.host.root import Root
from sriov_rt.nic import errors
from sriov_rt.nic import sysfs
from sriov_rt.nic import vfinfo
from sriov_rt.nic.filter_marks import FilterMarks
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.sysfs import Devices
from sriov_rt.nic.sysfs import Sysfs


class Kernel(Protocol):
    """Verbs on PFs and VFs. What fails comes as errors.NicError."""

    def pfs(self) -> tuple[str, ...]:
        """Return the interfaces of the PFs that can have VFs, sorted."""

    def pf(self, name: str) -> Pf:
        """Return a PF.

        :raises NotAPf: if it can have no VFs.
        """

    def locate(self, name: str) -> VfId:
        """Return the VF of a PCI address or an interface.

        :raises NotAVf: if it is no VF.
        """

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return what the PF says of all its VFs, by one request."""

    def device(self, vf: VfId) -> VfDevice:
        """Return the PCI device of a VF and its interface.

        :raises NoSuchDevice: if it is gone.
        """

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set what is not None through the PF, by one request.

        A VLAN is written whole and so are the rates: the kernel takes them
        so. The first that fails ends it; what came before stays.

        :param changes: index of a VF to what to set.
        """

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""

    def mtus(self, netdev: str) -> tuple[int, int] | None:
        """Return the least and the greatest MTU that an interface takes.

        :returns: None if its driver does not tell.
        """

    def carries(self, netdev: str) -> bool:
        """Return whether a macvlan, ipvlan, bridge or bond has an interface.

        In whatever namespace it is, found or not.
        """

    def addressed(self, netdev: str) -> bool:
        """Return whether an interface has an IP address."""

    def mark_filters(self, vf: VfId) -> None:
        """Note that the PF may keep filters of a VF until it is made again."""

    def has_mark(self, vf: VfId) -> bool:
        """Return whether the PF may keep filters of a VF's last use."""

    def check_driver(self, vf: VfId, driver: str) -> None:
        """Refuse a driver that cannot be bound to a VF.

        :raises DriverMissing: if the kernel has none of the name.
        :raises UnsupportedByNic: if it is for other devices.
        """

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""

    def bind(self, vf: VfId, driver: str | None) -> None:
        """Take a VF from its driver, and bind it to another or the same.

        :param driver: None for the one that the kernel chooses.
        """

    def flr(self, vf: VfId) -> None:
        """Reset the function of a VF."""

    def provision(self, pf: str, number: int, *, probe: bool) -> None:
        """Set how many VFs a PF has.

        :param probe: whether drivers are bound to them.
        """


class Rtnetlink:
    """Requests on links of the caller's network namespace.

    What the kernel refuses comes as errors.NicError, by its errno.
    """

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return what the PF says of all its VFs, by one request."""
        return vfinfo.decode(_get(pf, ext_mask=rtnetlink.VFS_ONLY))

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set what is not None through the PF, by one request.

        :param changes: index of a VF to what to set.
        """
        infos = [
            ("IFLA_VF_INFO", {"attrs": list(vfinfo.encode(index, each))})
            for index, each in changes.items()
        ]
        device = f"{pf}/{min(changes)}" if len(changes) == 1 else pf
        with _conversation(device) as route:
            route.link(
                "set",
                index=rtnetlink.index_of(pf),
                IFLA_VFINFO_LIST={"attrs": infos},
            )

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""
        flags = rtnetlink.flags(
            {
                rtnetlink.IFF_PROMISC: settings.promisc,
                rtnetlink.IFF_ALLMULTI: settings.allmulti,
            }
        )
        mtu = {} if settings.mtu is None else {"mtu": settings.mtu}
        self._set(netdev, **flags, **mtu)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._set(netdev, ifname=name)

    def flags(self, netdev: str) -> tuple[bool, bool]:
        """Return whether promisc and allmulti were set by somebody.

        sysfs shows them also while something on top needs them.
        """
        bits = _get(netdev)["flags"]
        return (
            bool(bits & rtnetlink.IFF_PROMISC),
            bool(bits & rtnetlink.IFF_ALLMULTI),
        )

    def mtus(self, netdev: str) -> tuple[int, int] | None:
        """Return the least and the greatest MTU that an interface takes.

        :returns: None if its driver sets no bounds.
        """
        link = _get(netdev)
        least, greatest = (
            link.get_attr(f"IFLA_{each}_MTU") or 0 for each in ("MIN", "MAX")
        )
        return (least, greatest) if greatest else None

    def carries(self, netdev: str) -> bool:
        """Return whether a macvlan, ipvlan, bridge or bond has an interface.

        In whatever namespace it is; see :func:`rtnetlink.is_idle`.
        """
        with _named(netdev):
            return rtnetlink.is_idle(netdev) is False

    def addressed(self, netdev: str) -> bool:
        """Return whether an interface has an IP address."""
        with _conversation(netdev) as route:
            index = rtnetlink.index_of(netdev)
            return bool(list(route.get_addr(index=index)))

    def _set(self, netdev: str, **wanted: Any) -> None:
        with _conversation(netdev) as route:
            route.link("set", index=rtnetlink.index_of(netdev), **wanted)


def _get(interface: str, **wanted: Any) -> Any:
    """Return the message of a link."""
    with _conversation(interface) as route:
        index = rtnetlink.index_of(interface)
        found = list(route.link("get", index=index, **wanted))
    if not found:
        raise errors.BadState(interface, None, "the kernel says nothing")
    return found[0]


@contextlib.contextmanager
def _conversation(device: str) -> Iterator[pyroute2.IPRoute]:
    with _named(device), rtnetlink.conversation() as route:
        yield route


@contextlib.contextmanager
def _named(device: str) -> Iterator[None]:
    """Raise what the kernel refuses as the error of a device."""
    try:
        yield
    except OSError as error:
        code = error.errno or errno.EIO
        raise errors.from_errno(code, device, words=error.strerror) from error


class Machine:
    """kernel.Kernel over netlink and sysfs.

    :param root: where sysfs and procfs are; netlink is the caller's.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = Root(root)
        self._sysfs = Sysfs(self._root)
        self._devices = Devices(self._root)
        self._netlink = Rtnetlink()
        self._marks = FilterMarks(self._root)

    def pfs(self) -> tuple[str, ...]:
        """Return the interfaces of the PFs that can have VFs, sorted."""
        return self._sysfs.pfs()

    def pf(self, name: str) -> Pf:
        """Return a PF."""
        return self._sysfs.pf(name)

    def locate(self, name: str) -> VfId:
        """Return the VF of a PCI address or an interface."""
        return self._sysfs.locate(name)

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return what the PF says of all its VFs, by one request."""
        return self._netlink.read(pf)

    def device(self, vf: VfId) -> VfDevice:
        """Return the PCI device of a VF and its interface."""
        found = self._devices.read(vf)
        if found.netdev is None or not (found.promisc or found.allmulti):
            return found
        promisc, allmulti = self._netlink.flags(found.netdev)
        return dataclasses.replace(found, promisc=promisc, allmulti=allmulti)

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set what is not None through the PF, by one request."""
        self._netlink.write(pf, changes)

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""
        self._netlink.set_netdev(netdev, settings)

    def mtus(self, netdev: str) -> tuple[int, int] | None:
        """Return the least and the greatest MTU that an interface takes."""
        return self._netlink.mtus(netdev)

    def carries(self, netdev: str) -> bool:
        """Return whether a macvlan, bridge or the like has an interface."""
        return self._netlink.carries(netdev)

    def addressed(self, netdev: str) -> bool:
        """Return whether an interface has an IP address."""
        return self._netlink.addressed(netdev)

    def mark_filters(self, vf: VfId) -> None:
        """Note that the PF may keep filters of a VF until it is made again."""
        self._marks.put(vf.address)

    def has_mark(self, vf: VfId) -> bool:
        """Return whether the PF may keep filters of a VF's last use."""
        return self._marks.has(vf.address)

    def check_driver(self, vf: VfId, driver: str) -> None:
        """Refuse a driver that cannot be bound to a VF."""
        sysfs.check(self._root, vf, driver)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._netlink.rename(netdev, name)

    def bind(self, vf: VfId, driver: str | None) -> None:
        """Take a VF from its driver, and bind it to another or the same."""
        sysfs.bind(self._root, vf, driver)

    def flr(self, vf: VfId) -> None:
        """Reset the function of a VF."""
        sysfs.flr(self._root, vf)

    def provision(self, pf: str, number: int, *, probe: bool) -> None:
        """Set how many VFs a PF has."""
        sysfs.provision(self._root, pf, number, probe=probe)
