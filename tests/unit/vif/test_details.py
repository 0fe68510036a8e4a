# SPDX-License-Identifier: Apache-2.0

import unittest
from typing import Any

from hypothesis import given
from hypothesis import strategies

from sriov_rt.parse.errors import ParseError
from sriov_rt.request.words import Vif
from sriov_rt.request.words import VifKind
from sriov_rt.vif import details
from tests.unit.parse import properties

FULL = {
    "kind": "macvlan",
    "mode": "private",
    "physical_network": "physnet1",
    "vlan": 100,
    "port_filter": False,
    "connectivity": "l2",
}

_VALUES = strategies.one_of(
    strategies.none(),
    strategies.booleans(),
    strategies.integers(),
    strategies.floats(),
    strategies.text(max_size=8),
    strategies.sampled_from(["macvlan", "vf", "bridge", "l2", "physnet1"]),
    strategies.lists(strategies.text(max_size=8)),
)


class DetailsTest(unittest.TestCase):
    def test_those_of_the_mechanism_driver(self):
        self.assertEqual(
            details.Details(Vif(VifKind.MACVLAN, "private"), "physnet1", 100),
            details.parse(FULL),
        )

    def test_a_whole_vf_has_no_mode(self):
        found = details.parse({**FULL, "kind": "vf", "mode": None})
        self.assertEqual(Vif(VifKind.VF, None), found.vif)

    def test_without_a_mode_it_is_the_first_of_the_kind(self):
        found = details.parse({**FULL, "kind": "ipvlan", "mode": None})
        self.assertEqual(Vif(VifKind.IPVLAN, "l2"), found.vif)

    def test_a_vlan_may_come_as_digits_or_not_at_all(self):
        for given_, expected in (
            ("100", 100),
            (None, 0),
            (0, 0),
            (4094, 4094),
        ):
            found = details.parse({**FULL, "vlan": given_})
            self.assertEqual(expected, found.vlan)

    def test_what_is_out_of_the_grammar_is_refused(self):
        for wrong in (
            {"kind": "bridge"},
            {"kind": None},
            {"kind": ["vf"]},
            {"mode": "l2"},
            {"physical_network": None},
            {"physical_network": "a/b"},
            {"physical_network": "n" * 65},
            {"vlan": 4095},
            {"vlan": -1},
            {"vlan": 1.5},
            {"vlan": True},
            {"vlan": "1_0"},
        ):
            with self.subTest(**wrong), self.assertRaises(ParseError):
                details.parse({**FULL, **wrong})

    def test_an_unbound_port_says_whom_to_ask(self):
        with self.assertRaisesRegex(ParseError, "mechanism driver"):
            details.parse({})

    @properties.deterministic
    @given(
        strategies.dictionaries(
            strategies.sampled_from(
                ["kind", "mode", "physical_network", "vlan"]
            ),
            _VALUES,
        )
    )
    def test_whatever_comes_it_is_details_or_a_parse_error(
        self, found: dict[str, Any]
    ):
        try:
            parsed = details.parse(found)
        except ParseError:
            return
        self.assertIn(parsed.vlan, range(4095))
