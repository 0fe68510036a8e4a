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

from sriov_rt.agent import placement
from tests.unit.agent import fake_placement

REALTIME = "CUSTOM_SRIOV_RT_REALTIME"
PREEMPT_RT = "CUSTOM_SRIOV_RT_PREEMPT_RT"
LOGGER = "sriov_rt.agent.placement"


class ProviderTest(unittest.TestCase):
    def setUp(self):
        self.placement = fake_placement.FakePlacement("rt-1", "COMPUTE_NODE")
        self.provider = placement.Provider(self.placement, "rt-1", "rt-1")

    def test_traits_are_made_known_and_set(self):
        with self.assertLogs(LOGGER, "INFO") as logs:
            self.provider.set_traits(frozenset({REALTIME, PREEMPT_RT}))
        self.assertEqual(
            {"COMPUTE_NODE", REALTIME, PREEMPT_RT}, self.placement.provider
        )
        self.assertIn("host=rt-1 node=rt-1", logs.output[0])
        self.assertIn(f"added={PREEMPT_RT},{REALTIME}", logs.output[0])

    def test_nothing_is_written_when_nothing_differs(self):
        self.provider.set_traits(frozenset())
        self.assertEqual(0, self.placement.writes)

    def test_they_are_withdrawn(self):
        self.placement.provider.add(REALTIME)
        self.placement.known.add(REALTIME)
        with self.assertLogs(LOGGER, "INFO"):
            self.provider.set_traits(frozenset())
        self.assertEqual({"COMPUTE_NODE"}, self.placement.provider)

    def test_what_others_set_meanwhile_is_kept(self):
        def meddle():
            self.placement.meddle = lambda: None
            self.placement.provider.add("CUSTOM_GOLD")
            self.placement.known.add("CUSTOM_GOLD")
            self.placement.generation += 1

        self.placement.meddle = meddle
        with self.assertLogs(LOGGER, "INFO"):
            self.provider.set_traits(frozenset({REALTIME}))
        self.assertEqual(
            {"COMPUTE_NODE", "CUSTOM_GOLD", REALTIME}, self.placement.provider
        )

    def test_it_gives_up_on_a_provider_that_keeps_changing(self):
        attempts = []

        def meddle():
            attempts.append(1)
            self.placement.generation += 1

        self.placement.meddle = meddle
        with self.assertRaises(placement.GenerationConflict):
            self.provider.set_traits(frozenset({REALTIME}))
        self.assertEqual(placement.ATTEMPTS, len(attempts))

    def test_a_provider_that_is_not_there_yet_is_waited_for(self):
        self.placement.provider = None
        with self.assertRaises(placement.ProviderMissing) as raised:
            self.provider.set_traits(frozenset({REALTIME}))
        self.assertEqual("rt-1", raised.exception.node)
        self.assertIn("start nova-compute", str(raised.exception))

    def test_a_provider_that_is_not_there_has_nothing_to_withdraw(self):
        self.placement.provider = None
        self.provider.set_traits(frozenset())
        self.assertEqual(0, self.placement.writes)
