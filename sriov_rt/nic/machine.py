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

"""The real edge: this machine's netlink and sysfs."""

import dataclasses
from collections.abc import Mapping

from sriov_rt.host.root import Root
from sriov_rt.nic import drivers
from sriov_rt.nic.device import Devices
from sriov_rt.nic.filter_marks import FilterMarks
from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.netlink import Rtnetlink
from sriov_rt.nic.sysfs import Sysfs


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
        """Tell whether a macvlan, ipvlan, bridge or bond has an interface."""
        return self._netlink.carries(netdev)

    def addressed(self, netdev: str) -> bool:
        """Tell whether an interface has an IP address."""
        return self._netlink.addressed(netdev)

    def mark_filters(self, vf: VfId) -> None:
        """Note that the PF may keep filters of a VF until it is made again."""
        self._marks.put(vf.address)

    def has_mark(self, vf: VfId) -> bool:
        """Tell whether the PF may keep filters of a VF's last use."""
        return self._marks.has(vf.address)

    def check_driver(self, vf: VfId, driver: str) -> None:
        """Refuse a driver that cannot be bound to a VF."""
        drivers.check(self._root, vf, driver)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._netlink.rename(netdev, name)

    def bind(self, vf: VfId, driver: str | None) -> None:
        """Take a VF from its driver, and bind it to another or the same."""
        drivers.bind(self._root, vf, driver)

    def flr(self, vf: VfId) -> None:
        """Reset the function of a VF."""
        drivers.flr(self._root, vf)

    def provision(self, pf: str, number: int, *, probe: bool) -> None:
        """Set how many VFs a PF has."""
        drivers.provision(self._root, pf, number, probe=probe)
