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

import errno
import itertools
import os
import socket
import struct
from collections.abc import Mapping

from pyroute2.netlink import NLM_F_ACK
from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_GETLINK
from pyroute2.netlink.rtnl import RTM_SETLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from sriov_rt.nic import channel
from sriov_rt.nic import errors
from sriov_rt.nic import vfinfo
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.vfinfo import Pair

#: RTEXT_FILTER_VF and RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h). Without
#: the counters a VF takes 200 bytes and not 320.
VFS_ONLY = 1 | 8

# ifi_flags of struct ifinfomsg, behind struct nlmsghdr (linux/rtnetlink.h).
_IFI_FLAGS = struct.Struct("=I")
_FLAGS_AT = 16 + 8

#: IFF_PROMISC and IFF_ALLMULTI of include/uapi/linux/if.h.
PROMISC, ALLMULTI = 0x100, 0x200


class Rtnetlink:
    """Requests on links of the caller's network namespace."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return what the PF says of all its VFs, by one request.

        :raises NicError: as the kernel's errno says.
        """
        mask = ("IFLA_EXT_MASK", VFS_ONLY)
        return vfinfo.decode(self._get(pf, [mask]))

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set what is not None through the PF, by one request.

        :param changes: index of a VF to what to set.
        :raises NicError: as the kernel's errno says.
        """
        infos = [
            ("IFLA_VF_INFO", {"attrs": list(vfinfo.encode(index, each))})
            for index, each in changes.items()
        ]
        listed = ("IFLA_VFINFO_LIST", {"attrs": infos})
        device = f"{pf}/{min(changes)}" if len(changes) == 1 else pf
        self._set(pf, [listed], device=device)

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""
        attributes = []
        if settings.mtu is not None:
            attributes.append(("IFLA_MTU", settings.mtu))
        mask = flags = 0
        for bit, on in (
            (PROMISC, settings.promisc),
            (ALLMULTI, settings.allmulti),
        ):
            if on is not None:
                mask |= bit
                flags |= bit if on else 0
        self._set(netdev, attributes, flags=flags, change=mask)

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._set(netdev, [("IFLA_IFNAME", name)])

    def flags(self, netdev: str) -> tuple[bool, bool]:
        """Return whether promisc and allmulti were set by somebody.

        sysfs shows them also while something on top needs them.
        """
        (bits,) = _IFI_FLAGS.unpack_from(self._get(netdev, []), _FLAGS_AT)
        return bool(bits & PROMISC), bool(bits & ALLMULTI)

    def _get(self, interface: str, attributes: list[Pair]) -> bytes:
        answers = self._ask(RTM_GETLINK, interface, interface, attributes)
        if not answers or len(answers[0]) < vfinfo.LINK_HEADER:
            raise errors.BadState(interface, None, "the kernel says nothing")
        return answers[0]

    def _set(
        self,
        interface: str,
        attributes: list[Pair],
        *,
        device: str | None = None,
        **fields: int,
    ) -> None:
        about = device or interface
        self._ask(RTM_SETLINK, interface, about, attributes, **fields)

    def _ask(
        self,
        kind: int,
        interface: str,
        device: str,
        attributes: list[Pair],
        **fields: int,
    ) -> list[bytes]:
        message = ifinfmsg()
        message["header"]["type"] = kind
        message["header"]["flags"] = NLM_F_REQUEST | NLM_F_ACK
        message["header"]["sequence_number"] = next(self._numbers)
        message["attrs"] = attributes
        try:
            message["index"] = _index(interface)
            for name, value in fields.items():
                message[name] = value
            message.encode()
            return channel.ask(vfinfo.widened(bytes(message.data)))
        except OSError as error:
            code = error.errno or errno.EIO
            raise errors.from_errno(
                code, device, words=error.strerror
            ) from error


def _index(interface: str) -> int:
    """Return the index of an interface.

    :raises OSError: ENODEV if there is none; the C library gives no errno.
    """
    try:
        return socket.if_nametoindex(interface)
    except OSError as error:
        code = error.errno or errno.ENODEV
        raise OSError(code, os.strerror(code)) from error
