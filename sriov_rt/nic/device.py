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

"""The PCI device of a VF and its interface, from sysfs."""

import re

from sriov_rt.host.root import Root
from sriov_rt.host.vfs import DEVICES
from sriov_rt.nic import errors
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.quick import Quick

#: IFF_UP, IFF_PROMISC and IFF_ALLMULTI of include/uapi/linux/if.h.
UP, PROMISC, ALLMULTI = 0x1, 0x100, 0x200

_FLAGS = re.compile(r"0x[0-9a-f]{1,8}")
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


class Devices:
    """Reads VFs.

    :param root: where sysfs is.
    """

    def __init__(self, root: Root) -> None:
        self._quick = Quick(root)

    def read(self, vf: VfId) -> VfDevice:
        """Return the PCI device of a VF and its interface.

        ``promisc`` and ``allmulti`` are on here, too, if only something on
        top of the interface needs it.

        :raises NoSuchDevice: if it is gone.
        """
        device = f"{DEVICES}/{vf.address}"
        if self._quick.text(f"{device}/vendor") is None:
            raise errors.NoSuchDevice(f"{vf}", None, "the VF has gone")
        listed = self._quick.names(f"{device}/net")
        netdev = listed[0] if listed else None
        bare = VfDevice(
            driver=self._quick.link(f"{device}/driver"),
            netdev=netdev,
            # The directory stays when the interface has moved.
            elsewhere=listed is not None and not listed,
            iommu_group=_number(self._quick.link(f"{device}/iommu_group")),
            # -1 where the platform has none.
            numa_node=_number(self._quick.text(f"{device}/numa_node")),
        )
        return bare if netdev is None else self._whole(device, bare)

    def _whole(self, device: str, bare: VfDevice) -> VfDevice:
        """Return the device with what its interface says."""
        inner = f"{device}/net/{bare.netdev}"
        flags = _matching(_FLAGS, self._quick.text(f"{inner}/flags"))
        bits = None if flags is None else int(flags, 16)
        return VfDevice(
            driver=bare.driver,
            netdev=bare.netdev,
            alias=self._quick.text(f"{inner}/ifalias") or "",
            iommu_group=bare.iommu_group,
            numa_node=bare.numa_node,
            mac=_matching(_MAC, self._quick.text(f"{inner}/address")),
            address_type=_number(
                self._quick.text(f"{inner}/addr_assign_type")
            ),
            mtu=_number(self._quick.text(f"{inner}/mtu")),
            promisc=None if bits is None else bool(bits & PROMISC),
            allmulti=None if bits is None else bool(bits & ALLMULTI),
            up=None if bits is None else bool(bits & UP),
            uppers=tuple(
                name.removeprefix("upper_")
                for name in self._quick.names(inner) or ()
                if name.startswith("upper_")
            ),
        )


def _matching(pattern: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and pattern.fullmatch(text) else None


def _number(text: str | None) -> int | None:
    found = _matching(_NUMBER, text)
    return None if found is None else int(found)
