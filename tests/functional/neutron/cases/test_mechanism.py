# SPDX-License-Identifier: Apache-2.0

"""The mechanism driver in a real ML2 plugin with its database."""

from typing import Any
from typing import ClassVar
from unittest import mock

import in_process
from neutron.db import provisioning_blocks
from neutron.plugins.ml2 import plugin as ml2
from neutron.services.qos.drivers.openvswitch import driver as ovs_qos
from neutron.services.trunk import exceptions as trunk_exceptions
from neutron.tests.unit.plugins.ml2 import _test_mech_agent as mech_agent
from neutron_lib.api.definitions import portbindings
from neutron_lib.callbacks import exceptions as callbacks
from neutron_lib.callbacks import resources
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api
from oslo_config import cfg

from sriov_rt.neutron import mechanism
from sriov_rt.neutron import options
from sriov_rt.request.words import VifKind
from sriov_rt.vif import details
from sriov_rt.vif.host_offer import Offer


class StockBindingTest(
    mech_agent.AgentMechanismGenericTestCase,
    mech_agent.AgentMechanismFlatTestCase,
    mech_agent.AgentMechanismVlanTestCase,
):
    """Neutron's own tests of a driver with an agent."""

    AGENT_TYPE = options.AGENT_TYPE
    VIF_TYPE = details.VIF_TYPE
    CAP_PORT_FILTER = False
    GOOD_MAPPINGS: ClassVar = {"fake_physical_network": 2}
    AGENTS: ClassVar = [in_process.agent(parents=GOOD_MAPPINGS)]
    AGENTS_DEAD: ClassVar = [
        in_process.agent(alive=False, parents=GOOD_MAPPINGS)
    ]
    AGENTS_BAD: ClassVar = [
        in_process.agent(parents={"other": 2}),
        in_process.agent(parents="garbled"),
    ]

    def setUp(self) -> None:
        super().setUp()
        options.register_ml2(cfg.CONF)
        cfg.CONF.set_override(
            "physical_networks", ["fake_physical_network"], in_process.ML2
        )
        self.driver = mechanism.SriovRtMechanismDriver()
        self.driver.initialize()
        # Neutron's port is nobody's, and ours are servers'.
        of_neutron = mech_agent.FakePortContext.current.fget
        patched = mock.patch.object(
            mech_agent.FakePortContext,
            "current",
            property(
                lambda context: {
                    **of_neutron(context),
                    "device_owner": "compute:nova",
                }
            ),
        )
        patched.start()
        self.addCleanup(patched.stop)

    def test_a_host_without_the_kind_is_left_alone(self):
        context = mech_agent.FakePortContext(
            self.AGENT_TYPE,
            [in_process.agent(parents=self.GOOD_MAPPINGS, kinds=["ipvlan"])],
            self.VLAN_SEGMENTS,
        )
        self.driver.bind_port(context)
        self._check_unbound(context)

    def test_direct_and_macvtap_ports_are_left_alone(self):
        for vnic_type in ("direct", "macvtap", "direct-physical"):
            with self.subTest(vnic_type):
                context = mech_agent.FakePortContext(
                    self.AGENT_TYPE,
                    self.AGENTS,
                    self.VLAN_SEGMENTS,
                    vnic_type=vnic_type,
                )
                self.driver.bind_port(context)
                self._check_unbound(context)


class ClusterPortTest(in_process.PluginCase):
    """Ports of a cluster's nodes, as its OpenStack provider creates them."""

    def setUp(self):
        extensions = self._extension_drivers
        cfg.CONF.set_override("extension_drivers", extensions, "ml2")
        super().setUp()

    def created(self, network, **wanted):
        """Return the status of an answer, and the answer."""
        found = self.driver.get_network(self.context, network)
        port = {
            "network_id": network,
            "project_id": found["project_id"],
            **wanted,
        }
        request = self.new_create_request(
            "ports", {"port": port}, as_admin=True
        )
        answer = request.get_response(self.api)
        return answer.status_int, self.deserialize(self.fmt, answer)

    def test_security_groups_on_a_network_without_port_security(self):
        """With the cluster's groups no node would come up."""
        made = self._make_network(
            self.fmt,
            "fast",
            True,
            as_admin=True,
            arg_list=("port_security_enabled",),
            port_security_enabled=False,
        )
        network = made["network"]["id"]
        with self.subnet(network=made):
            groups = self.driver.get_security_groups(self.context)
            default = next(
                each["id"]
                for each in groups
                if each["project_id"] == made["network"]["project_id"]
            )
            status, answer = self.created(network, security_groups=[default])
            self.assertEqual(400, status, answer)
            self.assertIn("PortSecurity", answer["NeutronError"]["type"])
            # What disablePortSecurity of our nodegroups' ports makes of it.
            status, answer = self.created(network, port_security_enabled=False)
            self.assertEqual(201, status, answer)
            self.assertEqual([], answer["port"]["security_groups"])

    def test_a_trusted_vf_needs_a_policy(self):
        """As the page says: by default services alone write the profile."""
        status, answer = self.created(
            self.network_on("physnet1"),
            **{
                portbindings.VNIC_TYPE: "direct",
                portbindings.PROFILE: {"trusted": True},
            },
        )
        self.assertEqual(403, status, answer)
        self.assertIn("binding:profile", answer["NeutronError"]["message"])


class PluginTest(in_process.PluginCase):
    def test_a_vlan_port_is_bound_with_what_nova_has_to_know(self):
        self.host("rt-1")
        port = self.port_on("rt-1")
        self.assertEqual("sriov_rt", port[portbindings.VIF_TYPE])
        self.assertEqual(
            {
                "port_filter": False,
                "connectivity": "l2",
                "bound_drivers": {"0": "sriov_rt"},
                "kind": "macvlan",
                "mode": "bridge",
                "physical_network": "physnet1",
                "vlan": 17,
            },
            port[portbindings.VIF_DETAILS],
        )

    def test_a_flat_port_is_untagged(self):
        cfg.CONF.set_override("flat_networks", ["*"], "ml2_type_flat")
        self.driver.type_manager.drivers["flat"].obj._parse_networks(["*"])
        self.host("rt-1")
        port = self.port_on("rt-1", kind="flat")
        self.assertEqual(0, port[portbindings.VIF_DETAILS]["vlan"])

    def test_a_network_may_have_a_kind_of_its_own(self):
        self.host("rt-1", parents={"physnet2": 1})
        details = self.port_on("rt-1", "physnet2")[portbindings.VIF_DETAILS]
        self.assertEqual(("ipvlan", "l3s"), (details["kind"], details["mode"]))

    def test_a_host_without_parents_is_left_to_the_next_driver(self):
        self.host("rt-1", parents={"physnet2": 1})
        self.host("rt-2", parents={})
        network = self.network_on("physnet1")
        for name in ("rt-1", "rt-2", "std-1"):
            with self.subTest(name):
                self.ovs_host(name)
                port = self.port_of(network, name)
                self.assertEqual("ovs", port[portbindings.VIF_TYPE])

    def test_a_host_with_parents_is_ours_though_the_next_would_take_it(self):
        self.host("rt-1")
        self.ovs_host("rt-1")
        port = self.port_on("rt-1")
        self.assertEqual("sriov_rt", port[portbindings.VIF_TYPE])

    def test_a_vlan_needs_a_parent_that_tags(self):
        """A plug on a veth would fail, on every host and at each try."""
        cfg.CONF.set_override("flat_networks", ["*"], "ml2_type_flat")
        self.driver.type_manager.drivers["flat"].obj._parse_networks(["*"])
        self.host("rt-1", parents={"physnet1": 2}, vfs={})
        port = self.port_on("rt-1")
        self.assertEqual(
            portbindings.VIF_TYPE_BINDING_FAILED, port[portbindings.VIF_TYPE]
        )
        self.assertFalse(self.blocked(port))
        untagged = self.port_on("rt-1", kind="flat")
        self.assertEqual("sriov_rt", untagged[portbindings.VIF_TYPE])

    def test_a_kind_that_the_guests_cannot_have_is_left_alone(self):
        """physnet2 is ipvlan's, which no virtual machine takes."""
        self.host("rt-1", parents={"physnet2": 2}, kinds=["macvlan"])
        self.ovs_host("rt-1")
        port = self.port_on("rt-1", "physnet2")
        self.assertEqual("ovs", port[portbindings.VIF_TYPE])

    def _carried(self, host: str, offer: Offer, which: str) -> bool:
        """Return whether a port is ours, as binding and rule both say."""
        network, kind, more = self.wanted[which]
        port = self.port_of(network, host, **more)
        found = offer.carried(
            self.shown(port),
            self.driver.get_network(self.context, network),
            kind,
        )
        is_ours = port[portbindings.VIF_TYPE] == "sriov_rt"
        self.assertEqual(is_ours, found is not None)
        if found is not None:
            shown = port[portbindings.VIF_DETAILS]
            self.assertEqual((shown["physical_network"], shown["vlan"]), found)
        return is_ours

    def test_what_nova_judges_is_what_will_be_bound(self):
        """A host is claimed for a move by the rule that binds there."""
        cfg.CONF.set_override("flat_networks", ["*"], "ml2_type_flat")
        self.driver.type_manager.drivers["flat"].obj._parse_networks(["*"])
        vlan, flat = (self.network_on("physnet1", k) for k in ("vlan", "flat"))
        other = self.network_on("physnet2")
        tunnel = self._make_network(self.fmt, "net", True)["network"]["id"]
        self.wanted: dict[str, tuple[str, VifKind, dict[str, str]]] = {
            "vlan": (vlan, VifKind.MACVLAN, {}),
            "flat": (flat, VifKind.MACVLAN, {}),
            "other": (other, VifKind.IPVLAN, {}),
            "tunnel": (tunnel, VifKind.MACVLAN, {}),
            "direct": (vlan, VifKind.MACVLAN, {"binding:vnic_type": "direct"}),
            "router": (vlan, VifKind.MACVLAN, {"device_owner": "network:x"}),
        }
        met = set()
        for host, given in {
            "rt-1": {},
            "rt-2": {"vfs": {}},
            "rt-3": {"kinds": ["ipvlan"], "parents": {"physnet2": 1}},
            "rt-4": {"parents": {}},
        }.items():
            self.host(host, **given)
            self.ovs_host(host)
            reported = in_process.agent(host, **given)["configurations"]
            offer = Offer.from_configurations(reported)
            for which in self.wanted:
                with self.subTest(host, network=which):
                    if self._carried(host, offer, which):
                        met.add((host, which))
        self.assertEqual(
            {
                ("rt-1", "vlan"),
                ("rt-1", "flat"),
                ("rt-2", "flat"),
                ("rt-3", "other"),
            },
            met,
        )

    def test_ports_that_are_no_servers_are_left_to_the_next_driver(self):
        self.host("rt-1")
        self.ovs_host("rt-1")
        network = self.network_on("physnet1")
        for owner in (
            "network:dhcp",
            "network:router_interface",
            "network:router_gateway",
            "baremetal:none",
            "trunk:subport",
            "",
        ):
            with self.subTest(owner):
                port = self.port_of(network, "rt-1", device_owner=owner)
                self.assertEqual("ovs", port[portbindings.VIF_TYPE])

    def test_a_port_becomes_ours_with_its_server(self):
        """Nova sets the owner and the host of a user's port at once."""
        self.host("rt-1")
        self.ovs_host("rt-1")
        network = self.network_on("physnet1")
        port = self.users_port(network)
        self.assertEqual("unbound", port[portbindings.VIF_TYPE])
        bound = self.bind(port, "rt-1")
        self.assertEqual("sriov_rt", bound[portbindings.VIF_TYPE])

    def test_it_turns_active_when_it_is_plugged_and_not_before(self):
        self.host("rt-1")
        port = self.port_on("rt-1")
        self.assertEqual("DOWN", port["status"])
        self.assertTrue(self.blocked(port))
        # What any other component says does not do.
        provisioning_blocks.provisioning_complete(
            self.context, port["id"], resources.PORT, "DHCP"
        )
        self.assertEqual("DOWN", self.shown(port)["status"])
        self.up(port, host="rt-2")
        self.assertEqual("DOWN", self.shown(port)["status"])
        self.up(port)
        self.assertEqual("ACTIVE", self.shown(port)["status"])

    def test_it_turns_down_when_it_is_unplugged(self):
        self.host("rt-1")
        port = self.port_on("rt-1")
        self.up(port)
        self.rpc.update_device_down(
            self.context, agent_id="it", device=port["id"], host="rt-1"
        )
        self.assertEqual("DOWN", self.shown(port)["status"])

    def test_ports_of_others_wait_for_no_agent_of_ours(self):
        self.host("rt-1", parents={"physnet2": 1})
        port = self.port_on("rt-1")
        self.assertEqual(
            portbindings.VIF_TYPE_BINDING_FAILED, port[portbindings.VIF_TYPE]
        )
        self.assertFalse(self.blocked(port))

    def test_after_a_live_migration_the_new_host_makes_it_active(self):
        for name in ("rt-1", "rt-2"):
            self.host(name)
        port = self.port_on("rt-1")
        self.up(port)
        # As nova-compute does: a second binding, plugged there beforehand.
        self.driver.create_port_binding(
            self.context,
            port["id"],
            {"binding": {"host": "rt-2", "vnic_type": "normal"}},
        )
        self.up(port, host="rt-2")
        self.assertEqual("rt-1", self.shown(port)[portbindings.HOST_ID])
        self.driver.activate(self.context, "rt-2", port["id"])
        shown = self.shown(port)
        self.assertEqual("rt-2", shown[portbindings.HOST_ID])
        self.assertEqual("sriov_rt", shown[portbindings.VIF_TYPE])
        self.assertEqual("DOWN", shown["status"])
        self.assertTrue(self.blocked(port))
        # The old host's is unplugged; that counts no more.
        self.rpc.update_device_down(
            self.context, agent_id="it", device=port["id"], host="rt-1"
        )
        self.up(port, host="rt-1")
        self.assertEqual("DOWN", self.shown(port)["status"])
        self.up(port, host="rt-2")
        self.assertEqual("ACTIVE", self.shown(port)["status"])

    def test_the_plugin_is_the_real_one(self):
        self.assertIsInstance(self.driver, ml2.Ml2Plugin)
        names = [
            each.name
            for each in self.driver.mechanism_manager.ordered_mech_drivers
        ]
        self.assertEqual(["sriov_rt", "openvswitch"], names)

    def test_hosts_that_reach_a_segment_are_those_with_parents(self):
        self.host("rt-1")
        self.host("rt-2", parents={})
        driver = self.driver.mechanism_manager.mech_drivers["sriov_rt"].obj
        segment = {
            api.NETWORK_TYPE: "vlan",
            api.PHYSICAL_NETWORK: "physnet1",
            api.SEGMENTATION_ID: 17,
            api.ID: "s",
            api.NETWORK_ID: "n",
        }
        found = driver.filter_hosts_with_segment_access(
            self.context,
            [segment],
            ["rt-1", "rt-2"],
            self.driver.get_agents,
        )
        self.assertEqual({"rt-1"}, found)


class QosTest(in_process.PluginCase):
    """What nothing enforces is refused, by us or by Neutron itself."""

    _extension_drivers: ClassVar = ["port_security", "qos"]

    def get_additional_service_plugins(self) -> dict[str, str]:
        """Return Neutron's QoS plugin, beside those of every test."""
        return {
            **super().get_additional_service_plugins(),
            "qos_plugin_name": "qos",
        }

    def preSetUp(self) -> None:
        super().preSetUp()
        # It registers with the plugin when it is made, once in a process.
        patched = mock.patch.object(ovs_qos, "DRIVER", None)
        patched.start()
        self.addCleanup(patched.stop)

    def setUp(self) -> None:
        super().setUp()
        self.qos = directory.get_plugin("QOS")
        self.host("rt-1")

    def policy(self) -> str:
        """Return a policy that limits the bandwidth."""
        made = self.qos.create_policy(
            self.context,
            {"policy": {"name": "p", "project_id": "t", "shared": True}},
        )
        self.qos.create_policy_bandwidth_limit_rule(
            self.context,
            made["id"],
            {
                "bandwidth_limit_rule": {
                    "max_kbps": 1000,
                    "max_burst_kbps": 0,
                    "direction": "egress",
                }
            },
        )
        policy: str = made["id"]
        return policy

    def test_a_port_with_a_policy_is_left_to_a_driver_that_enforces_it(self):
        network = self.network_on("physnet1")
        policy = self.policy()
        port = self.users_port(network, qos_policy_id=policy)
        with self.assertLogs(mechanism.__name__, "WARNING") as logged:
            bound = self.bind(port, "rt-1")
        self.assertEqual(
            portbindings.VIF_TYPE_BINDING_FAILED, bound[portbindings.VIF_TYPE]
        )
        self.assertFalse(self.blocked(port))
        self.assertIn(port["id"], logged.output[0])
        self.assertIn("it has a QoS policy", logged.output[0])
        self.ovs_host("rt-1")
        port = self.users_port(network, qos_policy_id=policy)
        bound = self.bind(port, "rt-1")
        self.assertEqual("ovs", bound[portbindings.VIF_TYPE])

    def test_a_policy_of_its_network_counts_as_its_own(self):
        network = self.network_on("physnet1")
        self.driver.update_network(
            self.context,
            network,
            {"network": {"qos_policy_id": self.policy()}},
        )
        self.ovs_host("rt-1")
        port = self.bind(self.users_port(network), "rt-1")
        self.assertEqual("ovs", port[portbindings.VIF_TYPE])

    def test_neutron_refuses_a_policy_for_a_port_that_is_bound(self):
        network = self.network_on("physnet1")
        port = self.port_of(network, "rt-1")
        self.assertEqual("sriov_rt", port[portbindings.VIF_TYPE])
        policy = {"qos_policy_id": self.policy()}
        for change in (
            lambda: self.driver.update_port(
                self.context, port["id"], {"port": policy}
            ),
            lambda: self.driver.update_network(
                self.context, network, {"network": policy}
            ),
        ):
            error = self.assertRaises(callbacks.CallbackFailure, change)
            self.assertIn("is not supported by port", str(error))

    def test_a_host_of_others_is_not_warned_of(self):
        self.ovs_host("std-1")
        with self.assertNoLogs(mechanism.__name__, "WARNING"):
            network = self.network_on("physnet1")
            port = self.users_port(network, qos_policy_id=self.policy())
            self.bind(port, "std-1")


class TrunkTest(in_process.PluginCase):
    """The subports of a parent of ours would be wired by nobody."""

    def get_additional_service_plugins(self) -> dict[str, str]:
        """Return Neutron's trunk plugin, beside those of every test."""
        return {
            **super().get_additional_service_plugins(),
            "trunk_plugin_name": "trunk",
        }

    def setUp(self) -> None:
        super().setUp()
        self.trunks = directory.get_plugin("trunk")
        self.trunks.add_segmentation_type("vlan", lambda _id: True)
        self.host("rt-1")
        self.network = self.network_on("physnet1")

    def trunk_on(self, port: dict[str, Any]) -> None:
        """Have a trunk with a port for its parent."""
        self.trunks.create_trunk(
            self.context,
            {
                "trunk": {
                    "port_id": port["id"],
                    "project_id": "t",
                    "sub_ports": [],
                }
            },
        )

    def test_the_parent_of_a_trunk_is_left_to_a_driver_of_trunks(self):
        port = self.users_port(self.network)
        self.trunk_on(port)
        with self.assertLogs(mechanism.__name__, "WARNING") as logged:
            bound = self.bind(port, "rt-1")
        self.assertEqual(
            portbindings.VIF_TYPE_BINDING_FAILED, bound[portbindings.VIF_TYPE]
        )
        self.assertIn("it is the parent of a trunk", logged.output[0])
        self.ovs_host("rt-1")
        other = self.users_port(self.network)
        self.trunk_on(other)
        bound = self.bind(other, "rt-1")
        self.assertEqual("ovs", bound[portbindings.VIF_TYPE])

    def test_neutron_refuses_a_trunk_on_a_port_that_is_bound(self):
        port = self.port_of(self.network, "rt-1")
        self.assertEqual("sriov_rt", port[portbindings.VIF_TYPE])
        self.assertRaises(
            trunk_exceptions.ParentPortInUse, self.trunk_on, port
        )
