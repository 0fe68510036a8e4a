# SPDX-License-Identifier: Apache-2.0

import dataclasses
import types
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.decide import onload
from tests.unit import builders

VIEW = decide.View(now=1_790_000_000.0)
SPECS = {"sriov_rt:onload": "required"}


def asked(*attachments, **specs):
    found = request.parse({**SPECS, **specs})
    return dataclasses.replace(
        found,
        attachments=tuple(request.Attachment(*each) for each in attachments),
    )


def codes(wanted, *endpoints, **parts):
    host = facts.decisive(builders.onload_host("a", *endpoints, **parts))
    return [each.code for each in decide.why_not(wanted, host, VIEW)]


def messages(wanted, *endpoints, **parts):
    host = facts.decisive(builders.onload_host("a", *endpoints, **parts))
    return [each.message for each in decide.why_not(wanted, host, VIEW)]


class UsableTest(unittest.TestCase):
    def test_all_is_there(self):
        profile = {"sriov_rt:onload_profile": "latency"}
        self.assertEqual([], codes(asked(**profile)))

    def test_nothing_is_there(self):
        found = decide.why_not(
            asked(**{"sriov_rt:onload_profile": "latency"}),
            facts.decisive(builders.realtime_host(onload={"nics": {}})),
            VIEW,
        )
        self.assertEqual(
            [
                *["onload_unusable"] * 3,
                "onload_profile_missing",
                "onload_no_nic",
            ],
            [each.code for each in found],
        )

    def test_a_library_of_another_release(self):
        self.assertEqual(
            ["onload_other_release"],
            codes(asked(), onload={"library_fits": False}),
        )

    def test_what_is_unknown_is_named(self):
        for name in ("modules", "devices", "library", "profiles", "nics"):
            with self.subTest(fact=name):
                (told,) = messages(
                    asked(**{"sriov_rt:onload_profile": "latency"}),
                    onload={name: Unknown("garbled")},
                )
                self.assertIn(f"onload.{name} is unknown (garbled)", told)


class NicTest(unittest.TestCase):
    def test_a_nic_of_the_physical_network(self):
        for physical in (None, "fast"):
            with self.subTest(physical=physical):
                self.assertEqual([], codes(asked(("net-a", physical))))

    def test_a_physical_network_that_is_not_served(self):
        (told,) = messages(asked(("net-a", "slow")))
        self.assertIn("no NIC on physical network slow; add one", told)

    def test_a_physical_network_whose_nics_onload_cannot_use(self):
        pools = {"fast": ("eth1",), "slow": ("eth2", "eth3")}
        self.assertEqual(
            ["onload_no_nic"],
            codes(asked(("net-a", "slow")), vifs={"pools": pools}),
        )

    def test_a_port_for_the_management_may_be_elsewhere(self):
        # Not knowing which is where, the filter says that any may be.
        wanted = asked(
            ("mgmt", "office"),
            ("mgmt", "fast"),
            ("net-a", "office"),
            ("net-a", "fast"),
        )
        self.assertEqual([], codes(wanted))
        pools = {"fast": ("eth1",), "office": ("eth9",)}
        self.assertEqual(
            ["onload_no_nic"], codes(wanted, vifs={"pools": pools})
        )

    def test_pools_that_are_unknown(self):
        spoilt = {"pools": Unknown("garbled")}
        self.assertEqual([], codes(asked(), vifs=spoilt))
        self.assertEqual(
            ["fact_unknown"], codes(asked((None, "fast")), vifs=spoilt)
        )


class SameHostTest(unittest.TestCase):
    def test_pools_that_are_unknown_are_said_once(self):
        there = builders.endpoint("net-a")
        spoilt = {"pools": Unknown("garbled")}
        wanted = asked(("net-a", "fast"))
        self.assertEqual(["fact_unknown"], codes(wanted, there, vifs=spoilt))

    def test_nics_that_are_unknown_are_said_once(self):
        there = builders.endpoint("net-a")
        spoilt = {"nics": Unknown("garbled")}
        wanted = asked(("net-a", "fast"))
        self.assertEqual(["fact_unknown"], codes(wanted, there, onload=spoilt))

    def test_the_network_of_an_endpoint_is_refused(self):
        there = builders.endpoint("net-a")
        (told,) = messages(asked(("net-a", "fast")), there)
        self.assertIn("on physical network fast", told)
        self.assertIn("endpoint of network net-a", told)
        self.assertEqual([], codes(asked(("net-b", "fast")), there))

    def test_a_network_that_need_not_be_kept_apart(self):
        self.assertEqual(
            [], codes(asked((None, "fast")), builders.endpoint("net-a"))
        )

    def test_another_nic_of_the_physical_network_is_left(self):
        two = {
            "onload": {"nics": {"eth1": "native", "eth2": "afxdp"}},
            "vifs": {"pools": {"fast": ("eth1", "eth2")}},
        }
        one = builders.endpoint("net-a", "eth1")
        other = builders.endpoint("net-a", "eth2", "inst-2")
        wanted = asked(("net-a", "fast"))
        self.assertEqual([], codes(wanted, one, **two))
        self.assertEqual(
            ["onload_same_host"], codes(wanted, one, other, **two)
        )

    def test_a_nic_that_onload_cannot_use_is_no_way_out(self):
        pools = {"fast": ("eth1", "eth2")}
        self.assertEqual(
            ["onload_same_host"],
            codes(
                asked(("net-a", "fast")),
                builders.endpoint("net-a", "eth1"),
                vifs={"pools": pools},
            ),
        )

    def test_a_network_of_unknown_place_may_be_on_any_nic(self):
        there = builders.endpoint("net-a", "eth1")
        self.assertEqual(["onload_same_host"], codes(asked(("net-a",)), there))
        two = {
            "onload": {"nics": {"eth1": "native", "eth2": "native"}},
            "vifs": {"pools": {"fast": ("eth1",), "other": ("eth2",)}},
        }
        self.assertEqual([], codes(asked(("net-a",)), there, **two))

    def test_endpoints_that_are_unknown(self):
        spoilt = {"endpoints": Unknown("no right to enter")}
        (told,) = messages(asked(("net-a", "fast")), vifs=spoilt)
        self.assertIn("vifs.endpoints is unknown", told)
        self.assertEqual([], codes(asked((None, "fast")), vifs=spoilt))

    @hypothesis.given(
        nics=strategies.sets(strategies.integers(1, 5), min_size=1),
        taken=strategies.sets(strategies.integers(1, 5)),
    )
    @hypothesis.settings(deadline=None, derandomize=True)
    def test_there_are_as_many_places_as_nics(self, nics, taken):
        names = {f"eth{number}" for number in nics}
        host = builders.onload_host(
            "a",
            onload={"nics": dict.fromkeys(names, "native")},
            vifs={"pools": types.MappingProxyType({"fast": tuple(names)})},
        )
        endpoints = [
            builders.endpoint("net-a", f"eth{number}", f"inst-{number}")
            for number in taken
        ]
        found = onload.same_host(
            facts.decisive(host),
            (request.Attachment("net-a", "fast"),),
            endpoints,
        )
        self.assertEqual(nics <= taken, bool(list(found)))
