# SPDX-License-Identifier: Apache-2.0

"""What we use of Nova, release by release; test_contracts.py runs this.

Its name keeps it from being run against one release only.
"""

import ast
import inspect
import textwrap
import unittest
from unittest import mock

from lxml import etree
from nova import exception
from nova import objects
from nova import weights as nova_weights
from nova.api.validation.extra_specs import base as validation
from nova.api.validation.extra_specs import validators as nova_validators
from nova.cmd import compute as cmd_compute
from nova.compute import claims
from nova.compute import manager
from nova.compute import resource_tracker
from nova.compute import task_states
from nova.conductor.tasks import live_migrate
from nova.network import model as network_model
from nova.network import neutron
from nova.objects import migration_context
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import manager as scheduler_manager
from nova.scheduler import utils
from nova.scheduler import weights as nova_host_weights
from nova.virt import driver as nova_driver
from nova.virt import hardware
from nova.virt import sriov_rt as shim
from nova.virt.libvirt import blockinfo
from nova.virt.libvirt import config
from nova.virt.libvirt import driver as libvirt_driver
from nova.virt.libvirt import migration
from nova.virt.libvirt import vif as libvirt_vif

from sriov_rt.nova import driver
from sriov_rt.nova import filters
from sriov_rt.nova import refusals
from sriov_rt.nova import vif
from sriov_rt.nova import weights


def parameters(function) -> list[str]:
    return list(inspect.signature(function).parameters)


class SchedulerSeams(unittest.TestCase):
    def setUp(self):
        objects.register_all()

    def test_available_filters_may_name_a_function(self):
        handler = nova_filters.HostFilterHandler()
        found = handler.get_matching_classes(
            ["sriov_rt.nova.filters.all_filters"]
        )
        self.assertEqual([filters.RealtimeSriovFilter], found)

    def test_weight_classes_may_name_a_function(self):
        handler = nova_host_weights.HostWeightHandler()
        found = handler.get_matching_classes(
            ["sriov_rt.nova.weights.all_weighers"]
        )
        ours = [
            each
            for each in vars(weights).values()
            if inspect.isclass(each) and each.__module__ == weights.__name__
        ]
        # One without its entry point would never weigh.
        self.assertCountEqual(ours, found)

    def test_a_filter_may_decide_for_all_hosts_at_once(self):
        theirs = nova_filters.BaseHostFilter
        ours = filters.RealtimeSriovFilter
        self.assertEqual(
            ["self", "filter_obj_list", "spec_obj"],
            parameters(theirs.filter_all),
        )
        self.assertEqual(
            parameters(theirs.filter_all), parameters(ours.filter_all)
        )
        self.assertIs(False, theirs.RUN_ON_REBUILD)
        self.assertIs(False, theirs.run_filter_once_per_request)
        self.assertTrue(ours().run_filter_for_index(1))

    def test_a_rebuild_can_be_told(self):
        self.assertEqual(["spec_obj"], parameters(utils.request_is_rebuild))

    def test_a_weigher_may_weigh_all_hosts_at_once(self):
        theirs = nova_weights.BaseWeigher
        ours = weights.RealtimeHostWeigher
        for name in ("weigh_objects", "weight_multiplier"):
            self.assertEqual(
                parameters(getattr(theirs, name)),
                parameters(getattr(ours, name)),
            )
        self.assertEqual(
            ["host_state", "multiplier_name", "multiplier_config"],
            parameters(utils.get_weight_multiplier),
        )

    def test_filters_are_told_the_instance_of_a_request(self):
        source = inspect.getsource(
            scheduler_manager.SchedulerManager._schedule
        )
        told = source.index("spec_obj.instance_uuid = instance_uuid")
        self.assertLess(told, source.index("self._get_sorted_hosts("))

    def test_a_request_tells_of_its_networks(self):
        for name in ("requested_networks", "network_metadata"):
            self.assertIn(name, objects.RequestSpec.fields)
        for name in ("network_id", "port_id"):
            self.assertIn(name, objects.NetworkRequest.fields)
        for name in ("physnets", "tunneled"):
            self.assertIn(name, objects.NetworkMetadata.fields)
        self.assertEqual(
            ["self", "context", "port_id"],
            parameters(neutron.API.show_port),
        )

    def test_a_port_is_known_by_its_network(self):
        self.assertEqual(
            ["self", "context", "network_uuid"], parameters(neutron.API.get)
        )
        source = inspect.getsource(neutron.API._nw_info_build_network)
        self.assertIn("physical_network=physnet", source)
        vif = network_model.VIF(network=network_model.Network())
        self.assertEqual("normal", vif["vnic_type"])
        self.assertIsNone(vif["network"].get_meta("physical_network"))

    def test_a_host_state_has_novas_name_of_the_host(self):
        state = host_manager.HostState("rt-1", "rt-1.example.org", "cell")
        self.assertEqual("rt-1", state.host)


class ApiSeams(unittest.TestCase):
    def test_a_validator_validates_name_and_value(self):
        self.assertEqual(
            ["self", "name", "value"],
            parameters(validation.ExtraSpecValidator.validate),
        )

    def test_ours_are_loaded(self):
        self.assertIn("sriov_rt:kernel", nova_validators.VALIDATORS)
        self.assertIn("sriov_rt", nova_validators.NAMESPACES)
        nova_validators.validate("sriov_rt:kernel", "preempt_rt")

    def test_what_they_raise_is_a_sentence(self):
        for name in ("sriov_rt:kernel", "sriov_rt:kernels"):
            with self.assertRaises(exception.ValidationError) as caught:
                nova_validators.validate(name, "rt")
            self.assertIn(name, caught.exception.format_message())
            self.assertIn("expected", caught.exception.format_message())


class ComputeSeams(unittest.TestCase):
    def test_the_driver_is_found_in_novas_tree(self):
        self.assertIs(driver.RealtimeLibvirtDriver, shim.RealtimeLibvirtDriver)
        source = inspect.getsource(nova_driver.load_compute_driver)
        self.assertIn("nova.virt.%s", source)

    def test_the_driver_is_made_as_libvirts_is(self):
        self.assertEqual(
            ["self", "virtapi", "read_only"],
            parameters(libvirt_driver.LibvirtDriver.__init__),
        )

    def test_a_domain_is_made_for_context_and_instance(self):
        found = parameters(libvirt_driver.LibvirtDriver._get_guest_xml)
        self.assertEqual(["self", "context", "instance"], found[:3])

    def test_whatever_defines_a_domain_asks_for_its_xml_there(self):
        for name in (
            "spawn",
            "_hard_reboot",
            "rescue",
            "finish_migration",
            "finish_revert_migration",
        ):
            method = getattr(libvirt_driver.LibvirtDriver, name)
            source = inspect.getsource(method)
            self.assertIn("self._get_guest_xml(", source, name)

    def test_the_cpu_sets_are_novas_own(self):
        for function in (
            hardware.get_cpu_dedicated_set,
            hardware.get_cpu_shared_set,
        ):
            self.assertEqual([], parameters(function))

    def test_the_vif_driver_may_be_replaced(self):
        source = inspect.getsource(libvirt_driver.LibvirtDriver.__init__)
        self.assertIn("self.vif_driver = ", source)
        self.assertIn("self._host = ", source)
        for name in ("plug_vifs", "_unplug_vifs", "attach_interface"):
            method = getattr(libvirt_driver.LibvirtDriver, name)
            self.assertIn("self.vif_driver.", inspect.getsource(method), name)

    def test_a_vif_driver_is_called_as_ours_takes_it(self):
        theirs = libvirt_vif.LibvirtGenericVIFDriver
        ours = vif.RealtimeVifDriver
        for name in ("plug", "unplug", "get_config", "get_vif_devname"):
            self.assertEqual(
                parameters(getattr(theirs, name)),
                parameters(getattr(ours, name)),
            )
        self.assertEqual(
            [
                *("self", "instance", "mac", "image_meta"),
                *("flavor", "virt_type", "vnic_type"),
            ],
            parameters(theirs.get_base_config),
        )

    def test_a_port_is_attached_as_ours_takes_it(self):
        self.assertEqual(
            ["self", "context", "instance", "image_meta", "vif"],
            parameters(libvirt_driver.LibvirtDriver.attach_interface),
        )

    def test_a_domain_is_written_before_its_ports_are_plugged(self):
        for name in ("spawn", "_hard_reboot"):
            method = getattr(libvirt_driver.LibvirtDriver, name)
            source = inspect.getsource(method)
            self.assertLess(
                source.index("self._get_guest_xml("),
                source.index("self._create_guest_with_network("),
                name,
            )

    def test_a_guest_is_made_of_the_xml_that_is_handed_in(self):
        found = libvirt_driver.LibvirtDriver._create_guest
        self.assertEqual(
            ["self", "context", "xml", "instance"], parameters(found)[:4]
        )
        source = inspect.getsource(found)
        self.assertLess(
            source.index("Guest.create(xml, "), source.index("guest.launch(")
        )

    def test_a_container_is_made_when_its_image_is_mounted(self):
        source = textwrap.dedent(
            inspect.getsource(
                libvirt_driver.LibvirtDriver._create_guest_with_network
            )
        )
        self.assertLess(
            source.index("self.plug_vifs("),
            source.index("self._lxc_disk_handler("),
        )
        mounted = [
            each
            for each in ast.walk(ast.parse(source))
            if isinstance(each, ast.With)
            and "_lxc_disk_handler" in ast.unparse(each.items[0])
        ]
        self.assertEqual(1, len(mounted))
        (call,) = mounted[0].body
        self.assertIn(
            "self._create_guest(context, xml, instance", ast.unparse(call)
        )
        self.assertEqual(1, source.count("self._create_guest("))
        handler = inspect.getsource(
            libvirt_driver.LibvirtDriver._lxc_disk_handler
        )
        self.assertLess(
            handler.index("self._create_domain_setup_lxc("),
            handler.rindex("yield"),
        )
        self.assertIn(
            "disk_api.setup_container(",
            inspect.getsource(
                libvirt_driver.LibvirtDriver._create_domain_setup_lxc
            ),
        )

    def test_ports_are_plugged_again_after_init_host(self):
        source = inspect.getsource(manager.ComputeManager.init_host)
        self.assertLess(
            source.index("self.driver.init_host("),
            source.index("self._init_instance("),
        )
        source = inspect.getsource(manager.ComputeManager._init_instance)
        plugged = source.index("self.driver.plug_vifs(")
        survived = source.index("except exception.VirtualInterfacePlug")
        self.assertLess(plugged, survived)

    def test_nova_waits_for_any_port_that_is_down(self):
        vif = {"id": "p", "active": False, "vnic_type": "normal"}
        self.assertEqual(
            [("network-vif-plugged", "p")],
            libvirt_driver.LibvirtDriver._get_neutron_events(None, [vif]),
        )

    def test_os_vif_is_initialized_by_nova_compute(self):
        self.assertIn("os_vif.initialize()", inspect.getsource(cmd_compute))

    def test_a_ready_made_target_can_be_written(self):
        made = config.LibvirtConfigGuestInterface()
        made.net_type, made.target_dev = "ethernet", "srt0"
        made.mac_addr, made.managed, made.mtu = "02:00:00:00:00:01", "no", 9000
        self.assertIn('<target dev="srt0" managed="no"/>', made.to_xml())
        self.assertIn('<mtu size="9000"/>', made.to_xml())

    def test_an_interface_of_the_host_can_be_written(self):
        written = etree.fromstring(vif.HostInterface("srt0").to_xml())
        self.assertEqual(
            {"mode": "capabilities", "type": "net"}, dict(written.attrib)
        )
        self.assertEqual("srt0", written.findtext("source/interface"))

    def test_the_defaults_of_an_image_are_found_one_by_one(self):
        found = parameters(
            libvirt_driver.LibvirtDriver._find_default_for_image_property
        )
        self.assertEqual(["self", "instance", "image_property"], found[:3])

    def test_containers_are_claimed_pcpus_by_the_hosts_topology(self):
        theirs = libvirt_driver.LibvirtDriver
        self.assertEqual(["self"], parameters(theirs._has_numa_support))
        source = inspect.getsource(theirs._get_host_numa_topology)
        self.assertIn("self._has_numa_support()", source)
        self.assertLessEqual(
            {"cpuset", "cputune", "numaconfig", "numatune"},
            set(libvirt_driver.GuestNumaConfig._fields),
        )
        source = inspect.getsource(theirs._get_guest_config)
        self.assertIn("self._get_guest_numa_config(", source)

    def test_live_migration_changes_what_the_destination_names(self):
        theirs = libvirt_driver.LibvirtDriver
        self.assertEqual(
            ["self", "instance_numa_topology", "flavor", "image_meta"],
            parameters(theirs._get_live_migrate_numa_info),
        )
        self.assertEqual(
            ["self", "context", "instance", "migrate_data", "claim"],
            parameters(theirs.post_claim_migrate_data),
        )
        self.assertEqual(
            ["self", "context", "instance"],
            parameters(theirs.check_can_live_migrate_destination)[:3],
        )
        fields = objects.LibvirtLiveMigrateNUMAInfo.fields
        self.assertEqual(
            {
                *("cpu_pins", "cell_pins", "emulator_pins"),
                *("sched_vcpus", "sched_priority"),
            },
            set(fields),
        )
        source = inspect.getsource(migration._update_numa_xml)
        self.assertIn("'sched_priority' in info", source)

    def test_a_refused_destination_is_skipped(self):
        source = inspect.getsource(
            live_migrate.LiveMigrationTask._find_destination
        )
        self.assertIn("exception.MigrationPreCheckError) as e", source)

    def test_a_cold_migration_is_claimed_on_the_destination(self):
        tracker = resource_tracker.ResourceTracker
        self.assertEqual(
            ["self", "context", "instance", "flavor"],
            parameters(tracker.resize_claim)[:4],
        )
        made = manager.ComputeVirtAPI(mock.Mock(rt="the tracker"))
        self.assertEqual("the tracker", made._compute.rt)
        source = inspect.getsource(manager.ComputeManager._prep_resize)
        self.assertLess(
            source.index("self.rt.resize_claim("),
            source.index("self.compute_rpcapi.resize_instance("),
        )
        source = inspect.getsource(
            manager.ComputeManager._error_out_instance_on_exception
        )
        self.assertIn("exception.InstanceFaultRollback", source)
        self.assertEqual(
            ["self", "context", "instance", "dest", "flavor"],
            parameters(
                libvirt_driver.LibvirtDriver.migrate_disk_and_power_off
            )[:5],
        )

    def test_a_host_is_claimed_before_network_and_volumes_move(self):
        tracker = resource_tracker.ResourceTracker
        for name in ("instance_claim", "rebuild_claim"):
            self.assertEqual(
                ["self", "context", "instance", "nodename", "allocations"],
                parameters(getattr(tracker, name))[:5],
            )
        theirs = manager.ComputeManager
        source = inspect.getsource(theirs._do_rebuild_instance_with_claim)
        self.assertLess(
            source.index("rebuild_claim("),
            source.index("self._do_rebuild_instance("),
        )
        # Some of its decorators hide the source of rebuild_instance itself.
        _, _, source = inspect.getsource(theirs).partition(
            "rebuild_claim = self.rt.rebuild_claim"
        )
        self.assertLess(
            source.index("self._error_out_instance_on_exception("),
            source.index("self._do_rebuild_instance_with_claim("),
        )
        for name in ("_unshelve_instance", "_build_and_run_instance"):
            source = inspect.getsource(getattr(theirs, name))
            claimed = source.index("self.rt.instance_claim(")
            self.assertLess(claimed, source.index("self.driver.spawn("))
        source = inspect.getsource(theirs._unshelve_instance)
        self.assertLess(
            source.index("self.rt.instance_claim("),
            source.index("setup_instance_network_on_host("),
        )

    def test_a_rescue_image_is_found_before_the_server_is_stopped(self):
        theirs = manager.ComputeManager
        self.assertEqual(
            ["self", "context", "instance"],
            parameters(theirs._get_rescue_image)[:3],
        )
        source = inspect.getsource(theirs.rescue_instance)
        found = source.index("self._get_rescue_image(")
        self.assertLess(found, source.index("        try:"))
        self.assertLess(found, source.index("self._power_off_instance("))
        self.assertEqual(
            ["instance", "virt_type", "image_meta", "device_type"],
            parameters(blockinfo.get_disk_bus_for_device_type)[:4],
        )
        self.assertEqual(
            ["image_meta"], parameters(hardware.check_hw_rescue_props)
        )

    def test_a_move_that_is_claimed_can_be_given_back(self):
        self.assertEqual(["self"], parameters(claims.MoveClaim.abort))
        self.assertIn(
            "new_numa_topology", migration_context.MigrationContext.fields
        )
        self.assertIs(
            task_states.REBUILD_SPAWNING, manager.task_states.REBUILD_SPAWNING
        )

    def test_a_build_without_resources_is_tried_elsewhere(self):
        source = inspect.getsource(
            manager.ComputeManager._build_and_run_instance
        )
        caught = source.index("except exception.ComputeResourcesUnavailable")
        self.assertLess(
            caught, source.index("raise exception.RescheduledException(")
        )
        refused = refusals.HostRefused(reason="do this")
        self.assertEqual("do this", refused.format_message())
        self.assertIsInstance(refused, exception.ComputeResourcesUnavailable)

    def test_an_aborted_build_is_not_tried_elsewhere(self):
        source = inspect.getsource(
            manager.ComputeManager._build_and_run_instance
        )
        first = source.index("except exception.BuildAbortException")
        self.assertLess(first, source.index("except Exception as e"))

    def test_a_refusals_message_is_the_sentence_alone(self):
        refused = refusals.GuestRefused(instance_uuid="u", reason="do this")
        self.assertEqual("do this", refused.format_message())
        self.assertIsInstance(refused, exception.BuildAbortException)
