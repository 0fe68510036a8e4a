# SPDX-License-Identifier: Apache-2.0

"""VFs as their PF reports them: IFLA_VFINFO_LIST (linux/if_link.h)."""

import dataclasses
import enum
import types
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

#: Value that a driver leaves if it does not report spoofchk, trust or
#: rss_query: -1 (rtnl_fill_vfinfo in net/core/rtnetlink.c).
UNREPORTED = 0xFFFFFFFF


class LinkState(enum.StrEnum):
    """IFLA_VF_LINK_STATE (include/uapi/linux/if_link.h)."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


class VlanProtocol(enum.StrEnum):
    """The tag of a VF's VLAN: IFLA_VF_VLAN_INFO's vlan_proto."""

    Q = "802.1q"
    AD = "802.1ad"


@dataclasses.dataclass(frozen=True, slots=True)
class VfSettings:
    """Attributes of a VF; None leaves one alone, or could not be read.

    The first are set through the PF (``ip link set PF vf N …``); those from
    ``mtu`` on belong to the VF's own interface or PCI device.

    :param mac: administrative MAC, lower case; zeros for none.
    :param vlan: 0 to 4094; 0 for none.
    :param qos: priority of the VLAN, 0 to 7.
    :param min_tx_rate: Mbit/s, 0 for none.
    :param max_tx_rate: Mbit/s, 0 for none.
    :param query_rss: whether the VF may read its RSS configuration.
    :param mtu: bytes.
    :param promisc: whether the VF's interface was set promiscuous.
    :param driver: name of the PCI driver to bind.
    """

    mac: str | None = None
    vlan: int | None = None
    qos: int | None = None
    vlan_protocol: VlanProtocol | None = None
    spoofchk: bool | None = None
    trust: bool | None = None
    link_state: LinkState | None = None
    min_tx_rate: int | None = None
    max_tx_rate: int | None = None
    query_rss: bool | None = None
    mtu: int | None = None
    promisc: bool | None = None
    allmulti: bool | None = None
    driver: str | None = None


def changed(
    now: VfSettings, desired: VfSettings
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and desired value of attributes that differ.

    Attributes that are not desired or not reported cannot be compared.
    """
    for field in dataclasses.fields(VfSettings):
        is_, to_be = getattr(now, field.name), getattr(desired, field.name)
        if None not in (is_, to_be) and is_ != to_be:
            yield field.name, is_, to_be


def differing(now: VfSettings, desired: VfSettings) -> VfSettings:
    """Return the desired attributes that differ; see :func:`changed`."""
    return VfSettings(
        **{name: to_be for name, _, to_be in changed(now, desired)}
    )


#: ETH_P_8021Q and ETH_P_8021AD (linux/if_ether.h).
_PROTOCOLS = types.MappingProxyType(
    {VlanProtocol.Q: 0x8100, VlanProtocol.AD: 0x88A8}
)
_LINK_STATES = (LinkState.AUTO, LinkState.ENABLE, LinkState.DISABLE)

#: A netlink attribute in pyroute2: its name and its value.
Pair = tuple[str, Any]


def encode(index: int, settings: VfSettings) -> Iterator[Pair]:
    """Yield the attributes that set a VF.

    :param index: number of the VF on its PF.
    """
    if settings.mac is not None:
        yield "IFLA_VF_MAC", {"vf": index, "mac": settings.mac}
    if settings.vlan is not None:
        yield _vlan(index, settings)
    if settings.max_tx_rate is not None or settings.min_tx_rate is not None:
        rates = {
            "min_tx_rate": settings.min_tx_rate or 0,
            "max_tx_rate": settings.max_tx_rate or 0,
        }
        yield "IFLA_VF_RATE", {"vf": index, **rates}
    if settings.spoofchk is not None:
        on = int(settings.spoofchk)
        yield "IFLA_VF_SPOOFCHK", {"vf": index, "spoofchk": on}
    if settings.link_state is not None:
        state = _LINK_STATES.index(settings.link_state)
        yield "IFLA_VF_LINK_STATE", {"vf": index, "link_state": state}
    if settings.query_rss is not None:
        on = int(settings.query_rss)
        yield "IFLA_VF_RSS_QUERY_EN", {"vf": index, "rss_query_en": on}
    if settings.trust is not None:
        on = int(settings.trust)
        yield "IFLA_VF_TRUST", {"vf": index, "trust": on}


def _vlan(index: int, settings: VfSettings) -> Pair:
    """Return IFLA_VF_VLAN, or the newer list if the tag is 802.1ad.

    Older drivers accept only the first.
    """
    plain = {"vf": index, "vlan": settings.vlan, "qos": settings.qos or 0}
    if settings.vlan_protocol is not VlanProtocol.AD:
        return "IFLA_VF_VLAN", plain
    info = {**plain, "proto": _PROTOCOLS[VlanProtocol.AD]}
    return "IFLA_VF_VLAN_LIST", {"attrs": [("IFLA_VF_VLAN_INFO", info)]}


def decode(link: Any) -> Mapping[int, VfSettings]:
    """Return the VFs of a link.

    :param link: message of pyroute2.
    """
    found = {}
    listed = link.get_attr("IFLA_VFINFO_LIST")
    for info in () if listed is None else listed.get_attrs("IFLA_VF_INFO"):
        mac = info.get_attr("IFLA_VF_MAC")
        if mac is not None:
            found[mac["vf"]] = _settings(mac["mac"], info)
    return found


def counters(link: Any) -> Mapping[int, Mapping[str, int]]:
    """Return a PF's counters of each VF, IFLA_VF_STATS by their names.

    A driver without ndo_get_vf_stats leaves zeros (rtnl_fill_vfinfo in
    net/core/rtnetlink.c).

    :param link: message of pyroute2.
    """
    found = {}
    listed = link.get_attr("IFLA_VFINFO_LIST")
    for info in () if listed is None else listed.get_attrs("IFLA_VF_INFO"):
        mac = info.get_attr("IFLA_VF_MAC")
        stats = info.get_attr("IFLA_VF_STATS")
        if mac is not None and stats is not None:
            found[mac["vf"]] = {
                name.removeprefix("IFLA_VF_STATS_").lower(): int(value)
                for name, value in stats["attrs"]
            }
    return found


def _settings(mac: str, info: Any) -> VfSettings:
    state = _value(info, "LINK_STATE")
    return VfSettings(
        mac=mac,
        vlan=_value(info, "VLAN"),
        qos=_value(info, "VLAN", "qos"),
        vlan_protocol=_protocol(info),
        spoofchk=_switch(info, "SPOOFCHK"),
        trust=_switch(info, "TRUST"),
        link_state=(
            _LINK_STATES[state]
            if state is not None and state < len(_LINK_STATES)
            else None
        ),
        min_tx_rate=_value(info, "RATE", "min_tx_rate"),
        max_tx_rate=_value(info, "RATE", "max_tx_rate"),
        query_rss=_switch(info, "RSS_QUERY_EN"),
    )


def _value(info: Any, name: str, field: str = "") -> int | None:
    """Return a number of an attribute; None if the driver does not report it.

    :param field: name of the number; empty for the attribute's own name.
    """
    found = info.get_attr(f"IFLA_VF_{name}")
    return None if found is None else int(found[field or name.lower()])


def _switch(info: Any, name: str) -> bool | None:
    value = _value(info, name)
    return None if value in (None, UNREPORTED) else bool(value)


def _protocol(info: Any) -> VlanProtocol | None:
    listed = info.get_attr("IFLA_VF_VLAN_LIST")
    for each in (
        () if listed is None else listed.get_attrs("IFLA_VF_VLAN_INFO")
    ):
        for protocol, number in _PROTOCOLS.items():
            if each["proto"] == number:
                return protocol
    return None
