# SPDX-License-Identifier: Apache-2.0

import unittest

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.kernel.vf import VlanProtocol
from sriov_rt.neutron import claims
from sriov_rt.parse.errors import ParseError
from tests.unit.vif.test_host_offer import PLAIN

PORT = "8f6f0000-0000-4000-8000-000000000001"


def details(**changes):
    """Return the details of a direct port, as neutron-server gives them."""
    return {
        "device": "fa:16:3e:00:00:01",
        "mac_address": "fa:16:3e:00:00:01",
        "port_id": PORT,
        "network_type": "vlan",
        "segmentation_id": 117,
        "profile": {"pci_slot": "0000:01:10.2"},
        "admin_state_up": True,
        "port_security_enabled": True,
        "qos_policy_id": None,
        "network_qos_policy_id": None,
        **changes,
    }


class ReadTest(unittest.TestCase):
    def test_a_port_claims_its_vf_with_its_vlan(self):
        claim = claims.read(details())
        self.assertEqual((PORT, "0000:01:10.2"), (claim.port, claim.slot))
        wanted = claim.desired
        self.assertEqual(
            (117, 0, VlanProtocol.Q),
            (wanted.vlan, wanted.qos, wanted.vlan_protocol),
        )
        self.assertIs(False, wanted.trust)
        self.assertIs(False, wanted.query_rss)
        self.assertEqual((0, 0), (wanted.min_tx_rate, wanted.max_tx_rate))

    def test_what_others_have_just_set_is_left_alone(self):
        wanted = claims.read(details()).desired
        for name in ("mac", "spoofchk", "link_state", "mtu", "driver"):
            with self.subTest(name):
                self.assertIsNone(getattr(wanted, name))

    def test_a_flat_network_is_untagged(self):
        claim = claims.read(details(network_type="flat", segmentation_id=None))
        self.assertEqual(0, claim.desired.vlan)

    def test_rates_are_the_qos_policys_if_there_is_one(self):
        for name in ("qos_policy_id", "network_qos_policy_id"):
            with self.subTest(name):
                wanted = claims.read(details(**{name: PORT})).desired
                self.assertIsNone(wanted.max_tx_rate)
                self.assertIsNone(wanted.min_tx_rate)

    def test_trust_is_as_nova_reads_it(self):
        for text, trusted in (
            ("true", True),
            (True, True),
            ("Yes", True),
            ("1", True),
            ("False", False),
            (False, False),
            (None, False),
            ("", False),
            ("sure", False),
        ):
            with self.subTest(text=text):
                profile = {"pci_slot": "0000:01:10.2", "trusted": text}
                claim = claims.read(details(profile=profile))
                self.assertIs(trusted, claim.desired.trust)

    def test_a_port_without_a_vf_claims_nothing(self):
        for profile in ({}, None, {"pci_slot": None}):
            with self.subTest(profile=profile):
                self.assertIsNone(claims.read(details(profile=profile)))
                self.assertIsNone(
                    claims.read_unbound(details(profile=profile))
                )

    def test_what_is_out_of_the_form_is_refused_in_words(self):
        for changes in (
            {"profile": {"pci_slot": "../../etc"}},
            {"profile": {"pci_slot": 7}},
            {"port_id": None},
            {"port_id": "x y"},
            {"port_id": "a" * 65},
            {"segmentation_id": None},
            {"segmentation_id": 0},
            {"segmentation_id": 4095},
            {"segmentation_id": "1e2"},
        ):
            with self.subTest(changes=changes), self.assertRaises(ParseError):
                claims.read(details(**changes))

    @given(
        st.dictionaries(st.sampled_from(sorted(details())), PLAIN, max_size=6),
    )
    def test_any_details_are_a_claim_none_or_refused(self, given_details):
        for read in (claims.read, claims.read_unbound):
            try:
                claim = read({**details(), **given_details})
            except ParseError:
                continue
            self.assertTrue(claim is None or claim.slot.count(":") == 2)


class DepartureTest(unittest.TestCase):
    def test_what_the_agent_tells_of_a_port_that_left_is_enough(self):
        claim = claims.read_unbound(
            {
                "port_id": PORT,
                "device": "fa:16:3e:00:00:01",
                "profile": {"pci_slot": "0000:01:10.2"},
            }
        )
        self.assertEqual((PORT, "0000:01:10.2"), (claim.port, claim.slot))
