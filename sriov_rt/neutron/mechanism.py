# SPDX-License-Identifier: Apache-2.0

"""The ML2 mechanism driver, ``mechanism_drivers = …,sriov_rt``."""

from collections.abc import Mapping
from typing import Any

from neutron.plugins.ml2.drivers import mech_agent
from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg
from oslo_log import log as logging

from sriov_rt.neutron import options
from sriov_rt.request.words import Vif
from sriov_rt.vif import details
from sriov_rt.vif import host_offer

LOG = logging.getLogger(__name__)

#: The VLAN of an untagged network.
UNTAGGED = 0


class SriovRtMechanismDriver(
    mech_agent.SimpleAgentMechanismDriverBase  # type: ignore[misc]
):
    """Bind ports on hosts whose agent has parents for them.

    Only ports of VNIC type normal are bound: Nova claims direct and macvtap
    ports as PCI devices, which sriovnicswitch binds.
    """

    # This driver reports no bandwidth to Placement.
    resource_provider_uuid5_namespace = None

    def __init__(self) -> None:
        options.register_ml2(cfg.CONF)
        self._networks: Mapping[str, Vif] = options.networks(cfg.CONF)
        super().__init__(
            options.AGENT_TYPE,
            details.VIF_TYPE,
            # Packets bypass the host's firewall.
            {portbindings.CAP_PORT_FILTER: False},
            supported_vnic_types=[portbindings.VNIC_NORMAL],
        )

    def initialize(self) -> None:
        """Log the served networks; Neutron calls it once at the start."""
        if not self._networks:
            LOG.warning(
                "[%s] physical_networks is empty: no port will be bound by "
                "sriov_rt. Name the networks there, or take sriov_rt out of "
                "[ml2] mechanism_drivers",
                options.ML2_GROUP,
            )
        for name, vif in self._networks.items():
            LOG.info("physical_network=%s is served by %s", name, _text(vif))

    @property
    def connectivity(self) -> str:
        """Connectivity of the ports: layer 2."""
        layer: str = portbindings.CONNECTIVITY_L2
        return layer

    def get_allowed_network_types(self, agent: Any = None) -> tuple[str, ...]:
        """Return the types of network whose ports are bound."""
        return (constants.TYPE_FLAT, constants.TYPE_VLAN)

    def bind_port(self, context: Any) -> None:
        """Bind a port if it is ours; otherwise leave it to the next driver.

        :param context: context of the port.
        """
        why = host_offer.refusal(context.current)
        if why is None:
            super().bind_port(context)
            return
        # Warn only about a server's port on a host that we serve.
        owner = context.current.get("device_owner") or ""
        is_servers = owner.startswith(host_offer.SERVERS)
        LOG.log(
            logging.WARNING
            if is_servers and self._is_carried(context)
            else logging.DEBUG,
            "port=%s host=%s is not bound by sriov_rt: %s",
            context.current["id"],
            context.host,
            why,
        )

    def get_mappings(self, agent: Mapping[str, Any]) -> dict[str, int]:
        """Return the physical networks that a host serves.

        :param agent: the agent's record in Neutron's database.
        """
        parents = _offer(agent).parents
        return {
            name: parents[name] for name in self._networks if name in parents
        }

    def check_segment_for_agent(
        self, segment: Mapping[str, Any], agent: Mapping[str, Any]
    ) -> bool:
        """Return whether a host carries ports of a segment."""
        if not super().check_segment_for_agent(segment, agent):
            return False
        network = segment[api.PHYSICAL_NETWORK]
        kind = self._networks[network].kind
        return _offer(agent).carries(network, kind, _vlan(segment))

    def get_vif_details(
        self,
        context: Any,
        agent: Mapping[str, Any],
        segment: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the details that nova-compute on the host needs."""
        network = segment[api.PHYSICAL_NETWORK]
        vif = self._networks[network]
        return {
            **self.vif_details,
            details.KIND: vif.kind.value,
            details.MODE: vif.mode,
            details.PHYSICAL_NETWORK: network,
            details.VLAN: _vlan(segment),
        }

    def _insert_provisioning_block(self, context: Any) -> None:
        # Block only our own ports. Another driver's ports of VNIC type normal
        # on the same host may have no agent to wait for.
        if host_offer.refusal(context.current) is None and self._is_carried(
            context
        ):
            super()._insert_provisioning_block(context)

    def _is_carried(self, context: Any) -> bool:
        """Return whether a port's host carries ports of its network."""
        return any(
            self.check_segment_for_agent(segment, agent)
            for agent in context.host_agents(self.agent_type)
            for segment in context.network.network_segments
        )


def _offer(agent: Mapping[str, Any]) -> host_offer.Offer:
    return host_offer.Offer.from_configurations(agent.get("configurations"))


def _vlan(segment: Mapping[str, Any]) -> int:
    if segment[api.NETWORK_TYPE] == constants.TYPE_FLAT:
        return UNTAGGED
    return int(segment[api.SEGMENTATION_ID])


def _text(vif: Vif) -> str:
    return vif.kind if vif.mode is None else f"{vif.kind}:{vif.mode}"
