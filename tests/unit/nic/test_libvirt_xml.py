# SPDX-License-Identifier: Apache-2.0

import unittest

from lxml import etree

from sriov_rt.nic import errors
from sriov_rt.nic import libvirt_xml
from sriov_rt.nic.model import NO_MAC
from tests.unit.nic import fakes


class XmlTest(unittest.TestCase):
    def setUp(self):
        self.pf = fakes.FakeKernel(vfs=2).pf("enp1s0")
        self.vf = self.pf.vfs[1]

    def test_interface_with_mac_and_vlan(self):
        self.assertEqual(
            '<interface type="hostdev" managed="yes">\n'
            '  <mac address="52:54:00:12:34:56"/>\n'
            "  <source>\n"
            '    <address type="pci" domain="0x0000" bus="0x01" slot="0x10" '
            'function="0x1"/>\n'
            "  </source>\n"
            "  <vlan>\n"
            '    <tag id="7"/>\n'
            "  </vlan>\n"
            "</interface>",
            libvirt_xml.interface(self.vf, fakes.ADMIN_MAC, 7),
        )

    def test_without_either(self):
        for mac, vlan in ((None, None), (NO_MAC, 0)):
            for text in (
                libvirt_xml.interface(self.vf, mac, vlan),
                libvirt_xml.hostdev(self.vf, mac, vlan),
                libvirt_xml.network(self.pf, None, vlan),
                libvirt_xml.pooled(self.pf, mac),
            ):
                self.assertNotIn("<mac", text)
                self.assertNotIn("<vlan", text)
                self.assertNotIn("<!--", text)

    def test_hostdev_says_what_to_set_before(self):
        self.assertEqual(
            '<hostdev mode="subsystem" type="pci" managed="yes">\n'
            "  <!-- before: sriov-rt vf set enp1s0/1 mac=52:54:00:12:34:56 "
            "vlan=7 -->\n"
            "  <source>\n"
            '    <address domain="0x0000" bus="0x01" slot="0x10" '
            'function="0x1"/>\n'
            "  </source>\n"
            "</hostdev>",
            libvirt_xml.hostdev(self.vf, fakes.ADMIN_MAC, 7),
        )

    def test_network_names_each_vf(self):
        text = libvirt_xml.network(self.pf, None, 7)
        self.assertEqual(2, text.count('<address type="pci"'))
        self.assertNotIn("<pf ", text)
        self.assertIn("<name>sriov-enp1s0</name>", text)
        self.assertEqual(1, text.count('<tag id="7"/>'))
        self.assertEqual(
            1, libvirt_xml.network(self.pf, 1, None).count('type="pci"')
        )

    def test_domain_takes_a_vf_of_the_network(self):
        self.assertEqual(
            '<interface type="network">\n'
            '  <mac address="52:54:00:12:34:56"/>\n'
            '  <source network="sriov-enp1s0"/>\n'
            "</interface>",
            libvirt_xml.pooled(self.pf, fakes.ADMIN_MAC),
        )

    def test_each_way_is_one_document(self):
        for text in (
            libvirt_xml.interface(self.vf, fakes.ADMIN_MAC, 7),
            libvirt_xml.hostdev(self.vf, fakes.ADMIN_MAC, 7),
            libvirt_xml.network(self.pf, None, 7),
            libvirt_xml.pooled(self.pf, fakes.ADMIN_MAC),
        ):
            etree.fromstring(text)

    def test_pool_larger_than_the_pf_is_refused(self):
        for size in (3, 0, -1):
            with (
                self.subTest(size=size),
                self.assertRaises(errors.OutOfRange) as caught,
            ):
                libvirt_xml.network(self.pf, size, None)
            self.assertIn("the PF has 2", str(caught.exception))
