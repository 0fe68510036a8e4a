# SPDX-License-Identifier: Apache-2.0

import unittest
from typing import Any

from os_vif import objects

from sriov_rt.nova import ports
from sriov_rt.parse.errors import ParseError
from sriov_rt.request import RequestError

PORT = "0f6b7f4a-2a3c-4a5e-9f0b-6b5d1c2e3f40"
NETWORK = "7a5e1f6c-2f43-4a53-9a2a-5a3c07d5f0c1"
DETAILS = {
    "kind": "macvlan",
    "mode": "bridge",
    "physical_network": "physnet1",
    "vlan": 7,
}


class Network(dict):
    def get_meta(self, key: str) -> Any:
        """Return what Nova's model has in "meta"."""
        return self["meta"].get(key)


def vif(**given: Any) -> dict[str, Any]:
    found = {
        "id": PORT,
        "type": "sriov_rt",
        "address": "fa:16:3e:00:00:07",
        "network": Network(id=NETWORK, meta={"mtu": 9000}),
        "details": DETAILS,
    }
    return {**found, **given}


class WantedTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()

    def test_a_port_of_ours_is_told_by_its_type(self):
        self.assertTrue(ports.is_ours(vif()))
        self.assertFalse(ports.is_ours(vif(type="ovs")))
        self.assertFalse(ports.is_ours(vif(type=None)))

    def test_a_virtual_machine_gets_a_macvtap(self):
        for virt_type in ("kvm", "qemu"):
            made = ports.to_plug(vif(), {}, virt_type)
            self.assertEqual("macvtap", made.port_profile.kind)

    def test_a_container_gets_what_was_asked_for(self):
        for kind in ("macvlan", "ipvlan", "vf"):
            found = vif(details={**DETAILS, "kind": kind, "mode": None})
            made = ports.to_plug(found, {}, "lxc")
            self.assertEqual(kind, made.port_profile.kind)

    def test_it_has_all_that_the_plugin_needs(self):
        made = ports.to_plug(vif(), {}, "lxc", numa_node=1)
        self.assertEqual(PORT, made.id)
        self.assertEqual("srt0f6b7f4a-2a", made.vif_name)
        self.assertEqual("sriov_rt", made.plugin)
        self.assertEqual("fa:16:3e:00:00:07", made.address)
        self.assertEqual(9000, made.network.mtu)
        profile = made.port_profile
        self.assertEqual("physnet1", profile.physical_network)
        self.assertEqual(7, profile.vlan)
        self.assertEqual(1, profile.numa_node)
        self.assertIsNone(profile.out_kbps)

    def test_a_network_without_an_mtu(self):
        for network in (None, Network(id=NETWORK, meta={})):
            made = ports.to_plug(vif(network=network), {}, "lxc")
            self.assertNotIn("network", made)

    def test_the_flavor_goes_before_the_binding(self):
        specs = {"sriov_rt:vif": "macvlan:vepa"}
        made = ports.to_plug(vif(), specs, "kvm")
        self.assertEqual("vepa", made.port_profile.mode)

    def test_a_container_that_asks_for_onload_tells_its_network(self):
        specs = {"sriov_rt:onload": "required"}
        profile = ports.to_plug(vif(), specs, "lxc").port_profile
        self.assertEqual((True, NETWORK), (profile.onload, profile.network))
        self.assertEqual("bridge", profile.mode)

    def test_no_other_guest_does(self):
        for specs, virt_type in (
            ({"sriov_rt:onload": "required"}, "kvm"),
            ({"sriov_rt:onload": "off"}, "lxc"),
            ({"sriov_rt:guest": "lean"}, "lxc"),
            ({}, "lxc"),
        ):
            profile = ports.to_plug(vif(), specs, virt_type).port_profile
            self.assertEqual((False, None), (profile.onload, profile.network))

    def test_a_flavor_that_says_nothing_of_ports_leaves_the_binding(self):
        made = ports.to_plug(vif(), {"sriov_rt:guest": "lean"}, "kvm")
        self.assertEqual("bridge", made.port_profile.mode)

    def test_rates_are_translated_from_kib(self):
        specs = {
            "quota:vif_outbound_average": "125000",
            "quota:vif_inbound_average": "0",
        }
        profile = ports.to_plug(vif(), specs, "kvm").port_profile
        self.assertEqual(1_024_000, profile.out_kbps)
        self.assertIsNone(profile.in_kbps)

    def test_a_rate_that_is_none_is_refused(self):
        for text in ("", "-1", "1_0", "48828126", "1" * 300):
            with self.subTest(text=text), self.assertRaises(ParseError):
                specs = {"quota:vif_inbound_average": text}
                ports.to_plug(vif(), specs, "kvm")

    def test_a_binding_of_nobody_is_refused(self):
        for details in ({}, None, {"kind": "macvlan"}):
            with self.assertRaises(ParseError):
                ports.to_plug(vif(details=details), {}, "kvm")

    def test_a_flavor_out_of_the_grammar_is_refused(self):
        with self.assertRaises(RequestError):
            ports.to_plug(vif(), {"sriov_rt:vif": "bridge"}, "kvm")

    def test_what_a_guest_cannot_have_is_refused_with_what_it_can(self):
        for virt_type, kind, instead in (
            ("kvm", "vf", "--vnic-type direct"),
            ("qemu", "ipvlan", "sriov_rt:vif=macvlan"),
            ("parallels", "macvlan", "kvm, qemu or lxc"),
        ):
            with (
                self.subTest(virt_type),
                self.assertRaises(ports.PortRefused) as caught,
            ):
                specs = {"sriov_rt:vif": kind}
                ports.to_plug(vif(), specs, virt_type)
            self.assertIn(instead, str(caught.exception))
            self.assertIn(f"port={PORT}", str(caught.exception))
            # Nova cuts a fault there.
            self.assertLess(len(str(caught.exception)), 255)


class GoneTest(unittest.TestCase):
    def test_what_is_to_go_needs_no_binding(self):
        objects.register_all()
        made = ports.gone({"id": PORT})
        self.assertEqual(
            (PORT, "sriov_rt", "srt0f6b7f4a-2a"),
            (made.id, made.plugin, made.vif_name),
        )
