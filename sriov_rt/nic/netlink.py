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

"""VFs over rtnetlink: IFLA_VFINFO_LIST, read and written."""

import errno
import os
import socket
import threading
import types
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import pyroute2
from pyroute2.netlink import exceptions

from sriov_rt.nic import errors
from sriov_rt.nic.settings import LinkState
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.settings import VlanProtocol

#: RTEXT_FILTER_VF and RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h). Without
#: the counters a VF takes 200 bytes and not 320.
VFS_ONLY = 1 | 8

#: Bytes: 256 VFs in one message; pyroute2's own 16 KiB end at 75.
RECEIVE = 128 * 1024

#: What a driver that does not report spoofchk, trust or rss_query leaves
#: there: -1 (rtnl_fill_vfinfo in net/core/rtnetlink.c).
UNREPORTED = 0xFFFFFFFF

#: IFF_PROMISC and IFF_ALLMULTI of include/uapi/linux/if.h.
PROMISC, ALLMULTI = 0x100, 0x200

#: ETH_P_8021Q and ETH_P_8021AD (linux/if_ether.h).
_PROTOCOLS = types.MappingProxyType(
    {VlanProtocol.Q: 0x8100, VlanProtocol.AD: 0x88A8}
)
_LINK_STATES = (LinkState.AUTO, LinkState.ENABLE, LinkState.DISABLE)


class Rtnetlink:
    """One socket, opened at its first use; threads wait for each other."""

    def __init__(self) -> None:
        self._socket: pyroute2.IPRoute | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the socket; the next use opens another."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def read(self, pf: str) -> Mapping[int, VfSettings]:
        """Return what the PF says of all its VFs, by one request.

        :raises NicError: as the kernel's errno says.
        """
        answer = self._ask(
            pf,
            lambda ip: ip.link("get", index=_index(pf), ext_mask=VFS_ONLY),
        )
        return decode(answer[0])

    def write(self, pf: str, changes: Mapping[int, VfSettings]) -> None:
        """Set what is not None through the PF, by one request.

        :param changes: index of a VF to what to set.
        :raises NicError: as the kernel's errno says.
        """
        device = f"{pf}/{min(changes)}" if len(changes) == 1 else pf
        specs = [encode(index, each) for index, each in changes.items()]
        self._ask(
            device,
            lambda ip: ip.link("set", index=_index(pf), vf=specs),
        )

    def set_netdev(self, netdev: str, settings: VfSettings) -> None:
        """Set mtu, promisc and allmulti of an interface if not None."""
        wanted: dict[str, Any] = {}
        if settings.mtu is not None:
            wanted["mtu"] = settings.mtu
        mask = flags = 0
        for bit, on in (
            (PROMISC, settings.promisc),
            (ALLMULTI, settings.allmulti),
        ):
            if on is not None:
                mask |= bit
                flags |= bit if on else 0
        if mask:
            wanted.update(flags=flags, change=mask)
        self._ask(
            netdev,
            lambda ip: ip.link("set", index=_index(netdev), **wanted),
        )

    def rename(self, netdev: str, name: str) -> None:
        """Give an interface another name."""
        self._ask(
            netdev,
            lambda ip: ip.link("set", index=_index(netdev), ifname=name),
        )

    def flags(self, netdev: str) -> tuple[bool, bool]:
        """Return whether promisc and allmulti were set by somebody.

        sysfs shows them also while something on top needs them.
        """
        answer = self._ask(
            netdev, lambda ip: ip.link("get", index=_index(netdev))
        )
        bits = answer[0]["flags"]
        return bool(bits & PROMISC), bool(bits & ALLMULTI)

    def _ask(self, device: str, request: Callable[[Any], Any]) -> Any:
        with self._lock:
            try:
                if self._socket is None:
                    self._socket = pyroute2.IPRoute(rcvsize=RECEIVE)
                return list(request(self._socket) or ())
            except exceptions.NetlinkError as error:
                raise errors.from_errno(error.code, device) from error
            except OSError as error:
                code = error.errno or errno.EIO
                raise errors.from_errno(code, device) from error


def encode(index: int, settings: VfSettings) -> dict[str, Any]:
    """Return what pyroute2 takes as ``vf`` to set one; it empties it.

    :param index: the VF's number on its PF.
    """
    spec: dict[str, Any] = {"vf": index}
    if settings.mac is not None:
        spec["mac"] = settings.mac
    if settings.vlan is not None:
        spec["vlan"] = _vlan(settings)
    if settings.max_tx_rate is not None or settings.min_tx_rate is not None:
        spec["rate"] = {
            "min_tx_rate": settings.min_tx_rate or 0,
            "max_tx_rate": settings.max_tx_rate or 0,
        }
    if settings.spoofchk is not None:
        spec["spoofchk"] = int(settings.spoofchk)
    if settings.link_state is not None:
        spec["link_state"] = _LINK_STATES.index(settings.link_state)
    if settings.query_rss is not None:
        spec["rss_query_en"] = int(settings.query_rss)
    if settings.trust is not None:
        spec["trust"] = int(settings.trust)
    return spec


def _vlan(settings: VfSettings) -> dict[str, Any] | list[dict[str, Any]]:
    """Return IFLA_VF_VLAN, or the newer list where the tag is 802.1ad.

    Older drivers take the first alone.
    """
    plain = {"vlan": settings.vlan, "qos": settings.qos or 0}
    if settings.vlan_protocol is not VlanProtocol.AD:
        return plain
    return [{**plain, "proto": _PROTOCOLS[VlanProtocol.AD]}]


def decode(link: Any) -> Mapping[int, VfSettings]:
    """Return the VFs of an RTM_NEWLINK message.

    What is not as the kernel's header says is left out.
    """
    listed = link.get_attr("IFLA_VFINFO_LIST")
    if listed is None:
        return {}
    found = {}
    for info in listed.get_attrs("IFLA_VF_INFO"):
        named = dict(info["attrs"])
        mac = named.get("IFLA_VF_MAC")
        if mac is not None:
            found[int(mac["vf"])] = _settings(named)
    return found


def _settings(named: Mapping[str, Any]) -> VfSettings:
    vlan = named.get("IFLA_VF_VLAN", {})
    rate = named.get("IFLA_VF_RATE", {})
    state = named.get("IFLA_VF_LINK_STATE", {}).get("link_state")
    return VfSettings(
        mac=named["IFLA_VF_MAC"]["mac"].lower(),
        vlan=vlan.get("vlan"),
        qos=vlan.get("qos"),
        vlan_protocol=_protocol(named),
        spoofchk=_switch(named, "IFLA_VF_SPOOFCHK", "spoofchk"),
        trust=_switch(named, "IFLA_VF_TRUST", "trust"),
        link_state=(
            _LINK_STATES[state]
            if state is not None and state < len(_LINK_STATES)
            else None
        ),
        min_tx_rate=rate.get("min_tx_rate"),
        max_tx_rate=rate.get("max_tx_rate"),
        query_rss=_switch(named, "IFLA_VF_RSS_QUERY_EN", "rss_query_en"),
    )


def _protocol(named: Mapping[str, Any]) -> VlanProtocol | None:
    listed = named.get("IFLA_VF_VLAN_LIST")
    if listed is None:
        return None
    for _, info in listed["attrs"]:
        for protocol, number in _PROTOCOLS.items():
            if info["proto"] == number:
                return protocol
    return None


def _switch(named: Mapping[str, Any], name: str, field: str) -> bool | None:
    value = named.get(name, {}).get(field, UNREPORTED)
    return None if value == UNREPORTED else bool(value)


def _index(interface: str) -> int:
    """Return the index of an interface.

    :raises OSError: ENODEV if there is none; the C library gives no errno.
    """
    try:
        return socket.if_nametoindex(interface)
    except OSError as error:
        code = error.errno or errno.ENODEV
        raise OSError(code, os.strerror(code)) from error
