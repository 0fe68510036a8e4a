# SPDX-License-Identifier: Apache-2.0

"""A Neutron server in this process, with our driver and a database."""

from typing import Any
from typing import ClassVar

from neutron.db import provisioning_blocks
from neutron.tests.common import helpers
from neutron.tests.unit.plugins.ml2 import test_plugin
from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import resources
from oslo_config import cfg

from sriov_rt.neutron import options

ML2 = options.ML2_GROUP

INSTANCE = "c4f5d2f0-9f6a-4a2e-8b1e-0d5f0a3c7b11"

#: The VLAN of the network on each physical network.
VLANS = {"physnet1": 17, "physnet2": 217}

OFFER = {
    "parents": {"physnet1": 3},
    "vfs": {"physnet1": 3},
    "kinds": ["ipvlan", "macvlan", "vf"],
}


def agent(
    host: str = "rt-1", alive: bool = True, **configurations: Any
) -> dict[str, Any]:
    """Return an agent of ours, as the database has it.

    Without a word of others all of its parents are VFs.
    """
    if "parents" in configurations:
        configurations.setdefault("vfs", configurations["parents"])
    return {
        "host": host,
        "agent_type": options.AGENT_TYPE,
        "binary": options.AGENT_BINARY,
        "topic": constants.L2_AGENT_TOPIC,
        "alive": alive,
        "configurations": {**OFFER, **configurations},
    }


class PluginCase(test_plugin.Ml2PluginV2TestCase):
    """A Neutron server with our driver before one that takes any port."""

    _mechanism_drivers: ClassVar = ["sriov_rt", "openvswitch"]
    _extension_drivers: ClassVar = ["port_security"]

    def preSetUp(self) -> None:
        options.register_ml2(cfg.CONF)
        cfg.CONF.set_override(
            "physical_networks", ["physnet1", "physnet2:ipvlan:l3s"], ML2
        )
        cfg.CONF.set_override(
            "extension_drivers", self._extension_drivers, "ml2"
        )

    def setUp(self) -> None:
        super().setUp()
        cfg.CONF.set_override("notify_nova_on_port_status_changes", False)
        self.driver.start_rpc_listeners()
        self.rpc = self.driver.endpoints[0]

    def host(self, name: str, **configurations: Any) -> None:
        """Have a host's agent report."""
        reported = agent(name, **configurations)
        del reported["alive"]
        helpers._register_agent(reported, self.driver)

    def ovs_host(self, name: str) -> None:
        """Have the stock agent of a host report, with every network."""
        helpers.register_ovs_agent(
            host=name,
            agent_type=constants.AGENT_TYPE_OVS,
            bridge_mappings={"physnet1": "br-1", "physnet2": "br-2"},
            plugin=self.driver,
        )

    def network_on(self, physical: str, kind: str = "vlan") -> str:
        """Return the id of a new network."""
        segment: dict[str, Any] = {
            "provider:network_type": kind,
            "provider:physical_network": physical,
        }
        if kind == "vlan":
            segment["provider:segmentation_id"] = VLANS[physical]
        made = self._make_network(
            self.fmt,
            "net",
            True,
            as_admin=True,
            arg_list=tuple(segment),
            **segment,
        )
        network: str = made["network"]["id"]
        return network

    def port_of(self, network: str, host: str, **more: Any) -> dict[str, Any]:
        """Return a port of a network that Nova has put on a host.

        :param more: what it is beside that, or in place of it.
        """
        wanted = {
            portbindings.HOST_ID: host,
            "device_owner": "compute:nova",
            "device_id": INSTANCE,
            **more,
        }
        made = self._make_port(
            self.fmt,
            network,
            as_admin=True,
            arg_list=tuple(wanted),
            **wanted,
        )
        port: dict[str, Any] = made["port"]
        return port

    def users_port(self, network: str, **more: Any) -> dict[str, Any]:
        """Return a port of a network that no server has yet.

        :param more: what else a user has set.
        """
        return self.port_of(network, "", device_owner="", device_id="", **more)

    def bind(self, port: dict[str, Any], host: str) -> dict[str, Any]:
        """Have Nova give a user's port to a server; return it."""
        wanted = {
            portbindings.HOST_ID: host,
            "device_owner": "compute:nova",
            "device_id": INSTANCE,
        }
        bound: dict[str, Any] = self.driver.update_port(
            self.context, port["id"], {"port": wanted}
        )
        return bound

    def port_on(
        self, host: str, physical: str = "physnet1", kind: str = "vlan"
    ) -> dict[str, Any]:
        """Return a port on a host, in a network of its own."""
        return self.port_of(self.network_on(physical, kind), host)

    def shown(self, port: dict[str, Any]) -> dict[str, Any]:
        """Return a port as it is now."""
        found: dict[str, Any] = self.driver.get_port(self.context, port["id"])
        return found

    def up(self, port: dict[str, Any], host: str = "rt-1") -> None:
        """Have the agent of a host say that it has the port."""
        self.rpc.update_device_up(
            self.context, agent_id="it", device=port["id"], host=host
        )

    def blocked(self, port: dict[str, Any]) -> bool:
        """Tell whether the port waits for an agent."""
        found: bool = provisioning_blocks.is_object_blocked(
            self.context, port["id"], resources.PORT
        )
        return found
