# SPDX-License-Identifier: Apache-2.0

"""Settings of a VF that a port of the stock SR-IOV agent claims."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.parse import errors
from sriov_rt.parse import link
from sriov_rt.parse import numbers
from sriov_rt.parse import pci

#: Words that oslo.utils' bool_from_string takes for true, as in Nova
#: (nova/virt/libvirt/vif.py: set_vf_trusted's caller).
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})

_PORT = re.compile(r"[0-9A-Za-z-]{1,64}", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Claim of a port on a VF.

    :param slot: PCI address of the VF.
    :param desired: settings of the VF while the port has it. Those that Nova,
        libvirt and the stock agent have just set themselves are None: the MAC
        (by which the agent identifies the VF), spoofchk, the link's state,
        and the rates of a port with a QoS policy.
    """

    port: str
    slot: str
    desired: VfSettings


def read(details: Mapping[str, Any]) -> Claim | None:
    """Return the claim of a port; None if it has no VF.

    :param details: details of the port that neutron-server sent the agent.
    :raises ParseError: if they are malformed.
    """
    slot = _slot(details)
    if slot is None:
        return None
    return Claim(
        port=port(details.get("port_id")),
        slot=slot,
        desired=_settings(details),
    )


def read_unbound(details: Mapping[str, Any]) -> Claim | None:
    """Return the claim of a port that has left; None if it had no VF.

    :param details: port_id and profile of the port, from the agent.
    :raises ParseError: if they are malformed.
    """
    slot = _slot(details)
    if slot is None:
        return None
    return Claim(
        port=port(details.get("port_id")),
        slot=slot,
        desired=VfSettings(),
    )


#: The only settings of its VF that a port may choose: the others belong to
#: the VF's owner or the baseline.
SETTABLE = frozenset(
    {
        *("vlan", "qos", "vlan_protocol", "trust"),
        *("min_tx_rate", "max_tx_rate", "query_rss"),
    }
)


def _settings(details: Mapping[str, Any]) -> VfSettings:
    limited = bool(
        details.get("qos_policy_id") or details.get("network_qos_policy_id")
    )
    rate = None if limited else 0
    return VfSettings(
        vlan=_vlan(details),
        qos=0,
        vlan_protocol=VlanProtocol.Q,
        trust=_trusted(details),
        min_tx_rate=rate,
        max_tx_rate=rate,
        query_rss=False,
    )


def _slot(details: Mapping[str, Any]) -> str | None:
    profile = details.get("profile")
    slot = profile.get("pci_slot") if isinstance(profile, Mapping) else None
    if slot is None:
        return None
    return str(pci.PciAddress.parse(_text(slot, "PCI address")))


def port(value: Any) -> str:
    """Return a port's UUID.

    :raises ParseError: if it is not a UUID.
    """
    text = _text(value, "port")
    if not _PORT.fullmatch(text):
        raise errors.ParseError("port", text, "a UUID expected")
    return text


def _vlan(details: Mapping[str, Any]) -> int:
    if details.get("network_type") != "vlan":
        return 0
    segment = details.get("segmentation_id")
    return numbers.parse_int(str(segment)[:80], "VLAN", 1, link.MAX_VLAN)


def _trusted(details: Mapping[str, Any]) -> bool:
    # In the profile, where Neutron's own extension port_trusted puts it too
    # (neutron/db/port_trusted_db.py).
    trusted = details["profile"].get("trusted")
    return str(trusted)[:80].strip().lower() in _TRUE


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise errors.ParseError(what, str(value)[:80], "a text expected")
    errors.check_length(what, value, errors.MAX_TEXT)
    return value
