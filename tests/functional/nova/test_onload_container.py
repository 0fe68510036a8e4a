# SPDX-License-Identifier: Apache-2.0

"""Onload in containers that Nova starts; nothing of Onload's is here."""

import pathlib
import shutil
import tempfile
import threading
from typing import Any
from unittest import mock

import fixtures
from lxml import etree
from nova import context
from nova import objects
from oslo_config import cfg

from sriov_rt import facts
from sriov_rt.nova import onload
from sriov_rt.vif import errors
from tests.functional.nova import base
from tests.functional.nova.test_vif_container import ContainerTest
from tests.unit.onload import elves

ONLOAD = {"sriov_rt:onload": "required"}

CONFIG = """[onload]
library = {place}/lib/libonload.so
devices =
"""

USABLE = {
    "modules": ("onload",),
    "devices": ("/dev/onload",),
    "library": "/opt/onload/lib/libonload.so",
    "version": "9.0.0",
    "library_fits": True,
    "nics": {"enp1s0": "native"},
    "workloads": (),
}


def onload_host(name: str) -> facts.HostFacts:
    """Return the facts of a host with Onload on its one NIC."""
    return base.realtime_host(
        name,
        onload=USABLE,
        vifs={"pools": {"physnet1": ("enp1s0",)}, "endpoints": ()},
    )


class OnloadContainerTest(ContainerTest):
    """A cloud of containers whose image is of glibc."""

    def setUp(self) -> None:
        super().setUp()
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="srt"))
        self.addCleanup(shutil.rmtree, self.place)
        library = self.place / "lib" / "libonload.so"
        library.parent.mkdir()
        library.write_bytes(elves.LIBRARY.bytes())
        config = self.place / "sriov-rt.conf"
        config.write_text(CONFIG.format(place=self.place))
        find = cfg.find_config_files

        def found(project: Any = None, *more: Any, **named: Any) -> Any:
            if project == "sriov_rt":
                return [str(config)]
            return find(project, *more, **named)

        self.useFixture(
            fixtures.MonkeyPatch("oslo_config.cfg.find_config_files", found)
        )
        self.image = {
            "sbin/init": elves.INIT.bytes(),
            "lib64/libc.so.6": elves.LIBC.bytes(),
        }
        self.useFixture(
            fixtures.MonkeyPatch(
                "nova.virt.disk.api.setup_container", self._mount
            )
        )
        self.start_host(onload_host("ol-1"))

    def _mount(self, image: Any, container_dir: str) -> None:
        for name, data in self.image.items():
            path = pathlib.Path(container_dir, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def started(self, host: str = "ol-1") -> etree._Element:
        """Return the domain that libvirt was given."""
        connection = self.computes[host].driver._host.get_connection()
        (found,) = connection._vms.values()
        return etree.fromstring(found.given)

    def preload(self, host: str = "ol-1") -> list[str]:
        """Return what of Onload the started domain has."""
        domain = self.started(host)
        named = [e.get("name") for e in domain.iterfind("os/initenv")]
        mounts = [
            each.find("target").get("dir")
            for each in domain.iterfind("devices/filesystem")
        ]
        return [
            each
            for each in (*named, *mounts)
            if each in ("LD_PRELOAD", "/opt/sriov-rt/onload")
        ]

    def marked(self) -> str | None:
        """Return what the domain's metadata says of Onload."""
        for each in self.started().find("metadata"):
            if each.tag.endswith("guest/1.0}guest"):
                return each.get("onload")
        raise AssertionError("there is no metadata of ours")

    def notice(self, server: Any) -> str | None:
        shown = self.admin_api.get_server(server["id"])
        return shown["metadata"].get("sriov_rt_onload")


class StartTest(OnloadContainerTest):
    def test_a_container_starts_with_onload(self):
        server = self.serve(ONLOAD)
        self.assertEqual(
            ["LD_PRELOAD", "/opt/sriov-rt/onload"], self.preload()
        )
        self.assertIsNone(self.marked())
        self.assertIsNone(self.notice(server))

    def test_its_port_is_asked_for_with_its_network(self):
        self.serve(ONLOAD)
        (asked,) = self.pluggers.asked
        self.assertEqual(
            (True, self.neutron.port_1["network_id"]),
            (asked.onload, asked.network),
        )

    def test_a_container_that_does_not_ask_is_left_alone(self):
        self.image = {}
        server = self.serve({})
        (asked,) = self.pluggers.asked
        self.assertEqual((False, None), (asked.onload, asked.network))
        self.assertEqual([], self.preload(self.host_of(server)))

    def _refused(self, sentence: str) -> None:
        server = self.serve(ONLOAD, state="ERROR")
        self.assertIn(sentence, self.fault(server))
        connection = self.computes["ol-1"].driver._host.get_connection()
        self.assertEqual([], list(connection._vms))
        self.assertEqual({}, self.pluggers.ports)

    def test_an_image_of_musl_is_refused_before_it_starts(self):
        self.image = {"sbin/init": elves.MUSL.bytes()}
        self._refused("the image uses musl")

    def test_a_static_init_is_refused_before_it_starts(self):
        self.image["sbin/init"] = elves.STATIC.bytes()
        self._refused("linked statically")

    def test_where_an_image_cannot_be_read_another_host_is_tried(self):
        self.image = {}
        server = self.serve(ONLOAD, state="ERROR")
        self.assertIn("Exhausted all hosts", self.fault(server))
        self.assertIn("the container's image can't be read", self.logged())
        self.assertEqual({}, self.pluggers.ports)

    def test_where_it_is_not_read_in_time_another_host_is_tried(self):
        stopped = threading.Event()
        self.addCleanup(stopped.set)
        with (
            mock.patch.object(
                onload.hook, "started", lambda *_, **__: stopped.wait()
            ),
            mock.patch.object(onload, "_LIMIT_S", 0.5),
        ):
            server = self.serve(ONLOAD, state="ERROR")
        self.assertIn("Exhausted all hosts", self.fault(server))
        self.assertIn(
            "look into the container's image has not ended within 0.5 s",
            self.logged(),
        )
        self.assertEqual({}, self.pluggers.ports)

    def test_a_reboot_checks_the_image_again(self):
        server = self.serve(ONLOAD)
        self.image["sbin/init"] = elves.STATIC.bytes()
        self._reboot_server(server, hard=True, expected_state="ERROR")
        self.assertIn("linked statically", self.fault(server))


class SecondEndpointTest(OnloadContainerTest):
    def test_another_host_is_tried(self):
        self.start_host(onload_host("ol-2"))
        plug = self.pluggers.plug
        refusals = [errors.SpreadNeeded("enp1s0", port=self.port)]

        def first_refuse(want: Any) -> Any:
            if refusals:
                raise refusals.pop()
            return plug(want)

        self.pluggers.plug = first_refuse
        self.serve(ONLOAD)
        self.assertEqual([self.port], list(self.pluggers.ports))
        self.assertIn("onload_same_host", self.logged())

    def test_an_unaccelerated_one_runs_over_the_kernel(self):
        self.pluggers.accelerates = False
        # Nothing is preloaded: its libc does not matter.
        self.image = {"sbin/init": elves.MUSL.bytes()}
        server = self.serve(ONLOAD)
        self.assertEqual([], self.preload())
        self.assertEqual("unaccelerated", self.marked())
        self.assertEqual("unaccelerated", self.notice(server))
        self.assertIn("Onload was removed from the container", self.logged())

    def test_it_is_accelerated_when_its_place_is_free(self):
        self.pluggers.accelerates = False
        server = self.serve(ONLOAD)
        self.pluggers.accelerates = True
        self._reboot_server(server, hard=True)
        self.assertEqual(2, len(self.preload()))
        self.assertIsNone(self.marked())
        self.assertIsNone(self.notice(server))

    def test_what_its_owner_writes_there_changes_nothing(self):
        server = self.serve(ONLOAD)
        instance = objects.Instance.get_by_uuid(
            context.get_admin_context(), server["id"]
        )
        instance.metadata = {"sriov_rt_onload": "unaccelerated", "a": "b"}
        instance.save()
        self._reboot_server(server, hard=True)
        self.assertEqual(2, len(self.preload()))
        self.assertIsNone(self.notice(server))
        shown = self.admin_api.get_server(server["id"])
        self.assertEqual("b", shown["metadata"]["a"])

    def test_a_port_that_goes_is_forgotten(self):
        self.pluggers.accelerates = False
        server = self.serve(ONLOAD)
        driver = self.computes["ol-1"].driver.vif_driver
        self.assertFalse(driver.is_accelerated(mock.Mock(uuid=server["id"])))
        self._delete_server(server)
        self.assertTrue(driver.is_accelerated(mock.Mock(uuid=server["id"])))
