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

"""VFs and their interfaces over rtnetlink."""

import contextlib
import errno
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import pyroute2

from sriov_rt import rtnetlink
from sriov_rt.nic import errors
from sriov_rt.nic import vfinfo
from sriov_rt.nic.model import VfSettings

#: IFF_PROMISC and IFF_ALLMULTI of include/uapi/linux/if.h.
PROMISC, ALLMULTI = 0x100, 0x200


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
        mask = flags = 0
        for bit, on in (
            (PROMISC, settings.promisc),
            (ALLMULTI, settings.allmulti),
        ):
            if on is not None:
                mask |= bit
                flags |= bit if on else 0
        mtu = {} if settings.mtu is None else {"mtu": settings.mtu}
        self._set(netdev, flags=flags, change=mask, **mtu)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._set(netdev, ifname=name)

    def flags(self, netdev: str) -> tuple[bool, bool]:
        """Return whether promisc and allmulti were set by somebody.

        sysfs shows them also while something on top needs them.
        """
        bits = _get(netdev)["flags"]
        return bool(bits & PROMISC), bool(bits & ALLMULTI)

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
        """Tell whether a macvlan, ipvlan, bridge or bond has an interface.

        In whatever namespace it is; see :func:`rtnetlink.is_idle`.
        """
        with _named(netdev):
            return rtnetlink.is_idle(netdev) is False

    def addressed(self, netdev: str) -> bool:
        """Tell whether an interface has an IP address."""
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
