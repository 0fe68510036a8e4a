# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import unittest

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.neutron.host_offer import MAX_NETWORKS
from sriov_rt.neutron.host_offer import Offer
from sriov_rt.request.words import VifKind

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=70),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.text(max_size=70), each, max_size=4)
    ),
    max_leaves=12,
)


class OfferTest(unittest.TestCase):
    def test_what_is_reported_is_understood(self):
        offer = Offer(
            {"physnet1": 3, "physnet2": 1},
            frozenset({VifKind.MACVLAN, VifKind.IPVLAN}),
        )
        reported = offer.to_configurations()
        self.assertEqual(
            {
                "parents": {"physnet1": 3, "physnet2": 1},
                "kinds": ["ipvlan", "macvlan"],
            },
            reported,
        )
        self.assertEqual(offer, Offer.from_configurations(reported))

    def test_networks_without_parents_are_not_offered(self):
        offer = Offer.from_configurations(
            {"parents": {"physnet1": 0, "physnet2": 2}, "kinds": ["vf"]}
        )
        self.assertEqual({"physnet2": 2}, offer.parents)

    def test_what_is_out_of_the_form_is_passed_over(self):
        offer = Offer.from_configurations(
            {
                "parents": {
                    "a": True,
                    "b": "3",
                    "c d": 1,
                    "e:f": 1,
                    "": 1,
                    "g" * 65: 1,
                    "h": -1,
                    "i": 10**9,
                    "physnet1": 2,
                },
                "kinds": ["vf", "teleport", 7],
            }
        )
        self.assertEqual(
            Offer({"physnet1": 2}, frozenset({VifKind.VF})), offer
        )

    def test_a_flood_of_networks_is_none(self):
        many = {f"physnet{each}": 1 for each in range(MAX_NETWORKS + 1)}
        offer = Offer.from_configurations({"parents": many, "kinds": []})
        self.assertEqual({}, offer.parents)

    @given(PLAIN)
    def test_any_report_is_an_offer(self, reported):
        offer = Offer.from_configurations(reported)
        again = Offer.from_configurations(offer.to_configurations())
        self.assertEqual(offer, again)

    @given(PLAIN, PLAIN)
    def test_any_parents_and_kinds_are_an_offer(self, parents, kinds):
        offer = Offer.from_configurations({"parents": parents, "kinds": kinds})
        self.assertTrue(all(count > 0 for count in offer.parents.values()))
