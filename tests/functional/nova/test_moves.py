# SPDX-License-Identifier: Apache-2.0

"""Moves of instances: what is kept on the way, and where it is refused."""

from typing import Any
from unittest import mock

import fixtures
from lxml import etree
from nova import context
from nova import exception
from nova import objects
from nova.cmd import manage
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.libvirt import base as libvirt_base
from nova.virt.libvirt import driver as libvirt_driver

from sriov_rt.guest import metadata
from sriov_rt.nova import moves
from sriov_rt.nova import refusals
from sriov_rt.nova import weights
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.vif import errors as vif_errors
from tests.functional.nova import base
from tests.functional.nova import test_guest
from tests.functional.nova import test_unfit_host
from tests.functional.nova import test_vif

#: Without hw:cpu_realtime Nova writes no scheduler, and leaves emulator and
#: I/O threads on the vCPUs' pCPUs.
_OURS = {
    "sriov_rt:realtime": "required",
    "sriov_rt:vcpu_sched": "rr:7",
    "sriov_rt:emulator_sched": "fifo:3",
    "hw:cpu_policy": "dedicated",
}
#: With it Nova writes FIFO and the priority of its nova.conf.
_NOVAS = {**base.REALTIME, "sriov_rt:vcpu_sched": "rr:7"}


class LiveMigrationTest(
    libvirt_base.LibvirtMigrationMixin, test_unfit_host.UnfitTest
):
    def setUp(self) -> None:
        super().setUp()
        self.sent: etree._Element | None = None
        self.start_host(base.realtime_host("rt-2"))
        # Nova's fake of libvirt has devices and NUMA cells of its own.
        self.useFixture(
            fixtures.MonkeyPatch(
                "nova.virt.libvirt.guest.Guest.get_xml_desc",
                lambda guest, **kwargs: self.domains[-1],
            )
        )
        self.src = self.computes["rt-1"]
        self.dest = self.computes["rt-2"]

    def _migrate_stub(
        self, domain: Any, destination: Any, params: Any, flags: Any
    ) -> None:
        self.sent = etree.fromstring(params["destination_xml"])
        super()._migrate_stub(domain, destination, params, flags)

    def migrate(self, specs: dict[str, str], **kwargs: Any) -> None:
        """Boot a server on rt-1 and live migrate it."""
        self.server = self.boot(specs)
        self.assertEqual("rt-1", self.host_of(self.server))
        self._live_migrate(self.server, **kwargs)

    def tune(self, domain: etree._Element) -> dict[str, list[dict]]:
        """Return what a domain says of the threads, tag by tag."""
        found: dict[str, list[dict]] = {}
        for each in domain.find("cputune"):
            found.setdefault(each.tag, []).append(dict(each.attrib))
        return found

    def test_what_was_pinned_and_scheduled_at_the_spawn_stays_so(self) -> None:
        self.migrate(_OURS)
        tune = self.tune(self.sent)
        self.assertEqual(self.tune(self.domain()), tune)
        self.assertEqual([{"cpuset": "0-1"}], tune["emulatorpin"])
        for each in tune.get("iothreadpin", []):
            self.assertEqual("0-1", each["cpuset"])
        (vcpus,) = tune["vcpusched"]
        self.assertEqual(("rr", "7"), (vcpus["scheduler"], vcpus["priority"]))
        (told,) = self.sent.iter(f"{{{metadata.NAMESPACE}}}guest")
        self.assertEqual("standard", told.get("class"))

    def test_a_scheduler_that_nova_would_write_anew(self) -> None:
        self.migrate(_NOVAS)
        (vcpus,) = self.tune(self.sent)["vcpusched"]
        self.assertEqual(
            {"vcpus": "1", "scheduler": "rr", "priority": "7"}, vcpus
        )

    def test_novas_own_scheduler_is_novas(self) -> None:
        self.migrate(base.REALTIME)
        (vcpus,) = self.tune(self.sent)["vcpusched"]
        self.assertEqual(
            {"vcpus": "1", "scheduler": "fifo", "priority": "1"}, vcpus
        )

    def test_an_ordinary_guest_moves_as_nova_moves_it(self) -> None:
        for name in ("rt-1", "rt-2"):
            self.computes[name].driver._sriov_rt_host = None
        self.migrate({"hw:cpu_policy": "dedicated"})
        (emulator,) = self.tune(self.sent)["emulatorpin"]
        self.assertEqual("2-3", emulator["cpuset"])

    def test_another_destination_is_tried(self) -> None:
        self.start_host(base.realtime_host("rt-3"))
        self.degrade("rt-2")
        self.dest = self.computes["rt-3"]
        self.migrate(_OURS)
        server = self.api.get_server(self.server["id"])
        self.assertEqual("rt-3", self.host_of(server))

    def _assert_refused(self) -> None:
        self.assertFalse(self.migrate_stub_ran)
        server = self.api.get_server(self.server["id"])
        self.assertEqual("rt-1", self.host_of(server))
        usage = self._get_provider_usages(self.compute_rp_uuids["rt-2"])
        self.assertEqual(0, usage["PCPU"])
        self.assertIn("are not isolated", self.logged())
        (kept,) = self.sentences(
            server, "compute_check_can_live_migrate_destination"
        )
        self.assertIn("are not isolated", kept)

    def test_a_destination_that_is_not_fit_is_refused(self) -> None:
        self.degrade("rt-2")
        self.migrate(_OURS, migration_expected_state="error")
        self._assert_refused()

    def test_pins_that_will_not_do_are_given_back(self) -> None:
        self.flags(unfit_host="warn", group="sriov_rt")
        self.degrade("rt-2")
        self.migrate(_OURS, migration_expected_state="error")
        self._assert_refused()
        self._run_periodics()
        self.assertEqual(set(), test_unfit_host.pinned("rt-2"))
        self.assertEqual({2, 3}, test_unfit_host.pinned("rt-1"))

    def test_a_destination_without_housekeeping_cpus_is_refused(self) -> None:
        self.flags(unfit_host="warn", group="sriov_rt")
        host = self.computes["rt-2"].driver._sriov_rt_host
        host.found = base.realtime_host(
            "rt-2",
            cpus={"isolated": CpuSet(range(4))},
        )
        self.migrate(_OURS, migration_expected_state="error")
        self.assertFalse(self.migrate_stub_ran)
        self.assertIn(
            "none is left for the guest's emulator threads", self.logged()
        )

    def test_a_fault_of_ours_is_a_refusal_that_gives_the_pins_back(self):
        with mock.patch.object(
            moves, "place", side_effect=RuntimeError("a mistake of ours")
        ):
            self.migrate(_OURS, migration_expected_state="error")
        self.assertFalse(self.migrate_stub_ran)
        self.assertIn("RuntimeError: a mistake of ours", self.logged())
        self._run_periodics()
        self.assertEqual(set(), test_unfit_host.pinned("rt-2"))


class ColdMigrationTest(test_unfit_host.UnfitTest):
    def setUp(self) -> None:
        super().setUp()
        # It copies disks, of which there are none.
        self.left = self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver"
                ".migrate_disk_and_power_off",
                return_value="{}",
            )
        ).mock

    def test_another_host_is_tried(self) -> None:
        server = self.boot(base.LEAN)
        self.start_host(base.realtime_host("rt-2"))
        self.start_host(base.realtime_host("rt-3"))
        self.degrade("rt-2")
        # By its weights the degraded one comes first.
        server = self._migrate(server, "rt-2")
        self.assertEqual("rt-3", self.host_of(server))

    def _migrate(self, server: Any, first: str) -> Any:
        self.useFixture(
            fixtures.MockPatchObject(
                weights.RealtimeHostWeigher,
                "weigh_objects",
                lambda self_, hosts, spec: [
                    float(each.obj.host == first) for each in hosts
                ],
            )
        )
        return self._migrate_server(server)

    def _assert_left_alone(self, server: Any, was: str = "ACTIVE") -> None:
        self._wait_for_migration_status(server, ["error"])
        server = self._wait_for_state_change(server, was)
        self.assertEqual("rt-1", self.host_of(server))
        self.left.assert_not_called()
        for name, pcpus in (("rt-1", 2), ("rt-2", 0)):
            usage = self._get_provider_usages(self.compute_rp_uuids[name])
            self.assertEqual(pcpus, usage["PCPU"])

    def test_an_instance_is_not_stranded(self) -> None:
        server = self.boot(base.LEAN)
        self.start_host(base.realtime_host("rt-2"))
        self.degrade("rt-2")
        self.api.post_server_action(server["id"], {"migrate": None})
        self._assert_left_alone(server)
        self.assertIn("dedicated pCPUs 3 are not isolated", self.logged())
        (kept,) = self.sentences(server, "compute_prep_resize")
        self.assertIn("dedicated pCPUs 3 are not isolated", kept)

    def test_nor_without_another_attempt(self) -> None:
        self.flags(max_attempts=1, group="scheduler")
        server = self.boot(base.LEAN)
        self.start_host(base.realtime_host("rt-2"))
        self.degrade("rt-2")
        self.api.post_server_action(server["id"], {"migrate": None})
        self._assert_left_alone(server)

    def test_a_resize_is_judged_by_the_new_flavor(self) -> None:
        server = self.boot({})
        self.start_host(base.realtime_host("rt-2"))
        self.degrade("rt-2")
        flavor = self.flavor(base.LEAN)
        body = {"resize": {"flavorRef": flavor}}
        self.flags(allow_resize_to_same_host=False)
        self.api.post_server_action(server["id"], body)
        self._wait_for_migration_status(server, ["error"])
        server = self._wait_for_state_change(server, "ACTIVE")
        self.assertEqual("rt-1", self.host_of(server))

    def test_pins_that_will_not_do_are_found_before_the_source_lets_go(self):
        self.flags(unfit_host="warn", group="sriov_rt")
        server = self.boot(base.LEAN)
        self.start_host(base.realtime_host("rt-2"))
        self.degrade("rt-2")
        self.api.post_server_action(server["id"], {"migrate": None})
        self._assert_left_alone(server)
        (kept,) = self.sentences(server, "compute_prep_resize")
        self.assertIn("realtime vCPUs", kept)

    def test_a_fault_of_ours_leaves_it_as_it_is(self):
        server = self.boot(base.LEAN)
        self.start_host(base.realtime_host("rt-2"))
        fault = RuntimeError("a mistake of ours")
        with mock.patch.object(test_guest.plugins, "load", side_effect=fault):
            self.api.post_server_action(server["id"], {"migrate": None})
            self._assert_left_alone(server)
        self._run_periodics()
        self.assertEqual(set(), test_unfit_host.pinned("rt-2"))
        (kept,) = self.sentences(server, "compute_prep_resize")
        self.assertIn("a mistake of ours", kept)


class LeftHostCase(test_unfit_host.UnfitTest):
    """An instance with a port and a volume, whose host it has left."""

    VOLUME = "8a8b6c1e-6f0c-4a9b-8f3b-0b5f3c4d5e6f"

    def setUp(self) -> None:
        super().setUp()
        self.cinder = self.useFixture(nova_fixtures.CinderFixture(self))
        self.port = self.neutron.port_1["id"]
        self.server = self._create_server(
            flavor_id=self.flavor(base.LEAN),
            networks=[{"port": self.port}],
        )
        self.assertEqual("rt-1", self.host_of(self.server))
        self.api.post_server_volume(
            self.server["id"], {"volumeAttachment": {"volumeId": self.VOLUME}}
        )
        self._wait_for_assert(
            lambda: self.assertEqual(1, len(self.connections()))
        )
        self.start_host(base.realtime_host("rt-2"))

    def connections(self) -> list[Any]:
        """Return the hosts that the volume is connected to."""
        attachments = self.cinder.volume_to_attachment[self.VOLUME]
        return [
            each["connector"]["host"]
            for each in attachments.values()
            if each.get("connector")
        ]

    def bound_to(self) -> str:
        """Return the host that Neutron has bound the port to."""
        host: str = self.neutron._ports[self.port]["binding:host_id"]
        return host

    def down(self) -> None:
        """Let rt-1 be dead."""
        self.computes["rt-1"].stop()
        (service,) = self.admin_api.get_services(
            binary="nova-compute", host="rt-1"
        )
        self.api.put_service_force_down(service["id"], True)

    def recorded_fault(self) -> str:
        """Return the fault that Nova keeps; its API shows an ERROR's alone."""
        faults = objects.InstanceFaultList.get_by_instance_uuids(
            context.get_admin_context(), [self.server["id"]]
        )
        message: str = faults[0].message
        return message

    def assert_left_alone(self, sentence: str) -> None:
        """Check that a refused evacuation has changed nothing."""
        server = self._evacuate_server(
            self.server,
            expected_host="rt-1",
            expected_task_state=None,
            expected_migration_status="failed",
            expected_state="ACTIVE",
        )
        self.assertEqual("rt-1", self.bound_to())
        self.assertEqual(["rt-1"], self.connections())
        self.assert_no_domains("rt-2")
        self.assertEqual(1, len(self.domains))
        for name, pcpus in (("rt-1", 2), ("rt-2", 0)):
            usage = self._get_provider_usages(self.compute_rp_uuids[name])
            self.assertEqual(pcpus, usage["PCPU"])
        self._wait_for_assert(
            lambda: self.assertIn(
                sentence,
                "".join(self.sentences(server, "compute_rebuild_instance")),
            )
        )
        self.assertTrue(
            self.recorded_fault().startswith(sentence), self.recorded_fault()
        )


class LeftHostTest(LeftHostCase):
    def test_a_refused_evacuation_changes_nothing(self) -> None:
        self.degrade("rt-2")
        self.down()
        self.assert_left_alone("dedicated pCPUs 3 are not isolated")
        # Once the host is repaired, it is evacuated to it.
        host = self.computes["rt-2"].driver._sriov_rt_host
        host.found = base.realtime_host("rt-2")
        self._evacuate_server(self.server, expected_host="rt-2")
        self.assertEqual("rt-2", self.bound_to())
        self.assertEqual(["rt-2"], self.connections())

    def test_nor_does_one_whose_pins_will_not_do(self) -> None:
        self.flags(unfit_host="warn", group="sriov_rt")
        self.degrade("rt-2")
        self.down()
        self.assert_left_alone("realtime vCPUs 1 run on pCPUs 3")
        self._run_periodics()
        self.assertEqual(set(), test_unfit_host.pinned("rt-2"))

    def test_nor_does_one_to_a_host_whose_hooks_are_missing(self) -> None:
        problem = test_guest.plugins.HookUnusable("theirs", "no such module")
        self.down()
        with mock.patch.object(
            test_guest.plugins, "load", side_effect=problem
        ):
            self.assert_left_alone("the guest hook theirs can't be loaded")

    def test_one_that_is_refused_later_is_a_fault(self) -> None:
        self.down()
        problem = refusals.HostRefused(reason="found too late")
        with mock.patch.object(
            libvirt_driver.LibvirtDriver, "spawn", side_effect=problem
        ):
            server = self._evacuate_server(
                self.server,
                expected_migration_status="failed",
                expected_state="ERROR",
            )
        self.assertEqual("found too late", self.fault(server))

    def test_an_unshelve_that_is_refused_binds_nothing(self) -> None:
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server, expected_state="SHELVED_OFFLOADED")
        self.degrade("rt-1")
        self.degrade("rt-2")
        moved = self.useFixture(
            fixtures.MockPatch(
                "nova.network.neutron.API.setup_instance_network_on_host"
            )
        ).mock
        self.api.post_server_action(self.server["id"], {"unshelve": None})
        self._wait_for_assert(
            lambda: self.assertTrue(
                self.sentences(self.server), "no refusal yet"
            )
        )
        server = self._wait_for_server_parameter(
            self.server,
            {"status": "SHELVED_OFFLOADED", "OS-EXT-STS:task_state": None},
        )
        self.assertIsNone(self.host_of(server))
        moved.assert_not_called()
        self.assertIn("are not isolated", self.recorded_fault())
        self.assertEqual([], self.connections())


class PortTest(LeftHostCase, test_vif.VifTest):
    """The same with a port of ours, which is judged before it is moved."""

    #: What a host says that has an accelerated instance of the network.
    SPREAD = "onload_same_host: an accelerated instance of its network is the"

    def refuse(self) -> None:
        """Let no host have a NIC left for the port."""
        self.pluggers.refuse = vif_errors.SpreadNeeded(
            "enp1s0", port=self.port
        )

    def test_an_evacuation_without_a_nic_left_changes_nothing(self) -> None:
        self.refuse()
        self.down()
        self.assert_left_alone(f"port={self.port} enp1s0: {self.SPREAD}")
        self.pluggers.refuse = None
        self._evacuate_server(self.server, expected_host="rt-2")
        self.assertEqual("rt-2", self.bound_to())

    def _resize(self, specs: dict[str, str]) -> Any:
        self.flags(allow_resize_to_same_host=False)
        left = self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver"
                ".migrate_disk_and_power_off",
                return_value="{}",
            )
        ).mock
        body = {"resize": {"flavorRef": self.flavor(specs)}}
        self.api.post_server_action(self.server["id"], body)
        self._wait_for_migration_status(self.server, ["error"])
        server = self._wait_for_state_change(self.server, "ACTIVE")
        self.assertEqual("rt-1", self.host_of(server))
        self.assertEqual("rt-1", self.bound_to())
        self.assertEqual(["rt-1"], self.connections())
        left.assert_not_called()
        return server

    def assert_kept(self, server: Any, sentence: str) -> None:
        """Check what the event of a refused resize has."""
        self._wait_for_assert(
            lambda: self.assertIn(
                sentence,
                "".join(
                    each or ""
                    for each in self.sentences(server, "compute_prep_resize")
                ),
            )
        )

    def test_a_resize_to_a_kind_that_no_guest_here_can_have(self) -> None:
        server = self._resize({**base.LEAN, "sriov_rt:vif": "vf"})
        self.assert_kept(server, "--vnic-type direct")

    def test_a_resize_to_a_host_without_a_place_for_the_port(self) -> None:
        self.refuse()
        server = self._resize({})
        self.assert_kept(server, "onload_same_host")

    def test_a_live_migration_is_refused_before_it_begins(self) -> None:
        self.refuse()
        driver = self.computes["rt-2"].driver
        found = objects.Instance.get_by_uuid(
            context.get_admin_context(),
            self.server["id"],
            expected_attrs=["info_cache", "flavor"],
        )
        error = self.assertRaises(
            exception.MigrationPreCheckError,
            driver.check_can_live_migrate_destination,
            context.get_admin_context(),
            found,
            {},
            {},
        )
        self.assertIn("onload_same_host", str(error))

    def test_an_unshelve_without_a_nic_left_binds_nothing(self) -> None:
        self.flags(shelved_offload_time=0)
        self._shelve_server(self.server, expected_state="SHELVED_OFFLOADED")
        self.refuse()
        moved = self.useFixture(
            fixtures.MockPatch(
                "nova.network.neutron.API.setup_instance_network_on_host"
            )
        ).mock
        self.api.post_server_action(self.server["id"], {"unshelve": None})
        self._wait_for_assert(
            lambda: self.assertTrue(
                self.sentences(self.server), "no refusal yet"
            )
        )
        self._wait_for_server_parameter(
            self.server,
            {"status": "SHELVED_OFFLOADED", "OS-EXT-STS:task_state": None},
        )
        moved.assert_not_called()
        self.assertIn("onload_same_host", self.recorded_fault())


class RevertTest(test_unfit_host.UnfitTest):
    """A resize that is reverted to a host that is not fit any more."""

    def setUp(self) -> None:
        super().setUp()
        self.cinder = self.useFixture(nova_fixtures.CinderFixture(self))
        self.port = self.neutron.port_1["id"]
        # It copies disks, of which there are none.
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver"
                ".migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        server = self._create_server(
            flavor_id=self.flavor(base.LEAN),
            networks=[{"port": self.port}],
        )
        self.assertEqual("rt-1", self.host_of(server))
        self.start_host(base.realtime_host("rt-2"))
        self.server = self._migrate_server(server)
        self.assertEqual("rt-2", self.host_of(self.server))

    def test_it_is_a_fault_with_the_sentence_and_mended_by_a_reboot(self):
        host = self.degrade("rt-1")
        self.api.post_server_action(self.server["id"], {"revertResize": None})
        server = self._wait_for_state_change(self.server, "ERROR")
        self.assertEqual("rt-1", self.host_of(server))
        self.assertIn("realtime vCPUs", self.fault(server))
        # It is whole there but for its domain.
        self.assert_no_domains("rt-1")
        self.assert_no_domains("rt-2")
        bound = self.neutron._ports[self.port]["binding:host_id"]
        self.assertEqual("rt-1", bound)
        host.found = base.realtime_host("rt-1")
        server = self._reboot_server(server, hard=True)
        self.assertEqual("rt-1", self.host_of(server))
        for name, pcpus in (("rt-1", 2), ("rt-2", 0)):
            usage = self._get_provider_usages(self.compute_rp_uuids[name])
            self.assertEqual(pcpus, usage["PCPU"])


class RecordedTest(test_vif.VifTest):
    """What Nova records of an image the first time a server starts."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                "nova.virt.libvirt.driver.LibvirtDriver._create_image",
                test_guest._create_image,
            )
        )
        self.left = self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver"
                ".migrate_disk_and_power_off",
                return_value="{}",
            )
        ).mock
        self.useFixture(
            fixtures.MonkeyPatch(
                "nova.virt.libvirt.guest.Guest.get_xml_desc",
                lambda guest, **kwargs: self.domains[-1],
            )
        )
        self.start_host(base.realtime_host("rt-1"))
        self.start_host(base.realtime_host("rt-2"))

    def _refused(self, server: Any, flavor: str) -> None:
        """Resize a server to a flavor that it can't have."""
        here = self.host_of(server)
        body = {"resize": {"flavorRef": flavor}}
        self.api.post_server_action(server["id"], body)
        self._wait_for_migration_status(server, ["error"])
        server = self._wait_for_state_change(server, "ACTIVE")
        self.assertEqual(here, self.host_of(server))
        self.left.assert_not_called()
        self._wait_for_assert(
            lambda: self.assertIn(
                "Exception during message handling", self.logged()
            )
        )
        # The other host gives back what it had claimed.
        self._run_periodics()

    def test_a_resize_to_bare_names_a_remedy_that_works(self) -> None:
        server = self.serve(base.LEAN, image=self.sata())
        flavor = self.flavor(base.BARE)
        self._refused(server, flavor)
        wanted = "hw_vif_model=e1000e"
        command = (
            f"'nova-manage image_property set {server['id']} "
            f"--property {wanted}'"
        )
        self.assertIn(f"stop the server and run {command}", self.logged())
        self._stop_server(server)
        command = manage.ImagePropertyCommands()
        self.assertEqual(0, command.set(server["id"], [wanted]))
        # Its domain is rendered again when it starts.
        self._start_server(server)
        self._resize_server(server, flavor)
        (model,) = self.interface().iter("model")
        self.assertEqual("e1000e", model.get("type"))

    def test_of_a_disk_nothing_but_a_new_server_is_a_remedy(self) -> None:
        server = self.serve(base.LEAN)
        self._refused(server, self.flavor(base.BARE))
        self.assertIn(
            "disk vda is on virtio and sriov_rt:guest=bare allows no virtio; "
            "a server keeps the bus of its disks: create a new one from an "
            "image with hw_disk_bus=sata",
            self.logged(),
        )
