# SPDX-License-Identifier: Apache-2.0

"""Devices in the domain of a lean or bare guest."""

from tempest import config
from tempest.lib import decorators

from sriov_rt_tempest_plugin.tests import base
from sriov_rt_tempest_plugin.tests import domain

CONF = config.CONF


class DomainTest(base.ServerTest):
    """Guests that request a guest class but no realtime host."""

    @classmethod
    def skip_checks(cls) -> None:
        """Skip if no command prints a domain."""
        super().skip_checks()
        if not CONF.sriov_rt.domain_xml_command:
            raise cls.skipException("[sriov_rt] domain_xml_command is not set")

    @decorators.attr(type="smoke")
    @decorators.idempotent_id("13b9d5d0-bf4f-4585-bf3a-d1919af5fe99")
    def test_a_lean_guest_has_what_it_needs_alone(self) -> None:
        server = self.boot(self.flavor({"sriov_rt:guest": "lean"}))
        found = domain.Domain(server)
        self.assertEqual("lean", found.guest.get("class"), found.text)
        self.assertEqual(
            frozenset(), domain.STRIPPED & found.devices, found.text
        )
        self.assertIn("disk", found.devices, found.text)

    @decorators.idempotent_id("dcdc4696-4b2a-404d-8cb8-fca6176c4260")
    def test_other_guests_are_left_as_nova_makes_them(self) -> None:
        found = domain.Domain(self.boot(self.flavor()))
        self.assertEqual({}, found.guest, found.text)

    @decorators.idempotent_id("f992a486-846c-49d0-9ab0-4d8aeab5c0d4")
    def test_a_bare_guest_has_no_virtio(self) -> None:
        if not CONF.sriov_rt.bare_image_ref:
            self.skipTest("[sriov_rt] bare_image_ref is not set")
        server = self.boot(
            self.flavor({"sriov_rt:guest": "bare"}),
            imageRef=CONF.sriov_rt.bare_image_ref,
        )
        found = domain.Domain(server)
        self.assertEqual("bare", found.guest.get("class"), found.text)
        self.assertEqual([], found.virtio)
        self.assertEqual(
            frozenset(), domain.STRIPPED & found.devices, found.text
        )


class BareImageTest(base.ServerTest):
    """A bare guest of an image that boots from virtio."""

    @decorators.attr(type="negative")
    @decorators.idempotent_id("9761d479-a66f-4144-b2a7-c1e16790e41d")
    def test_it_is_refused_with_the_property_to_set(self) -> None:
        image = self.admin_image_client.show_image(CONF.compute.image_ref)
        if image.get("hw_disk_bus", "virtio") != "virtio":
            self.skipTest("[compute] image_ref boots from another bus")
        server = self.try_to_boot(self.flavor({"sriov_rt:guest": "bare"}))
        self.assertEqual("ERROR", server["status"])
        message = server["fault"]["message"]
        self.assertIn("sriov_rt:guest=bare", message)
        self.assertIn("hw_disk_bus", message)
