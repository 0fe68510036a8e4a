# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Moves of instances: what is kept on the way, and where it is refused."""

from typing import Any

import fixtures
from lxml import etree
from nova import context
from nova import objects
from nova.cmd import manage
from nova.tests.functional.libvirt import base as libvirt_base

from sriov_rt.guest import metadata
from sriov_rt.nova import weights
from sriov_rt.parse.cpulist import CpuSet
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
        free = self._host_cpus("rt-2")
        self.assertEqual(set(), free)
        self.assertEqual({2, 3}, self._host_cpus("rt-1"))

    def _host_cpus(self, name: str) -> set[int]:
        """Return the pCPUs of a host that are pinned."""
        node = objects.ComputeNode.get_by_nodename(
            context.get_admin_context(), name
        )
        topology = objects.NUMATopology.obj_from_db_obj(node.numa_topology)
        return set().union(*(each.pinned_cpus for each in topology.cells))

    def test_a_destination_without_housekeeping_cpus_is_refused(self) -> None:
        self.flags(unfit_host="warn", group="sriov_rt")
        host = self.computes["rt-2"].driver._sriov_rt_host
        host.found = base.realtime_host(
            "rt-2",
            cpus={"isolated": CpuSet(range(4))},
        )
        self.migrate(_OURS, migration_expected_state="error")
        self.assertFalse(self.migrate_stub_ran)
        self.assertIn("every online CPU is dedicated", self.logged())


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

    def test_an_evacuation_is_refused_and_the_instance_stays(self) -> None:
        server = self.boot(base.LEAN)
        self.start_host(base.realtime_host("rt-2"))
        self.degrade("rt-2")
        self.computes["rt-1"].stop()
        self.api.put_service_force_down(
            self.admin_api.get_services(binary="nova-compute", host="rt-1")[0][
                "id"
            ],
            True,
        )
        server = self._evacuate_server(
            server,
            expected_host="rt-1",
            expected_migration_status="failed",
            expected_state="ACTIVE",
        )
        self.assertEqual("rt-1", self.host_of(server))


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
