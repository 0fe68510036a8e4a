# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.kernel import link
from tests.unit.kernel import messages

NAME = ("IFLA_IFNAME", "srt0")
MAC = "02:00:5e:10:00:01"


def read(*attributes, namespace=None, host_number=None, **fields):
    message = messages.link(NAME, *attributes, **fields)
    return link.read_link(message, namespace, host_number)


class ReadLinkTest(unittest.TestCase):
    def test_a_macvlan_in_a_namespace(self):
        found = read(
            ("IFLA_ADDRESS", MAC),
            ("IFLA_MTU", 1400),
            ("IFLA_LINK", 7),
            ("IFLA_LINK_NETNSID", 0),
            ("IFLA_IFALIAS", "sriov-rt:p:o"),
            ("IFLA_CARRIER", 1),
            messages.info("macvlan", "bridge"),
            namespace="tenant",
            host_number=0,
            flags=0x1 | 0x200,
        )
        self.assertEqual(found.name, "srt0")
        self.assertEqual(found.index, 2)
        self.assertEqual(found.namespace, "tenant")
        self.assertEqual((found.kind, found.mode), ("macvlan", "bridge"))
        self.assertEqual(found.parent, 7)
        self.assertEqual(found.mac, MAC)
        self.assertEqual(found.mtu, 1400)
        self.assertTrue(found.up)
        self.assertTrue(found.carrier)
        self.assertEqual(found.alias, "sriov-rt:p:o")
        self.assertFalse(found.promisc)
        self.assertTrue(found.allmulti)

    def test_modes_that_are_requested_are_those_that_are_read(self):
        for kind, mode in (
            ("macvlan", "passthru"),
            ("macvtap", "vepa"),
            ("ipvlan", "l2"),
            ("ipvlan", "l3s"),
        ):
            with self.subTest(kind=kind, mode=mode):
                ((_, wanted),) = link.mode_of(kind, mode).items()
                found = read(messages.info(kind, wanted))
                self.assertEqual((kind, mode), (found.kind, found.mode))

    def test_a_kind_or_a_mode_that_is_unknown_is_no_error(self):
        found = read(messages.info("wormhole"))
        self.assertEqual(("wormhole", None), (found.kind, found.mode))
        found = read(messages.info("ipvlan", 77))
        self.assertEqual(("ipvlan", None), (found.kind, found.mode))

    def test_what_is_absent(self):
        found = read()
        self.assertEqual(("", "", 0), (found.mac, found.alias, found.mtu))
        self.assertFalse(found.up or found.carrier)
        self.assertIsNone(found.master)

    def test_a_parent_elsewhere_is_none_of_the_callers(self):
        parent = ("IFLA_LINK", 7), ("IFLA_LINK_NETNSID", 3)
        for host_number in (0, None):
            found = read(*parent, namespace="tenant", host_number=host_number)
            self.assertIsNone(found.parent)

    def test_a_parent_in_the_links_own_namespace(self):
        self.assertEqual(7, read(("IFLA_LINK", 7)).parent)
        found = read(("IFLA_LINK", 7), namespace="tenant", host_number=0)
        self.assertIsNone(found.parent)

    def test_a_parent_may_have_the_number_of_the_link(self):
        parent = ("IFLA_LINK", 2), ("IFLA_LINK_NETNSID", 0)
        found = read(*parent, namespace="tenant", host_number=0, index=2)
        self.assertEqual(2, found.parent)

    def test_devices_of_pci_alone_have_an_address(self):
        for bus, wanted in (("pci", "0000:01:10.1"), ("virtio", "")):
            found = read(
                ("IFLA_PARENT_DEV_NAME", "0000:01:10.1"),
                ("IFLA_PARENT_DEV_BUS_NAME", bus),
            )
            self.assertEqual(wanted, found.device)

    def test_a_port_of_a_bridge(self):
        self.assertEqual(9, read(("IFLA_MASTER", 9)).master)

    def test_no_link(self):
        for message in (
            messages.link(),
            # A bridge tells of its ports in messages of AF_BRIDGE.
            messages.link(NAME, family=7),
        ):
            self.assertIsNone(link.read_link(message, None, None))

    def test_texts_that_are_no_utf8(self):
        # Root in a container chooses both.
        message = messages.link(
            ("IFLA_IFNAME", b"srt\xff"), ("IFLA_IFALIAS", b"\xfe:p:o")
        )
        found = link.read_link(message, "tenant", 0)
        self.assertEqual("srt\N{REPLACEMENT CHARACTER}", found.name)
        self.assertEqual("\N{REPLACEMENT CHARACTER}:p:o", found.alias)

    def test_a_loopback_is_known_by_its_flag(self):
        self.assertTrue(link.is_loopback(messages.link(flags=0x8 | 0x1)))
        self.assertFalse(link.is_loopback(messages.link(flags=0x1)))
