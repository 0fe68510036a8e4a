# SPDX-License-Identifier: Apache-2.0

"""Ordinary servers in a cloud where some hosts have parents for their ports.

rt-1 and rt-2 have, std-1 has our driver alone; Open vSwitch reaches all.
"""

from typing import Any
from unittest import mock

import fixtures
from neutronclient.common import exceptions as neutron_exceptions
from nova import context
from nova import objects
from nova.scheduler.filters import aggregate_instance_extra_specs
from nova.tests.functional.libvirt import base as libvirt_base
from oslo_privsep import daemon

from sriov_rt.nova import refusals
from sriov_rt.nova import weights
from sriov_rt.vif import errors as vif_errors
from sriov_rt.vif import privsep
from tests.functional.nova import base
from tests.functional.nova import test_vif
from tests.unit.vif import fake_plugger

PARENTS = {"physnet1": 2}


class MixedCloudTest(libvirt_base.LibvirtMigrationMixin, test_vif.VifTest):
    """Nova with a Neutron that binds as ML2 does: ours before Open vSwitch."""

    def setUp(self) -> None:
        super().setUp()
        self.flags(vif_plugging_timeout=0)
        self.parents: dict[str, dict[str, int]] = {}
        #: The host that the scheduler takes before the others.
        self.first = ""
        self.useFixture(
            fixtures.MockPatchObject(
                weights.RealtimeHostWeigher,
                "weigh_objects",
                lambda self_, hosts, spec: [
                    float(each.obj.host == self.first) for each in hosts
                ],
            )
        )
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver"
                ".migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        self._bind_by_host()

    def bind(self, **details: Any) -> None:
        """Leave it to the host that the port comes to."""

    def binding(self, host: str | None) -> tuple[str, dict[str, Any]]:
        """Return vif_type and vif_details of the port on a host."""
        if self.parents.get(host or ""):
            return "sriov_rt", test_vif.DETAILS
        return "ovs", {}

    def _bind_by_host(self) -> None:
        update, create = (
            self.neutron.update_port,
            self.neutron.create_port_binding,
        )

        def update_port(port: str, body: Any = None) -> Any:
            given = dict(body["port"])
            if "binding:host_id" in given:
                kind, details = self.binding(given["binding:host_id"])
                given["binding:vif_type"] = kind
                given["binding:vif_details"] = details
            if not self.neutron._port_bindings[port]:
                # One that is bound to nobody stays so.
                given = {k: v for k, v in given.items() if v is not None}
            return update(port, {"port": given})

        def create_port_binding(port: str, body: Any) -> Any:
            made = create(port, body)["binding"]
            kind, details = self.binding(made["host"])
            made.update(vif_type=kind, vif_details=details)
            return {"binding": made}

        self.neutron.update_port = update_port
        self.neutron.create_port_binding = create_port_binding

    def start(self, name: str, parents: dict[str, int] | None = None) -> None:
        """Start a host; only its own parents are known there."""
        make = base.realtime_host if parents else base.ordinary_host
        self.parents[name] = parents or {}
        self.start_host(make(name), agent=False)
        driver = self.computes[name].driver.vif_driver
        check = driver.check_ports

        def check_ports(*args: Any, **kwargs: Any) -> None:
            self.pluggers.parents = self.parents[name]
            check(*args, **kwargs)

        driver.check_ports = check_ports

    def server_on(self, name: str) -> Any:
        """Boot an ordinary server with the port on the only host."""
        self.server = self.serve({})
        self.assertEqual(name, self.host_of(self.server))
        return self.server

    def down(self, name: str) -> None:
        """Let a host be dead."""
        self.computes[name].stop()
        (service,) = self.admin_api.get_services(
            binary="nova-compute", host=name
        )
        self.api.put_service_force_down(service["id"], True)

    def bound(self) -> tuple[str, str]:
        """Return the host that the port is bound to, and by whom."""
        port = self.neutron.show_port(self.port)["port"]
        return port["binding:host_id"], port["binding:vif_type"]

    def full(self) -> None:
        """Let no parent of any host be free."""
        self.pluggers.refuse = vif_errors.NoParent("physnet1", port=self.port)

    def cold_migrate(self, there: str) -> None:
        """Cold migrate the server and confirm."""
        server = self._migrate_server(self.server)
        self.assertEqual(there, self.host_of(server))
        self._confirm_resize(server)

    def live_migrate(self, here: str, there: str, state: str) -> None:
        """Live migrate the server."""
        self.src, self.dest = self.computes[here], self.computes[there]
        self._live_migrate(self.server, migration_expected_state=state)

    def shelve(self) -> None:
        """Shelve the server and offload it."""
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server, expected_state="SHELVED_OFFLOADED")

    def disable(self, name: str) -> None:
        """Let a host get no more servers."""
        (service,) = self.admin_api.get_services(
            binary="nova-compute", host=name
        )
        self.admin_api.put_service(service["id"], {"status": "disabled"})


class FromParentsTest(MixedCloudTest):
    """A server whose port we bound goes where Open vSwitch will have it.

    No parent is free anywhere, and none is asked for.
    """

    def setUp(self) -> None:
        super().setUp()
        self.start("rt-1", PARENTS)
        self.server_on("rt-1")
        self.assertEqual(("rt-1", "sriov_rt"), self.bound())
        self.full()
        self.start("std-1")

    def _assert_there(self) -> None:
        self.assertEqual(("std-1", "ovs"), self.bound())
        self.assertEqual([], self.pluggers.checked)
        self.assertNotIn("refused by sriov-rt", self.logged())

    def test_by_cold_migration(self) -> None:
        self.cold_migrate("std-1")
        self._assert_there()

    def test_by_evacuation(self) -> None:
        self.down("rt-1")
        self._evacuate_server(self.server, expected_host="std-1")
        self._assert_there()

    def test_by_live_migration(self) -> None:
        self.live_migrate("rt-1", "std-1", "completed")
        self._assert_there()

    def test_by_unshelve(self) -> None:
        self.shelve()
        self.disable("rt-1")
        server = self._unshelve_server(self.server)
        self.assertEqual("std-1", self.host_of(server))
        self._assert_there()


class ToParentsTest(MixedCloudTest):
    """A server whose port Open vSwitch has comes where we will have it."""

    def setUp(self) -> None:
        super().setUp()
        self.start("std-1")
        self.server_on("std-1")
        self.assertEqual(("std-1", "ovs"), self.bound())
        self.start("rt-1", PARENTS)

    def _assert_left_alone(self) -> None:
        server = self.api.get_server(self.server["id"])
        self.assertEqual("ACTIVE", server["status"])
        self.assertEqual("std-1", self.host_of(server))
        self.assertEqual(("std-1", "ovs"), self.bound())
        self.assertIn("no parent is available", self.logged())

    def test_with_a_parent_left(self) -> None:
        self.cold_migrate("rt-1")
        self.assertEqual(("rt-1", "sriov_rt"), self.bound())
        (checked,) = self.pluggers.checked
        self.assertEqual(
            ("physnet1", 100), (checked.physical_network, checked.vlan)
        )
        self.assertEqual([self.port], list(self.pluggers.ports))

    def test_an_evacuation_without_a_parent_left_changes_nothing(self) -> None:
        self.full()
        self.down("std-1")
        self._evacuate_server(
            self.server,
            expected_host="std-1",
            expected_task_state=None,
            expected_migration_status="failed",
            expected_state="ACTIVE",
        )
        self._assert_left_alone()

    def test_nor_does_a_live_migration(self) -> None:
        self.full()
        self.live_migrate("std-1", "rt-1", "error")
        self.assertFalse(self.migrate_stub_ran)
        self._assert_left_alone()

    def test_a_cold_migration_takes_the_next_host(self) -> None:
        self.full()
        self.start("std-2")
        self.first = "rt-1"
        self.cold_migrate("std-2")
        self.assertIn("no parent is available", self.logged())

    def test_a_kind_that_no_guest_there_can_have(self) -> None:
        self.full()
        self.binding = lambda host: ("ovs", {})
        with mock.patch.object(fake_plugger, "KINDS", {}):
            self.cold_migrate("rt-1")
        self.assertEqual(("rt-1", "ovs"), self.bound())

    def test_a_port_that_is_none_of_ours_anywhere(self) -> None:
        self.full()
        self.neutron._ports[self.port]["qos_policy_id"] = "limits"
        self.binding = lambda host: ("ovs", {})
        self.cold_migrate("rt-1")
        self.assertEqual(("rt-1", "ovs"), self.bound())

    def test_a_tunnel_is_not_asked_about(self) -> None:
        self.full()
        for network in self.neutron._networks.values():
            del network["provider:physical_network"]
        self.binding = lambda host: ("ovs", {})
        self._reboot_server(self.server, hard=True)
        with (
            mock.patch.object(privsep, "offer", side_effect=RuntimeError),
            mock.patch.object(self.neutron, "show_network") as asked,
        ):
            asked.return_value = {"network": {}}
            self.cold_migrate("rt-1")


class FaultTest(MixedCloudTest):
    """What goes wrong in a check of ours."""

    #: Whatever the daemon, Neutron or we ourselves may do.
    FAULTS = (
        daemon.FailedToDropPrivileges("privsep helper command exited"),
        OSError("the daemon has ended"),
        RuntimeError("a mistake of ours"),
        privsep.HostRefused("RecordsBroken", "the records are broken"),
    )

    def _migrate_refused(self, here: str) -> str:
        self.api.post_server_action(self.server["id"], {"migrate": None})
        self._wait_for_migration_status(self.server, ["error"])
        server = self._wait_for_state_change(self.server, "ACTIVE")
        self.assertEqual(here, self.host_of(server))
        return self.logged()

    def _refusal(self, name: str) -> str:
        """Return why a host refuses the server."""
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(),
            self.server["id"],
            expected_attrs=["info_cache", "flavor"],
        )
        error = self.assertRaises(
            refusals.HostRefused,
            self.computes[name].driver._sriov_rt_judge,
            instance,
            instance.flavor,
        )
        return error.format_message()

    def test_it_is_a_refusal_where_a_port_would_be_ours(self) -> None:
        self.start("rt-1", PARENTS)
        self.server_on("rt-1")
        self.start("rt-2", PARENTS)
        for name in ("offer", "check"):
            for fault in self.FAULTS:
                with (
                    self.subTest(name, fault=fault),
                    mock.patch.object(privsep, name, side_effect=fault),
                ):
                    self.assertIn(str(fault), self._refusal("rt-2"))

    def test_which_leaves_a_running_server_as_it_is(self) -> None:
        self.start("rt-1", PARENTS)
        self.server_on("rt-1")
        self.start("rt-2", PARENTS)
        with mock.patch.object(privsep, "offer", side_effect=self.FAULTS[0]):
            logged = self._migrate_refused("rt-1")
        self.assertIn("FailedToDropPrivileges", logged)
        self.assertEqual(("rt-1", "sriov_rt"), self.bound())

    def test_a_rate_that_no_port_of_ours_can_have(self) -> None:
        """Where Open vSwitch has it, the flavor is as good as any."""
        self.start("std-1")
        rates = {"quota:vif_outbound_average": "99999999"}
        self.server = self.serve(rates)
        self.start("rt-1", PARENTS)
        self.assertIn("quota:vif_outbound_average", self._refusal("rt-1"))

    def test_so_is_neutrons_silence(self) -> None:
        self.start("std-1")
        self.server_on("std-1")
        self.start("rt-1", PARENTS)
        silence = neutron_exceptions.ConnectionFailed(reason="refused")
        with mock.patch(
            "nova.network.neutron.API.show_port", side_effect=silence
        ):
            self._migrate_refused("std-1")

    def test_it_is_no_obstacle_where_none_would(self) -> None:
        self.start("rt-1", PARENTS)
        self.server_on("rt-1")
        self.start("std-1")
        broken = RuntimeError("broken")
        with (
            mock.patch.object(privsep, "offer", side_effect=broken),
            mock.patch.object(privsep, "check", side_effect=broken),
        ):
            self.cold_migrate("std-1")

    def test_nor_are_our_parts_for_an_ordinary_port(self) -> None:
        self.start("std-1")
        self.server_on("std-1")
        self.start("std-2")
        with mock.patch.object(
            privsep, "networks", side_effect=RuntimeError("broken")
        ):
            self.cold_migrate("std-2")
        self.assertNotIn("broken", self.logged())

    def test_a_configuration_that_cannot_be_read(self) -> None:
        """Only what was ours may be ours then; the daemon knows more."""
        self.start("rt-1", PARENTS)
        self.server_on("rt-1")
        self.start("std-1")
        with mock.patch.object(privsep, "networks", lambda: None):
            self.cold_migrate("std-1")
            self.full()
            with mock.patch.object(privsep, "offer", side_effect=OSError):
                self.cold_migrate("rt-1")


class UnshelvedBoundTest(MixedCloudTest):
    def test_a_port_of_ours_finds_no_parent(self) -> None:
        self.start("rt-1", PARENTS)
        self.server_on("rt-1")
        self.shelve()
        self.full()
        self.api.post_server_action(self.server["id"], {"unshelve": None})
        self._wait_for_assert(
            lambda: self.assertIn("no parent is available", self.logged())
        )
        self._wait_for_server_parameter(
            self.server,
            {"status": "SHELVED_OFFLOADED", "OS-EXT-STS:task_state": None},
        )


class FastNetworkTest(MixedCloudTest):
    """A network that realtime hosts alone reach, and the page's aggregate."""

    def setUp(self) -> None:
        super().setUp()
        self.start("std-1")
        self.start("rt-1", PARENTS)
        self.first = "std-1"

    def binding(self, host: str | None) -> tuple[str, dict[str, Any]]:
        """Return the port's binding, which no other host can have."""
        if host is None or self.parents[host]:
            return super().binding(host)
        return "binding_failed", {}

    def test_another_host_is_tried_first_for_a_build(self) -> None:
        self.server_on("rt-1")
        self.assertIn("Binding failed for port", self.logged())

    def test_by_its_flavor_it_is_built_and_comes_back_where_it_can(self):
        self.scheduler.manager.host_manager.enabled_filters.append(
            aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter()
        )
        made = self.api.post_aggregate({"aggregate": {"name": "fast-net"}})
        self.api.add_host_to_aggregate(made["id"], "rt-1")
        self.api.post_aggregate_action(
            made["id"], {"set_metadata": {"metadata": {"fast": "true"}}}
        )
        self.server = self.serve(
            {"aggregate_instance_extra_specs:fast": "true"}
        )
        self.shelve()
        self._unshelve_server(self.server)
        self.assertEqual(("rt-1", "sriov_rt"), self.bound())
        self.assertNotIn("Binding failed for port", self.logged())
