# SPDX-License-Identifier: Apache-2.0

"""Ports of an instance that moves to this host, as Neutron will bind them.

Nova claims a host before the instance's ports are bound to it. At that time
it knows their binding on the source host only, where another driver may have
bound them. So the mechanism driver's own rule is applied here.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from nova import context
from nova.network import neutron

from sriov_rt.nova import ports
from sriov_rt.request.words import Vif
from sriov_rt.request.words import VifKind
from sriov_rt.vif import details
from sriov_rt.vif import host_offer
from sriov_rt.vif.host_offer import Offer

#: The default kind ([ml2_sriov_rt] vif), for a port bound by another driver.
_DEFAULT = Vif(VifKind.MACVLAN, "bridge")


def candidates(
    vifs: Iterable[Mapping[str, Any]],
    networks: Callable[[], Collection[str] | None],
) -> list[Mapping[str, Any]]:
    """Return the ports that our driver may bind here, as far as Nova knows.

    :param networks: returns the physical networks of this host's parents;
        None if unknown: then only ports that are ours already are returned.
    """
    found = [
        each
        for each in vifs
        if each["vnic_type"] == host_offer.NORMAL and _physical_network(each)
    ]
    known = networks() if found else ()
    if known is None:
        return [each for each in found if ports.is_ours(each)]
    return [each for each in found if _physical_network(each) in known]


def _physical_network(vif: Mapping[str, Any]) -> str | None:
    """Return the physical network that a port is on; None for a tunnel."""
    if ports.is_ours(vif):
        found: str | None = (vif["details"] or {}).get(
            details.PHYSICAL_NETWORK
        )
        return found
    network = vif["network"]
    return None if network is None else network.get_meta("physical_network")


def bound(vif: Mapping[str, Any], offer: Offer) -> Mapping[str, Any] | None:
    """Return a port as Neutron will bind it to this host.

    :param vif: the port as it is bound on the source host.
    :returns: None if another driver will bind it.
    :raises ParseError: if a binding of ours is invalid.
    :raises NovaException: or another error of Neutron's, if the port is
        unknown.
    """
    how = details.parse(vif["details"]).vif if ports.is_ours(vif) else _DEFAULT
    admin, api = context.get_admin_context(), neutron.API()
    port = api.show_port(admin, vif["id"])["port"]
    network = api.get(admin, port["network_id"])
    found = offer.carried(port, network, how.kind)
    if found is None:
        return None
    return {
        **vif,
        "type": details.VIF_TYPE,
        "details": {
            details.KIND: how.kind.value,
            details.MODE: how.mode,
            details.PHYSICAL_NETWORK: found[0],
            details.VLAN: found[1],
        },
    }
