# SPDX-License-Identifier: Apache-2.0

import pathlib
from typing import Any
from unittest import mock

import fixtures
from lxml import etree
from nova import objects
from nova.virt.libvirt import utils
from oslo_utils.fixture import uuidsentinel as uuids

from sriov_rt.guest import metadata
from sriov_rt.guest import plugins
from sriov_rt.nova import devices
from sriov_rt.parse.cpulist import CpuSet
from tests.functional.nova import base

#: What `lean` leaves none of, by the elements' names in <devices>.
STRIPPED = ("video", "graphics", "channel", "rng", "input", "sound")


def _create_image(
    driver: Any,
    context: Any,
    instance: Any,
    *args: Any,
    suffix: str = "",
    **kwargs: Any,
) -> tuple[bool, bool]:
    directory = pathlib.Path(utils.get_instance_path(instance))
    directory.mkdir(exist_ok=True)
    (directory / f"disk{suffix}").touch()
    return True, True


class GuestTest(base.CloudTest):
    def setUp(self) -> None:
        super().setUp()
        # The fake of Nova's fixtures leaves no trace that could be left over.
        self.useFixture(
            fixtures.MonkeyPatch(
                "nova.virt.libvirt.driver.LibvirtDriver._create_image",
                _create_image,
            )
        )
        self.start_host(base.realtime_host("rt-1"))

    def _assert_lean(self, domain: etree._Element) -> None:
        for name in STRIPPED:
            self.assertEqual([], domain.findall(f"devices/{name}"), name)
        self.assertEqual(
            ["none"], [e.get("model") for e in domain.iter("memballoon")]
        )
        self._assert_told(domain, "lean")

    def _assert_realtime(self, domain: etree._Element) -> None:
        pins = {e.get("cpuset") for e in domain.iter("vcpupin")}
        self.assertEqual({"2", "3"}, pins)
        (scheduled,) = domain.iter("vcpusched")
        self.assertEqual("fifo", scheduled.get("scheduler"))
        self.assertEqual("1", scheduled.get("vcpus"))

    def _assert_told(self, domain: etree._Element, guest: str) -> None:
        (told,) = domain.iter(f"{{{metadata.NAMESPACE}}}guest")
        self.assertEqual(guest, told.get("class"))


class LifeTest(GuestTest):
    def test_spawn(self):
        with self.assertLogs("sriov_rt.nova.driver", "INFO") as logged:
            server = self.boot(base.LEAN)
        self._assert_lean(self.domain())
        self._assert_realtime(self.domain())
        (record,) = logged.records
        self.assertIn("removed", record.getMessage())
        self.assertEqual(server["id"], record.instance.uuid)

    def test_what_is_rendered_is_what_runs(self):
        created = self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.guest.Guest.create",
                side_effect=RuntimeError("seen enough"),
            )
        ).mock
        self.boot(base.LEAN, state="ERROR")
        self.assertEqual(self.domains[-1], created.call_args.args[0])

    def test_hard_reboot(self):
        server = self.boot(base.LEAN)
        self._reboot_server(server, hard=True)
        self.assertEqual(2, len(self.domains))
        self._assert_lean(self.domain())
        self._assert_realtime(self.domain())

    def test_stop_and_start(self):
        server = self.boot(base.LEAN)
        self._start_server(self._stop_server(server))
        self.assertEqual(2, len(self.domains))
        self._assert_lean(self.domain())

    def test_rescue_and_unrescue(self):
        server = self.boot(base.LEAN)
        self._rescue_server(server)
        self.assertEqual(2, len(self.domains))
        rescue = self.domain()
        self._assert_lean(rescue)
        self._assert_realtime(rescue)
        disks = [e.get("file") or "" for e in rescue.iter("source")]
        self.assertTrue(any("disk.rescue" in each for each in disks), disks)
        self._unrescue_server(server)

    def test_rebuild(self):
        server = self.boot(base.LEAN)
        self._rebuild_server(server, "a2459075-d96c-40d5-893e-577ff92e721c")
        self._assert_lean(self.domain())

    def test_an_ordinary_guest_is_left_as_nova_made_it(self):
        self.boot({})
        self.assertEqual(1, len(self.domains))
        self.assertTrue(self.domain().findall("devices/graphics"))
        self.assertNotIn(metadata.NAMESPACE, self.domains[-1])
        self.assertNotIn("rendered by sriov-rt", self.logged())


class ResizeTest(GuestTest):
    def setUp(self) -> None:
        super().setUp()
        self.start_host(base.realtime_host("rt-2"))
        # It copies disks, of which there are none.
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver"
                ".migrate_disk_and_power_off",
                return_value="{}",
            )
        )

    def test_resize_to_a_lean_flavor_and_back(self):
        server = self.boot(base.REALTIME)
        first = self.host_of(server)
        self.assertTrue(self.domain().findall("devices/graphics"))
        server = self._resize_server(server, self.flavor(base.LEAN))
        self.assertNotEqual(first, self.host_of(server))
        self._assert_lean(self.domain())
        self._assert_realtime(self.domain())
        server = self._revert_resize(server)
        self.assertEqual(first, self.host_of(server))
        self.assertTrue(self.domain().findall("devices/graphics"))
        self._assert_realtime(self.domain())
        self._assert_told(self.domain(), "standard")

    def test_cold_migration_keeps_the_guest_lean(self):
        server = self._migrate_server(self.boot(base.LEAN))
        self._assert_lean(self.domain())
        self._confirm_resize(server)


class RefusalTest(GuestTest):
    def _files(self, server: Any) -> list[str]:
        path = pathlib.Path(base.CONF.instances_path, server["id"])
        return [each.name for each in path.iterdir()] if path.exists() else []

    def test_the_sentence_is_the_fault_and_nothing_is_left(self):
        server = self.boot(base.BARE, state="ERROR")
        self.assertTrue(
            self.fault(server).startswith("disk vda is on virtio"),
            self.fault(server),
        )
        self.assertIn("hw_disk_bus=sata", self.fault(server))
        self.assertIsNone(self.host_of(server))
        self.assertEqual([], self._files(server))
        connection = self.computes["rt-1"].driver._host.get_connection()
        self.assertEqual([], connection.listAllDomains(0))
        usage = self._get_provider_usages(self.compute_rp_uuids["rt-1"])
        self.assertEqual(0, usage["PCPU"])
        # Its pCPUs are free for the next one at once.
        other = self.boot(base.LEAN)
        self.assertEqual("rt-1", self.host_of(other))
        self.assertEqual(["disk"], self._files(other))
        self._delete_server(server)

    def test_no_other_host_is_tried(self):
        self.start_host(base.realtime_host("rt-2"))
        self.boot(base.BARE, state="ERROR")
        self.assertEqual(1, self.logged().count("Guest refused by sriov-rt"))

    def test_an_image_as_the_sentence_says_is_no_refusal(self):
        self.glance.create(None, self._image(hw_disk_bus="sata"))
        server = self._create_server(
            flavor_id=self.flavor(base.BARE),
            image_uuid=uuids.sata,
            networks="none",
        )
        self.assertEqual("rt-1", self.host_of(server))
        self.assertEqual([], self._virtio())

    def _virtio(self) -> list[str]:
        return [
            etree.tostring(each).decode()
            for each in self.domain().find("devices")
            if b"virtio" in etree.tostring(each)
        ]

    def _image(self, **properties: str) -> dict:
        image = self.glance.show(None, "155d900f-4e14-4e4c-a73d-069cbf4541e6")
        return {
            **image,
            "id": uuids.sata,
            "name": "sata",
            "properties": {**image["properties"], **properties},
        }

    def test_a_hard_reboot_that_is_refused(self):
        server = self.boot(base.REALTIME)
        host = self.computes["rt-1"].driver._sriov_rt_host
        host.found = base.realtime_host(cpus={"isolated": CpuSet((2,))})
        self._reboot_server(server, hard=True, expected_state="ERROR")
        self.assertIn("are not isolated", self.fault(server))
        # With the host repaired, it comes back.
        host.found = base.realtime_host()
        self._reboot_server(server, hard=True)

    def test_a_rescue_that_is_refused_leaves_the_guest_as_it_is(self):
        server = self.boot(base.REALTIME)
        host = self.computes["rt-1"].driver._sriov_rt_host
        host.found = base.realtime_host(cpus={"isolated": CpuSet((2,))})
        self.api.post_server_action(server["id"], {"rescue": {}})
        server = self._wait_for_state_change(server, "ERROR")
        self.assertIn("are not isolated", self.fault(server))

    def test_a_rescue_image_that_will_not_do_leaves_the_guest_running(self):
        self.glance.create(None, self._image(hw_disk_bus="sata"))
        server = self._create_server(
            flavor_id=self.flavor(base.BARE),
            image_uuid=uuids.sata,
            networks="none",
        )
        off = self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.power_off"
            )
        ).mock
        image = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
        body = {"rescue": {"rescue_image_ref": image}}
        self.api.post_server_action(server["id"], body)
        sentence = (
            "with the rescue image, disk vda is on virtio and "
            "sriov_rt:guest=bare allows no virtio; rescue the server with an "
            "image that has hw_disk_bus=sata"
        )
        self._wait_for_assert(lambda: self.assertIn(sentence, self.logged()))
        server = self._wait_for_server_parameter(
            server, {"status": "ACTIVE", "OS-EXT-STS:task_state": None}
        )
        off.assert_not_called()
        self.assertEqual(1, len(self.domains))

    def test_what_a_rescue_image_decides(self):
        def reasons(**properties):
            image = objects.ImageMeta.from_dict({"properties": properties})
            instance = mock.Mock(image_meta=image)
            instance.get_network_info.return_value = [
                {"vnic_type": kind, "address": "02:00:00:00:00:01"}
                for kind in ("normal", "direct")
            ]
            found = devices.of_rescue(instance, image, base.BARE)
            self.assertEqual((), devices.of_rescue(instance, image, base.LEAN))
            return [(each.code, each.fields.get("prop")) for each in found]

        sata = {"hw_disk_bus": "sata"}
        self.assertEqual([], reasons(**sata))
        self.assertEqual([("disk_on_virtio", "hw_disk_bus=sata")], reasons())
        self.assertEqual(
            [
                (
                    "disk_on_virtio",
                    "hw_scsi_model=lsisas1078 or hw_disk_bus=sata",
                )
            ],
            reasons(hw_disk_bus="scsi", hw_scsi_model="virtio-scsi"),
        )
        self.assertEqual(
            [("nic_on_virtio", None)], reasons(**sata, hw_vif_model="virtio")
        )
        self.assertEqual([], reasons(**sata, hw_vif_model="e1000e"))
        self.assertEqual(
            [("disk_on_virtio", "hw_rescue_bus=sata")],
            reasons(**sata, hw_rescue_bus="virtio", hw_rescue_device="disk"),
        )
        self.assertEqual([], reasons(hw_rescue_bus="usb"))

    def test_a_rescue_image_that_will_do(self):
        self.glance.create(None, self._image(hw_disk_bus="sata"))
        server = self._create_server(
            flavor_id=self.flavor(base.BARE),
            image_uuid=uuids.sata,
            networks="none",
        )
        body = {"rescue": {"rescue_image_ref": uuids.sata}}
        self.api.post_server_action(server["id"], body)
        self._wait_for_state_change(server, "RESCUE")
        self.assertEqual([], self._virtio())

    def test_a_hook_that_cannot_be_loaded_refuses_its_guests_alone(self):
        problem = plugins.HookUnusable("theirs", "no such module")
        with mock.patch.object(plugins, "load", side_effect=problem):
            server = self.boot(base.LEAN, state="ERROR")
            self.assertIn("Exhausted all hosts", self.fault(server))
            self.assertIn("guest hook theirs", self.logged())
            self.boot({})
