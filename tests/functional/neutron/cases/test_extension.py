# SPDX-License-Identifier: Apache-2.0

"""The L2 extension in the stock SR-IOV agent, with its manager and loop."""

import logging
import pathlib
import tempfile
from typing import Any
from unittest import mock

from neutron.agent import rpc as agent_rpc
from neutron.api.rpc.handlers import resources_rpc
from neutron.objects import ports as objects
from neutron.plugins.ml2.drivers.mech_sriov.agent import eswitch_manager
from neutron.plugins.ml2.drivers.mech_sriov.agent import sriov_nic_agent
from neutron.tests import base
from oslo_config import cfg

from sriov_rt.neutron import l2_extension
from sriov_rt.neutron import options
from sriov_rt.neutron import privileged
from sriov_rt.nic import tenancy
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.tenancy import Kind
from tests.unit.nic import fakes

SLOT = "0000:01:10.1"
OLD = agent_rpc.DeviceInfo("fa:16:3e:00:00:01", SLOT)
NEW = agent_rpc.DeviceInfo("fa:16:3e:00:00:02", SLOT)
IN_GUEST = VfDevice("vfio-pci", iommu_group=41)


def details(device: Any, vlan: int, **changes: Any) -> dict[str, Any]:
    """Return a port's details as neutron-server gives them to the agent."""
    return {
        "device": device.mac,
        "mac_address": device.mac,
        "port_id": f"port-{device.mac[-2:]}",
        "network_id": "n",
        "admin_state_up": True,
        "propagate_uplink_status": False,
        "network_type": "vlan",
        "segmentation_id": vlan,
        "physical_network": "physnet1",
        "profile": {"pci_slot": device.pci_slot},
        "port_security_enabled": True,
        "qos_policy_id": None,
        "network_qos_policy_id": None,
        **changes,
    }


class Errors(logging.Handler):
    """What was logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.found.append(record.getMessage())

    def take(self) -> str:
        """Return what there was since the last time."""
        found, self.found = self.found, []
        return "\n".join(found)


class ExtensionCase(base.BaseTestCase):
    """The real agent and extension on a kernel that is none."""

    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = pathlib.Path(directory.name)
        options.register_extension(cfg.CONF)
        cfg.CONF.set_override("report_interval", 0, "AGENT")
        self.kernel = fakes.FakeKernel("igb")
        self.netdev = self.kernel.devices[1]
        self._patch(privileged, "_vfs", lambda: fakes.vfs(self.kernel))
        idle = fakes.vfs(self.kernel, lambda _states: {}, Kind.PORT)
        self._patch(privileged, "_idle_vfs", lambda: idle)
        for each in (privileged.vf_set, privileged.vf_clean):
            each.set_client_mode(False)
            self.addCleanup(each.set_client_mode, True)
        self._patch(
            resources_rpc.ResourcesPullRpcApi,
            "pull",
            lambda _self, _context, kind, port: self._port(kind, port),
        )
        self.details: dict[str, dict[str, Any]] = {}
        self.bound_to: str | None = None
        self.devices: set[Any] = set()
        self.told: list[tuple[Any, Any]] = []
        self.errors = Errors()
        log = logging.getLogger("sriov_rt.neutron")
        log.addHandler(self.errors)
        self.addCleanup(log.removeHandler, self.errors)
        self.addCleanup(self._no_errors)

    def _port(self, kind: str, port: str) -> Any:
        """Return a port as neutron-server gives it to agents."""
        if self.bound_to is None:
            raise resources_rpc.ResourceNotFound(
                resource_type=kind, resource_id=port
            )
        binding = objects.PortBinding(
            host=cfg.CONF.host, profile={"pci_slot": self.bound_to}
        )
        return objects.Port(bindings=[binding])

    def _no_errors(self) -> None:
        self.assertEqual("", self.errors.take())

    def _patch(self, where: Any, name: str, value: Any) -> Any:
        patched = mock.patch.object(where, name, value)
        self.addCleanup(patched.stop)
        return patched.start()

    def agent(self) -> Any:
        """Start the agent, as neutron-sriov-nic-agent does."""
        from neutron.agent.l2 import l2_agent_extensions_manager as manager

        manager.register_opts(cfg.CONF)
        cfg.CONF.set_override("extensions", ["sriov_rt"], "agent")
        for name in ("device_exists", "set_device_spoofcheck"):
            self._patch(eswitch_manager.ESwitchManager, name, mock.Mock())
        self._patch(
            eswitch_manager.ESwitchManager, "set_device_state", mock.Mock()
        )
        self._patch(
            eswitch_manager.ESwitchManager,
            "get_assigned_devices_info",
            lambda _self: set(self.devices),
        )
        agent = sriov_nic_agent.SriovNicSwitchAgent({}, {}, 0, {}, {}, {})
        rpc = agent.plugin_rpc
        self._patch(
            rpc,
            "get_devices_details_list",
            lambda _context, devices, *_: [
                self.details[each.mac] for each in devices
            ],
        )
        self._patch(
            rpc,
            "update_device_list",
            lambda _context, up, down, *_: self.told.append((up, down)),
        )
        self._patch(rpc, "update_device_down", lambda *_: {"exists": True})
        self.extension = next(iter(agent.ext_manager)).obj
        # It may be about to write what it keeps.
        self.addCleanup(self.extension._retries.join, 10)
        self.addCleanup(self.extension._retries.stop)
        self.seen: set[Any] = set()
        return agent

    def poll(self, agent: Any) -> bool:
        """Do what the agent's loop does once; tell if it is out of step."""
        found = agent.scan_devices(self.seen, set())
        resync: bool = agent.process_network_devices(found)
        self.seen = found["current"]
        return resync

    def give(self, device: Any, vlan: int, **changes: Any) -> None:
        """Have Nova and libvirt give the VF to a guest."""
        self.kernel.devices[1] = IN_GUEST
        self.kernel.change(1, mac=device.mac, vlan=vlan)
        self.details[device.mac] = details(device, vlan, **changes)
        self.devices = {device}

    def take(self) -> None:
        """Have libvirt take it back."""
        self.kernel.change(1, mac=fakes.NO_MAC)
        self.kernel.devices[1] = self.netdev
        self.devices = set()


class LifeTest(ExtensionCase):
    def test_it_is_found_by_the_agent_and_is_ours(self):
        self.agent()
        self.assertIsInstance(self.extension, l2_extension.SriovRtExtension)

    def test_a_store_that_ends_with_its_container_is_warned_of(self):
        with (
            mock.patch.object(
                tenancy.container, "ends_with_container", return_value=True
            ),
            self.assertLogs("sriov_rt.neutron", "WARNING") as logged,
        ):
            agent = self.agent()
            self.give(OLD, 117)
            self.poll(agent)
        self.assertIn("mount the host's /run", str(logged.output))
        self.errors.take()

    def test_a_clean_vf_is_used_and_clean_again(self):
        agent = self.agent()
        self.give(OLD, 117)
        self.assertFalse(self.poll(agent))
        self.assertEqual([({OLD}, set())], self.told)
        self.assertEqual([], self.kernel.writes)
        self.kernel.change(1, max_tx_rate=40)
        self.take()
        self.assertFalse(self.poll(agent))
        found = self.kernel.settings[1]
        self.assertEqual(
            (0, False, 0), (found.vlan, found.trust, found.max_tx_rate)
        )

    def test_a_vf_that_the_last_tenant_left_dirty_is_set_right(self):
        agent = self.agent()
        self.kernel.change(1, trust=True, qos=5, max_tx_rate=40)
        self.give(OLD, 117)
        self.assertFalse(self.poll(agent))
        found = self.kernel.settings[1]
        self.assertEqual(
            (117, 0, False, 0, OLD.mac),
            (
                found.vlan,
                found.qos,
                found.trust,
                found.max_tx_rate,
                found.mac,
            ),
        )
        self.assertEqual(IN_GUEST, self.kernel.devices[1])

    def test_a_trusted_port_stays_trusted(self):
        agent = self.agent()
        self.kernel.change(1, trust=True)
        self.give(OLD, 117, profile={"pci_slot": SLOT, "trusted": "true"})
        self.poll(agent)
        self.assertTrue(self.kernel.settings[1].trust)

    def test_added_before_removed_leaves_the_new_owner_its_vf(self):
        agent = self.agent()
        self.give(OLD, 117)
        self.poll(agent)
        # Within one poll the old guest goes and a new one comes.
        self.take()
        self.give(NEW, 118)
        self.kernel.writes.clear()
        self.assertFalse(self.poll(agent))
        self.assertEqual([], self.kernel.writes)
        self.assertEqual(118, self.kernel.settings[1].vlan)
        self.assertEqual(NEW.mac, self.kernel.settings[1].mac)

    def test_a_vf_taken_again_before_the_agent_looks_is_left_alone(self):
        agent = self.agent()
        self.give(OLD, 117)
        self.poll(agent)
        self.take()
        # The agent has looked; before it acts, another guest has the VF.
        found = agent.scan_devices(self.seen, set())
        self.give(NEW, 118)
        agent.process_network_devices(found)
        self.assertEqual(118, self.kernel.settings[1].vlan)
        self.assertEqual([], self.kernel.writes)
        self.seen = set()
        self.poll(agent)
        self.assertEqual(118, self.kernel.settings[1].vlan)

    def test_what_was_given_back_while_the_agent_was_down_is_cleaned(self):
        agent = self.agent()
        self.give(OLD, 117)
        self.poll(agent)
        self.extension._retries.stop()
        self.assertTrue(self.extension._retries.join(10))
        self.take()
        self.assertEqual(117, self.kernel.settings[1].vlan)
        self.agent()
        # A minute, on a machine that does much else.
        for _ in range(1200):
            if self.kernel.settings[1].vlan == 0:
                break
            self.extension._retries.join(0.05)
        self.assertEqual(0, self.kernel.settings[1].vlan)

    def test_live_port_is_left_alone_before_the_agent_looks(self):
        """Its VF looks like one that was left, but for its binding."""
        agent = self.agent()
        self.give(OLD, 117)
        self.poll(agent)
        self.extension._retries.stop()
        self.assertTrue(self.extension._retries.join(10))
        # A macvtap is about to be put on it: Nova has set its MAC.
        self.kernel.devices[1] = self.netdev
        self.kernel.change(1, mac=OLD.mac, vlan=117)
        self.bound_to = SLOT
        cfg.CONF.set_override("retry_interval", 1, options.EXTENSION_GROUP)
        self.agent()
        self.extension._retries.join(3.5)
        self.assertEqual(117, self.kernel.settings[1].vlan)
        self.assertEqual(OLD.mac, self.kernel.settings[1].mac)

    def test_a_nic_that_refuses_does_not_stop_the_agent(self):
        agent = self.agent()
        self.kernel.change(1, trust=True)
        self.kernel.fail["trust"] = [22, ...]
        self.give(OLD, 117)
        self.assertFalse(self.poll(agent))
        self.assertIn(f"port=port-01 vf={SLOT}", self.errors.take())
        self.assertEqual([({OLD}, set())], self.told)

    def test_details_that_are_garbled_do_not_stop_the_agent(self):
        agent = self.agent()
        self.give(OLD, 117, segmentation_id="garbled")
        self.assertFalse(self.poll(agent))
        self.assertIn("port=port-01", self.errors.take())
        self.assertEqual([({OLD}, set())], self.told)

    def test_a_daemon_that_cannot_be_started_is_told_of_at_the_start(self):
        self._patch(
            privileged, "_ready_to_set", mock.Mock(side_effect=OSError)
        )
        self.agent()
        for _ in range(200):
            if self.errors.found:
                break
            self.extension._retries.join(0.05)
        self.assertIn("helper_command", self.errors.take())

    def test_another_agent_does_not_get_it(self):
        extension = l2_extension.SriovRtExtension()
        error = self.assertRaises(
            l2_extension.WrongAgent, extension.initialize, None, "ovs"
        )
        self.assertIn("neutron-sriov-nic-agent", str(error))
