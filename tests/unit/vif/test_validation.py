# SPDX-License-Identifier: Apache-2.0

import string
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.exceptions import SriovRtError
from sriov_rt.kernel import namespaces
from sriov_rt.kernel.tc import Limits
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import validation
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.errors import NameInvalid
from sriov_rt.vif.model import Kind
from tests.unit.vif import fakes
from tests.unit.vif.fakes import NETWORK
from tests.unit.vif.fakes import PORT

TEXTS = strategies.text(max_size=80)
settings = hypothesis.settings(derandomize=True, deadline=None)


class NamesTest(unittest.TestCase):
    def test_interfaces(self):
        for name in ("eth1", "a", "x" * 15, "enp1s0f0v3", "br-int", "a.100"):
            self.assertEqual(name, validation.interface(name))

    def test_what_no_interface_can_be_called(self):
        for name in (
            "", ".", "..", "x" * 16, "a/b", "a b", "a\n", "eth%d", "eth0:1",
            "é", "\0", "a\tb",
        ):  # fmt: skip
            with self.subTest(name=name), self.assertRaises(NameInvalid):
                validation.interface(name)

    def test_a_long_name_is_not_told_whole(self):
        with self.assertRaises(NameInvalid) as caught:
            validation.interface("x" * 10000)
        self.assertLess(len(str(caught.exception)), 200)

    def test_namespaces(self):
        for name in ("box", "cni-1f2", "qdhcp-x@1", "pid:1", "pid:4194304"):
            self.assertEqual(name, namespaces.parse(name))
        self.assertEqual("pid:7", namespaces.parse("pid:007"))

    def test_what_is_no_namespace(self):
        for name in (
            "", ".", "..", "a/b", "../x", "pid:", "pid:0", "pid:x", "pid:-1",
            "pid:4194305", "x" * 256, "a b",
        ):  # fmt: skip
            with self.subTest(name=name), self.assertRaises(ParseError):
                namespaces.parse(name)

    def test_ports_are_uuids_in_lower_case(self):
        self.assertEqual(PORT, validation.port(PORT))
        for text in ("", PORT.upper(), PORT + "\n", "../" + PORT, PORT[:-1]):
            with self.subTest(text=text), self.assertRaises(ParseError):
                validation.port(text)

    def test_a_ports_own_name_can_be_an_interfaces(self):
        name = validation.default(PORT)
        self.assertEqual("srtb3f2e1d0-11", name)
        self.assertEqual(name, validation.interface(name))


class AliasTest(unittest.TestCase):
    def test_it_is_a_label_that_the_kernel_takes(self):
        self.assertEqual(f"sriov-rt:{PORT}:me", str(Alias(PORT, "me")))
        longest = str(Alias(PORT, "x" * 64, "e" * 15, NETWORK))
        self.assertTrue(longest.endswith(f":{'e' * 15}:{NETWORK}"))
        # IFALIASZ of include/uapi/linux/if.h, with its end.
        self.assertLess(len(longest), 256)


class CheckedTest(unittest.TestCase):
    def test_defaults(self):
        want = validation.checked(fakes.asked(name=None))
        self.assertEqual("bridge", want.mode)
        self.assertEqual("srtb3f2e1d0-11", want.name)
        self.assertEqual(
            "l2", validation.checked(fakes.asked(Kind.IPVLAN)).mode
        )
        self.assertIsNone(validation.checked(fakes.asked(Kind.VF)).mode)

    def test_values_have_one_spelling(self):
        want = validation.checked(
            fakes.asked(
                mac="02:00:5E:10:00:01",
                addresses=("2001:DB8:0::1/64", "192.0.2.1/24"),
                routes=(("default", "2001:DB8::FE"),),
            )
        )
        self.assertEqual("02:00:5e:10:00:01", want.mac)
        self.assertEqual(("2001:db8::1/64", "192.0.2.1/24"), want.addresses)
        self.assertEqual((("default", "2001:db8::fe"),), want.routes)
        self.assertEqual(want, validation.checked(want))

    def test_what_no_port_can_be(self):
        for fields in (
            {"port": "x"},
            {"owner": "a b"},
            {"owner": "x" * 65},
            {"mode": "l2"},
            {"kind": Kind.VF, "mode": "bridge"},
            {"kind": Kind.IPVLAN, "mac": "02:00:5e:10:00:01"},
            {"kind": Kind.VF, "namespace": None, "addresses": ("1.1.1.1/8",)},
            {"physical_network": None},
            {"physical_network": "a:b"},
            {"physical_network": "x" * 65},
            {"parent": "a/b"},
            {"namespace": "a/b"},
            {"name": "a/b"},
            {"mac": "02:00:5e:10:00"},
            {"mac": "00:00:00:00:00:00"},
            {"mac": "01:00:5e:00:00:01"},
            {"vlan": -1},
            {"vlan": 4095},
            {"mtu": 67},
            {"mtu": 65536},
            {"numa_node": -1},
            {"limits": Limits(0, None)},
            {"limits": Limits(None, 400_000_001)},
            {"addresses": ("192.0.2.1",)},
            {"addresses": ("fe80::1%eth0/64",)},
            {"addresses": ("x/24",)},
            {"addresses": ("192.0.2.1/24",) * 65},
            {"routes": (("default", "x"),)},
            {"routes": (("192.0.2.1/24", "192.0.2.254"),)},
            {"routes": (("192.0.2.0/24", "2001:db8::1"),)},
            {"routes": (("default", "fe80::1%eth0"),)},
            {"routes": (("default", "192.0.2.1"),) * 65},
        ):
            with self.subTest(**fields), self.assertRaises(SriovRtError):
                validation.checked(
                    fakes.asked(**{"kind": Kind.MACVLAN, **fields})
                )

    @settings
    @hypothesis.given(
        strategies.fixed_dictionaries(
            {},
            optional={
                name: TEXTS | strategies.text(string.hexdigits + ":/.-")
                for name in (
                    "port", "owner", "mode", "physical_network", "parent",
                    "namespace", "name", "mac",
                )
            }
            | {"addresses": strategies.lists(TEXTS).map(tuple)},
        )
    )  # fmt: skip
    def test_any_texts_are_checked(self, fields):
        try:
            want = validation.checked(fakes.asked(**fields))
        except SriovRtError:
            return
        self.assertEqual(want, validation.checked(want))
