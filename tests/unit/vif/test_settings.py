# SPDX-License-Identifier: Apache-2.0

import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.nic.model import VfId
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif.settings import Member
from sriov_rt.vif.settings import Pools

POOLS = Pools.parse(
    [
        "physnet1:enp1s0v0",
        "physnet1:enp1s0v1",
        "physnet2:pf:enp1s0",
        "physnet2:pf:enp2s0",
        "physnet1:enp1s0v0",
    ]
)


def vf(index, pf="enp1s0"):
    return VfId(pf, index, f"0000:01:10.{index}")


class PoolsTest(unittest.TestCase):
    def test_members_are_in_the_order_of_the_configuration(self):
        self.assertEqual(
            (
                Member("physnet1", "enp1s0v0"),
                Member("physnet1", "enp1s0v1"),
                Member("physnet2", "enp1s0", True),
                Member("physnet2", "enp2s0", True),
            ),
            POOLS.members,
        )
        self.assertEqual(("physnet1", "physnet2"), POOLS.networks)
        self.assertEqual("physnet2:pf:enp1s0", str(POOLS.members[2]))
        self.assertEqual(2, len(list(POOLS.of("physnet1"))))

    def test_what_is_named_itself_is_on_the_network_that_says(self):
        self.assertEqual("physnet1", POOLS.network_of("enp1s0v1", vf(1)))
        self.assertEqual("physnet2", POOLS.network_of("enp1s0v2", vf(2)))
        self.assertIsNone(POOLS.network_of("enp1s0", None))
        self.assertIsNone(POOLS.network_of("eth7", vf(0, "eth6")))

    def test_a_vf_by_another_ones_name_is_what_it_is(self):
        self.assertEqual("physnet1", POOLS.network_of("eth0", vf(1)))
        self.assertEqual("physnet2", POOLS.network_of("enp1s0v1", vf(2)))
        self.assertIsNone(POOLS.network_of("enp3s0v0", vf(0, "enp3s0")))

    def test_a_vf_that_the_operator_has_named(self):
        pools = Pools.parse(["physnet1:fast0"])
        self.assertEqual("physnet1", pools.network_of("fast0", vf(3)))

    def test_what_is_no_member(self):
        for item in (
            "",
            "physnet1",
            ":eth0",
            "physnet1:",
            "physnet1:pf:",
            "physnet1:vf:eth0",
            "physnet1:a/b",
            "phys net:eth0",
            "physnet1:" + "x" * 200,
        ):
            with self.subTest(item=item), self.assertRaises(ParseError):
                Pools.parse([item])

    def test_an_interface_is_on_one_wire(self):
        with self.assertRaises(ParseError) as caught:
            Pools.parse(["physnet1:eth0", "physnet2:eth0"])
        self.assertIn("it is on physnet1 already", str(caught.exception))

    def test_there_is_a_bound(self):
        with self.assertRaises(ParseError):
            Pools.parse([f"physnet1:eth{each}" for each in range(4097)])

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(strategies.lists(strategies.text(max_size=160)))
    def test_any_texts_are_taken(self, items):
        try:
            found = Pools.parse(items)
        except ParseError:
            return
        self.assertEqual(found, Pools.parse([str(m) for m in found.members]))
