# SPDX-License-Identifier: Apache-2.0

import copy
from typing import Any
from unittest import mock

import fixtures
from lxml import etree
from nova import context
from nova import objects
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import base as libvirt_base
from nova.virt.libvirt import config
from nova.virt.libvirt import vif as libvirt_vif

from sriov_rt import config as config_file
from sriov_rt.config import OptionRejected
from sriov_rt.kernel.tc import Limits
from sriov_rt.nova import ports
from sriov_rt.onload import settings as onload_settings
from sriov_rt.vif import privsep
from sriov_rt.vif.model import Kind
from tests.functional.nova import base
from tests.unit.vif import fake_plugger

#: What our mechanism driver writes of a port that it binds.
DETAILS = {
    "port_filter": False,
    "connectivity": "l2",
    "kind": "macvlan",
    "mode": "bridge",
    "physical_network": "physnet1",
    "pool": "physnet1",
    "vlan": 100,
}


#: The network of all ports, as Neutron shows it to administrators.
NETWORK = {
    "provider:network_type": "vlan",
    "provider:physical_network": "physnet1",
    "provider:segmentation_id": 100,
}


class VifTest(base.CloudTest):
    """A cloud with a port of ours, and a plugger without a kernel."""

    VIRT_TYPE = "kvm"

    def setUp(self) -> None:
        super().setUp()
        self.flags(virt_type=self.VIRT_TYPE, group="libvirt")
        self.pluggers = fake_plugger.FakePlugger()
        self.useFixture(
            fixtures.MockPatchObject(
                privsep, "_host_plugger", lambda: self.pluggers
            )
        )
        self.useFixture(
            fixtures.MockPatchObject(privsep.vif_plug, "client_mode", False)
        )
        self.useFixture(
            fixtures.MockPatchObject(
                privsep, "networks", lambda: tuple(self.pluggers.parents)
            )
        )
        for network in self.neutron._networks.values():
            network.update(NETWORK)
        self.port = self.neutron.port_1["id"]
        self.name = f"srt{self.port[:11]}"
        self.bind()

    def bind(self, **details: Any) -> None:
        """Let Neutron bind the port as our mechanism driver does."""
        port = self.neutron._ports[self.port]
        port["binding:vif_type"] = "sriov_rt"
        port["binding:vif_details"] = {**DETAILS, **details}

    def serve(
        self,
        specs: dict[str, str],
        state: str = "ACTIVE",
        image: str | None = None,
    ) -> Any:
        """Boot a server with the port."""
        return self._create_server(
            flavor_id=self.flavor(specs),
            networks=[{"port": self.port}],
            expected_state=state,
            **({"image_uuid": image} if image else {}),
        )

    def sata(self, **properties: str) -> str:
        """Make an image of a disk that is not on virtio."""
        image = self.glance.show(None, "155d900f-4e14-4e4c-a73d-069cbf4541e6")
        made = {
            **image,
            "id": "7a5e1f6c-2f43-4a53-9a2a-5a3c07d5f0c1",
            "properties": {
                **image["properties"],
                "hw_disk_bus": "sata",
                **properties,
            },
        }
        self.glance.create(None, made)
        return made["id"]

    def interface(self) -> etree._Element:
        """Return what the domain has for the port."""
        (found,) = self.domain().iter("interface")
        return found


class VirtualMachineTest(VifTest):
    def setUp(self) -> None:
        super().setUp()
        self.start_host(base.realtime_host("rt-1"))

    def test_it_gets_a_ready_made_macvtap(self):
        server = self.serve({})
        (asked,) = self.pluggers.asked
        self.assertEqual(self.port, asked.port)
        self.assertEqual(server["id"], asked.owner)
        self.assertIs(Kind.MACVTAP, asked.kind)
        self.assertEqual("bridge", asked.mode)
        self.assertEqual("physnet1", asked.physical_network)
        self.assertEqual(100, asked.vlan)
        self.assertEqual(self.name, asked.name)
        self.assertEqual(self.neutron.port_1["mac_address"], asked.mac)
        found = self.interface()
        self.assertEqual("ethernet", found.get("type"))
        target = found.find("target")
        self.assertEqual(
            {"dev": self.name, "managed": "no"}, dict(target.attrib)
        )
        self.assertEqual("virtio", found.find("model").get("type"))
        self.assertEqual(asked.mac, found.find("mac").get("address"))
        self.assertIsNone(found.find("bandwidth"))

    def test_the_name_is_one_that_an_interface_can_have(self):
        self.assertLessEqual(len(self.name), 15)

    def test_the_flavor_goes_before_the_network(self):
        self.serve({"sriov_rt:vif": "macvlan:passthru"})
        self.assertEqual("passthru", self.pluggers.asked[0].mode)

    def test_the_flavors_rates_are_the_ports(self):
        self.serve(
            {
                "quota:vif_outbound_average": "1000",
                "quota:vif_inbound_average": "2000",
            }
        )
        self.assertEqual(
            Limits(out_kbps=8192, in_kbps=16384), self.pluggers.asked[0].limits
        )
        self.assertIsNone(self.interface().find("bandwidth"))

    def test_the_parent_is_to_be_where_the_pcpus_are(self):
        self.serve({"hw:cpu_policy": "dedicated"})
        self.assertEqual(0, self.pluggers.asked[0].numa_node)
        self.assertIsNone(self._anywhere().numa_node)

    def _anywhere(self) -> Any:
        self.pluggers.asked.clear()
        self._delete_server(self._server())
        self.serve({})
        return self.pluggers.asked[0]

    def _server(self) -> Any:
        (found,) = self.api.get_servers()
        return found

    def test_delete_leaves_nothing(self):
        server = self.serve({})
        self._delete_server(server)
        self.assertEqual({}, self.pluggers.ports)

    def test_delete_of_what_is_gone(self):
        server = self.serve({})
        self.pluggers.ports.clear()
        self._delete_server(server)

    def _unbound(self, server: Any) -> None:
        """Let the port be bound to nobody, as Nova's cache has it too."""
        port = self.neutron._ports[self.port]
        port["binding:vif_type"] = "unbound"
        port["binding:vif_details"] = {}
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(),
            server["id"],
            expected_attrs=["info_cache"],
        )
        cached = copy.deepcopy(instance.info_cache.network_info)
        cached[0]["type"] = "unbound"
        # What is changed in place is not saved.
        instance.info_cache.network_info = cached
        instance.info_cache.save()

    def test_delete_of_what_is_bound_to_nobody_by_now(self):
        server = self.serve({})
        self._unbound(server)
        with mock.patch.object(ports, "has_interface", lambda vif: True):
            self._delete_server(server)
        self.assertEqual({}, self.pluggers.ports)

    def test_what_is_bound_to_nobody_and_was_not_ours(self):
        server = self.serve({})
        self._unbound(server)
        broken = mock.patch.object(
            self.pluggers, "unplug", side_effect=RuntimeError("not ours")
        )
        with broken as unplug:
            self._delete_server(server)
        unplug.assert_not_called()

    def test_novas_own_unplug_follows_whatever_goes_wrong_with_ours(self):
        server = self.serve({})
        self._unbound(server)
        error = fake_plugger.no_parent(self.port)
        with (
            mock.patch.object(ports, "has_interface", lambda vif: True),
            mock.patch.object(self.pluggers, "unplug", side_effect=error),
            mock.patch.object(
                libvirt_vif.LibvirtGenericVIFDriver, "unplug"
            ) as unplug,
        ):
            self._delete_server(server)
        unplug.assert_called_once()
        self.assertIn(f"port={self.port} is left behind", self.logged())

    def test_hard_reboot_plugs_anew(self):
        server = self.serve({})
        self._reboot_server(server, hard=True)
        self.assertEqual(2, len(self.pluggers.asked))
        self.assertEqual([self.port], list(self.pluggers.ports))
        self.assertEqual("ethernet", self.interface().get("type"))

    def test_hard_reboot_of_what_is_gone(self):
        server = self.serve({})
        self.pluggers.ports.clear()
        self._reboot_server(server, hard=True)
        self.assertEqual([self.port], list(self.pluggers.ports))

    def test_a_whole_vf_is_refused(self):
        server = self.serve({"sriov_rt:vif": "vf"}, state="ERROR")
        self.assertIn("--vnic-type direct", self.fault(server))
        self.assertEqual([], self.pluggers.asked)

    def test_an_ipvlan_is_refused(self):
        self.bind(kind="ipvlan", mode="l2")
        server = self.serve({"sriov_rt:guest": "lean"}, state="ERROR")
        self.assertIn("sriov_rt:vif=macvlan", self.fault(server))

    def test_a_binding_that_makes_no_sense_is_refused(self):
        self.bind(kind="bridge")
        server = self.serve({}, state="ERROR")
        # Another host may have another driver's port for it.
        self.assertIn("Exhausted all hosts", self.fault(server))
        self.assertIn("one of vf, macvlan, ipvlan", self.logged())

    def test_a_host_that_cannot_plug_leaves_nothing(self):
        self.pluggers.fail = fake_plugger.no_parent(self.port)
        self.serve({}, state="ERROR")
        self.assertIn(str(self.pluggers.fail), self.logged())
        connection = self.computes["rt-1"].driver._host.get_connection()
        self.assertEqual([], connection.listAllDomains(0))

    def test_another_host_is_tried(self):
        self.start_host(base.realtime_host("rt-2"))
        plug = self.pluggers.plug
        refusals = [fake_plugger.no_parent(self.port)]

        def first_refuse(want: Any) -> Any:
            if refusals:
                raise refusals.pop()
            return plug(want)

        self.pluggers.plug = first_refuse
        self.serve({})
        self.assertEqual([self.port], list(self.pluggers.ports))

    def test_a_bare_guest_gets_no_virtio(self):
        server = self.serve(base.BARE, image=self.sata())
        self.assertEqual("e1000e", self.interface().find("model").get("type"))
        self.assertIsNone(self.interface().find("driver"))
        self.assertEqual("rt-1", self.host_of(server))

    def test_a_bare_guest_gets_none_after_a_reboot_either(self):
        server = self.serve(base.BARE, image=self.sata())
        self._reboot_server(server, hard=True)
        self.assertEqual("e1000e", self.interface().find("model").get("type"))

    def test_a_bare_guests_image_may_choose_another_model(self):
        self.serve(base.BARE, image=self.sata(hw_vif_model="igb"))
        self.assertEqual("igb", self.interface().find("model").get("type"))

    def test_a_bare_guests_image_may_not_choose_virtio(self):
        server = self.serve(
            base.BARE, state="ERROR", image=self.sata(hw_vif_model="virtio")
        )
        self.assertIn("hw_vif_model=e1000e", self.fault(server))
        self.assertEqual([], self.pluggers.asked)

    def test_a_port_is_attached_and_detached(self):
        server = self.boot({})
        self._attach_interface(server, self.port)
        self.assertEqual([self.port], list(self.pluggers.ports))
        self._detach_interface(server, self.port)
        self._wait_for_assert(
            lambda: self.assertEqual({}, self.pluggers.ports)
        )

    def test_ports_of_others_get_no_virtio_in_a_bare_guest(self):
        port = self.neutron._ports[self.port]
        port["binding:vif_type"] = "ovs"
        self.serve(base.BARE, image=self.sata())
        self.assertEqual("e1000e", self.interface().find("model").get("type"))

    def test_a_port_on_virtio_is_not_attached_to_a_bare_guest(self):
        server = self._create_server(
            flavor_id=self.flavor(base.BARE),
            image_uuid=self.sata(hw_vif_model="virtio"),
            networks="none",
        )
        self.assertRaises(
            client.OpenStackApiException,
            self._attach_interface,
            server,
            self.port,
        )
        self.assertEqual([], self.pluggers.asked)
        self.assertIn(
            f"{server['id']} --property hw_vif_model=e1000e", self.logged()
        )

    def _vhost_user(self) -> None:
        """Let Neutron bind the port as Open vSwitch on DPDK has it."""
        port = self.neutron._ports[self.port]
        port["binding:vif_type"] = "vhostuser"
        port["binding:vif_details"] = {
            "vhostuser_socket": "/run/vhu",
            "vhostuser_mode": "server",
        }

    def test_a_bare_guest_has_no_vhost_user_port(self):
        self._vhost_user()
        server = self.serve(base.BARE, state="ERROR", image=self.sata())
        self.assertIn("is vhostuser, for which QEMU", self.fault(server))

    def test_a_lean_guests_vhost_user_port_stays_virtio(self):
        self._vhost_user()
        self.serve(base.LEAN, image=self.sata())
        found = self.interface()
        self.assertEqual("vhostuser", found.get("type"))
        self.assertEqual("virtio", found.find("model").get("type"))

    def _not_attached(self) -> str:
        """Have a port refused to a running bare guest; return the log."""
        server = self._create_server(
            flavor_id=self.flavor(base.BARE),
            image_uuid=self.sata(),
            networks="none",
        )
        self.assertRaises(
            client.OpenStackApiException,
            self._attach_interface,
            server,
            self.port,
        )
        return self.logged()

    def test_a_vhost_user_port_is_not_attached_to_a_bare_guest(self):
        self._vhost_user()
        self.assertIn("is vhostuser, for which QEMU", self._not_attached())

    def test_a_vdpa_port_is_not_attached_to_a_bare_guest(self):
        made = config.LibvirtConfigGuestInterface()
        made.net_type, made.mac_addr = "vdpa", "02:00:00:00:00:01"
        made.source_dev = "/dev/vhost-vdpa-0"
        port = self.neutron._ports[self.port]
        port["binding:vif_type"] = "ovs"
        with mock.patch.object(
            libvirt_vif.LibvirtGenericVIFDriver,
            "get_config",
            return_value=made,
        ):
            self.assertIn("is vdpa, for which QEMU", self._not_attached())

    def test_a_port_that_such_a_guest_cannot_have_is_not_attached(self):
        server = self.boot({"sriov_rt:vif": "vf"})
        error = self.assertRaises(
            client.OpenStackApiException,
            self._attach_interface,
            server,
            self.port,
        )
        self.assertIn("Failed to attach", str(error))
        self.assertEqual([], self.pluggers.asked)

    def test_ports_of_others_go_novas_way(self):
        port = self.neutron._ports[self.port]
        port["binding:vif_type"] = "ovs"
        self.serve({})
        target = self.interface().find("target")
        self.assertNotEqual(self.name, target.get("dev"))
        self.assertEqual([], self.pluggers.asked)


class RestartTest(VifTest):
    def setUp(self) -> None:
        super().setUp()
        self.start_host(base.realtime_host("rt-1"))

    def test_ports_of_running_guests_are_asked_for_again(self):
        self.serve({})
        self.restart_compute_service("rt-1")
        self.assertEqual(2, len(self.pluggers.asked))
        self.assertEqual([self.port], list(self.pluggers.ports))

    def test_a_port_that_cannot_be_plugged_does_not_stop_nova_compute(self):
        server = self.serve({})
        self.pluggers.fail = fake_plugger.no_parent(self.port)
        self.restart_compute_service("rt-1")
        found = self.api.get_server(server["id"])
        self.assertEqual("ERROR", found["status"])
        self.assertIn(str(self.pluggers.fail), self.logged())

    def test_what_was_interrupted_is_recovered_first(self):
        self.serve({})
        self.pluggers.asked.clear()
        self.pluggers.undone = (self.port,)
        with mock.patch.object(privsep, "is_configured", lambda: True):
            self.restart_compute_service("rt-1")
        self.assertEqual([], self.pluggers.asked_at_recovery)
        self.assertEqual(1, len(self.pluggers.asked))
        self.assertIn(
            f"port={self.port} was half plugged, and is undone", self.logged()
        )

    def _killed_while_it_built(self) -> Any:
        server = self.serve({})
        driver = self.computes["rt-1"].driver
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), server["id"]
        )
        driver._host.get_guest(instance).delete_configuration()
        driver._host.get_connection()._vms.clear()
        instance.vm_state = "building"
        instance.task_state = "spawning"
        instance.save()
        self.assertEqual([self.port], list(self.pluggers.ports))
        return server

    def test_what_was_plugged_for_a_guest_that_never_was_is_unplugged(self):
        server = self._killed_while_it_built()
        with mock.patch.object(privsep, "is_configured", lambda: True):
            self.restart_compute_service("rt-1")
        self.assertEqual({}, self.pluggers.ports)
        self.assertEqual("ERROR", self.api.get_server(server["id"])["status"])

    def test_a_port_that_cannot_be_unplugged_does_not_stop_nova_compute(self):
        self._killed_while_it_built()
        error = fake_plugger.no_parent(self.port)
        with (
            mock.patch.object(privsep, "is_configured", lambda: True),
            mock.patch.object(self.pluggers, "unplug", side_effect=error),
        ):
            self.restart_compute_service("rt-1")
        self.assertIn(str(error), self.logged())

    def test_broken_records_do_not_stop_nova_compute(self):
        self.pluggers.fail = fake_plugger.no_parent(self.port)
        with mock.patch.object(privsep, "is_configured", lambda: True):
            self.restart_compute_service("rt-1")
        self.assertIn("were not recovered", self.logged())

    def test_nor_does_a_mistake_of_ours(self):
        fault = RuntimeError("a mistake of ours")
        with (
            mock.patch.object(privsep, "is_configured", lambda: True),
            mock.patch.object(self.pluggers, "recover", side_effect=fault),
        ):
            self.restart_compute_service("rt-1")
        self.assertIn("were not recovered", self.logged())
        self.assertIn("a mistake of ours", self.logged())

    def test_an_option_that_cannot_be_stops_it(self):
        self.pluggers.fail = OptionRejected(
            "vif", "records", "an absolute path expected", "nova-compute"
        )
        with mock.patch.object(privsep, "is_configured", lambda: True):
            error = self.assertRaises(
                privsep.HostRefused, self.restart_compute_service, "rt-1"
            )
        self.assertIn("[vif] records", str(error))

    def test_an_onload_option_that_cannot_be_stops_it(self):
        conf = config_file.load([])
        onload_settings.options.register(conf)
        conf.set_override("inside", "opt/onload", group="onload")
        with mock.patch.object(
            onload_settings.config, "load", return_value=conf
        ):
            error = self.assertRaises(
                OptionRejected, self.restart_compute_service, "rt-1"
            )
        self.assertIn("[onload] inside = opt/onload", str(error))

    def test_a_host_without_configuration_asks_for_no_privileges(self):
        nowhere = self.useFixture(fixtures.TempDir()).join("none.conf")
        self.flags(config_file=nowhere, group=privsep.GROUP)
        self.restart_compute_service("rt-1")
        self.assertIsNone(self.pluggers.asked_at_recovery)


class LiveMigrationTest(libvirt_base.LibvirtMigrationMixin, VifTest):
    def _migrate_stub(self, domain, destination, params, flags):
        self.sent = etree.fromstring(params["destination_xml"])
        super()._migrate_stub(domain, destination, params, flags)

    def test_the_port_is_plugged_there_first_and_unplugged_here_after(self):
        self.flags(vif_plugging_timeout=0)
        self.start_host(base.realtime_host("rt-1"))
        self.start_host(base.realtime_host("rt-2"))
        self.server = self.serve({})
        here = self.host_of(self.server)
        there = "rt-2" if here == "rt-1" else "rt-1"
        self.src, self.dest = self.computes[here], self.computes[there]
        order: list[str] = []
        plug, unplug = self.pluggers.plug, self.pluggers.unplug
        self.pluggers.plug = lambda want: order.append("plug") or plug(want)
        self.pluggers.unplug = lambda port: order.append("un") or unplug(port)
        self._live_migrate(self.server)
        self.assertTrue(self.migrate_stub_ran)
        self.assertEqual(["plug", "un"], order[:2])
        (found,) = self.sent.iter("interface")
        target = {"dev": self.name, "managed": "no"}
        self.assertEqual(target, dict(found.find("target").attrib))
