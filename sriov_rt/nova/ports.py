# SPDX-License-Identifier: Apache-2.0

"""Conversion of Nova's ports to the VIFs of our os-vif plugin."""

import pathlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from os_vif.objects import network as networks
from os_vif.objects import vif as vifs

from sriov_rt import exceptions
from sriov_rt import request as requests
from sriov_rt.parse import numbers
from sriov_rt.request.words import VifKind
from sriov_rt.vif import details
from sriov_rt.vif import os_vif_plugin
from sriov_rt.vif import validation
from sriov_rt.vif.model import KINDS

#: Where the kernel lists the interfaces of the host.
_INTERFACES = "/sys/class/net"

#: The remedy for a kind that the virt_type does not support.
_INSTEAD: Mapping[VifKind, str] = MappingProxyType(
    {
        VifKind.VF: "make the port with --vnic-type direct, which gives a "
        "virtual machine the VF itself",
        VifKind.IPVLAN: "set sriov_rt:vif=macvlan on the flavor",
        VifKind.MACVLAN: "use hosts with virt_type kvm, qemu or lxc",
    }
)

#: Rates are KiB/s in libvirt and therefore in Nova (``<bandwidth>`` in
#: libvirt's formatdomain), kbit/s in tc.
_BITS, _KILO = 8 * 1024, 1000
_MAX_KIB = validation.MAX_KBPS * _KILO // _BITS


class PortRefused(exceptions.SriovRtError):
    """A guest of this kind can't have the port as requested.

    :param port: its UUID.
    :param problem: why, a clause.
    :param instead: what the operator can do.
    """

    def __init__(self, port: str, problem: str, instead: str) -> None:
        super().__init__(port, problem, instead)
        self.port = port
        self.problem = problem
        self.instead = instead

    def __str__(self) -> str:
        return f"port={self.port} {self.problem}; {self.instead}"


def is_ours(vif: Mapping[str, Any]) -> bool:
    """Return whether a port was bound by our mechanism driver."""
    return bool(vif["type"] == details.VIF_TYPE)


def device(vif: Mapping[str, Any]) -> str:
    """Return the name of a port's interface.

    Nova writes the domain before it plugs the port, so the name must be known
    beforehand.
    """
    return validation.default(vif["id"])


def has_interface(vif: Mapping[str, Any]) -> bool:
    """Return whether this host has an interface that we made for a port.

    Its name comes from the port's UUID. No port of another driver has such an
    interface, nor has a port of ours once its container has taken it.
    """
    return pathlib.Path(_INTERFACES, device(vif)).exists()


def gone(vif: Mapping[str, Any]) -> vifs.VIFGeneric:
    """Return what os-vif needs to unplug a port, whatever its binding is."""
    return vifs.VIFGeneric(
        id=vif["id"], plugin=os_vif_plugin.NAME, vif_name=device(vif)
    )


def to_plug(
    vif: Mapping[str, Any],
    specs: Mapping[str, str],
    virt_type: str,
    numa_node: int | None = None,
) -> vifs.VIFGeneric:
    """Return what os-vif needs to plug a port.

    ``sriov_rt:vif`` of the flavor overrides the network's default: only
    administrators set it.

    :param vif: Nova's VIF, bound by our mechanism driver.
    :param specs: extra specs of the flavor.
    :param virt_type: as in nova.conf.
    :param numa_node: the host's NUMA node that the instance is on.
    :raises PortRefused: if such a guest can't have such a port.
    :raises ParseError: if a binding, rate or extra spec is invalid.
    """
    found = details.parse(vif["details"] or {})
    request = requests.parse(specs) if requests.asks(specs) else None
    how = (request and request.vif) or found.vif
    kind = KINDS.get(virt_type, {}).get(how.kind)
    if kind is None:
        raise PortRefused(
            vif["id"],
            f"is {how.kind}, which no guest of virt_type {virt_type} can have",
            _INSTEAD[how.kind],
        )
    made = gone(vif)
    made.address = vif["address"]
    if mtu := mtu_of(vif):
        made.network = networks.Network(id=vif["network"]["id"], mtu=mtu)
    # In a virtual machine Onload would have to run in the guest, which none
    # of these ports supports.
    onload = bool(request and request.onload and virt_type == "lxc")
    made.port_profile = os_vif_plugin.VIFPortProfileSriovRt(
        kind=kind,
        mode=how.mode,
        physical_network=found.physical_network,
        vlan=found.vlan,
        out_kbps=_rate(specs, "quota:vif_outbound_average"),
        in_kbps=_rate(specs, "quota:vif_inbound_average"),
        numa_node=numa_node,
        network=vif["network"]["id"] if onload and vif["network"] else None,
        onload=onload,
    )
    return made


def mtu_of(vif: Mapping[str, Any]) -> int | None:
    """Return the MTU of a port's network in bytes, None if it has none."""
    network = vif["network"]
    found: int | None = None if network is None else network.get_meta("mtu")
    return found


def _rate(specs: Mapping[str, str], key: str) -> int | None:
    text = specs.get(key)
    if text is None:
        return None
    return numbers.parse_int(text, key, 0, _MAX_KIB) * _BITS // _KILO or None
