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

"""The edge to the kernel's VFs: what the verbs need of it.

``machine.Machine`` is the real one; the unit tests have one that behaves
like each family.
"""

from collections.abc import Mapping
from typing import Protocol

from sriov_rt.nic.model import Pf
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings


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
        """Tell whether a macvlan, ipvlan, bridge or bond has an interface.

        In whatever namespace it is, found or not.
        """

    def addressed(self, netdev: str) -> bool:
        """Tell whether an interface has an IP address."""

    def mark_filters(self, vf: VfId) -> None:
        """Note that the PF may keep filters of a VF until it is made again."""

    def has_mark(self, vf: VfId) -> bool:
        """Tell whether the PF may keep filters of a VF's last use."""

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
