# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.agent.publisher import Bus
from sriov_rt.labels.service import Labels
from sriov_rt.placement.resource_provider import Placement
from tests.unit import signatures
from tests.unit.agent.fake_bus import FakeBus
from tests.unit.agent.fake_placement import FakePlacement
from tests.unit.agent.fakes import FakeLabels


class FakesTest(unittest.TestCase):
    def test_each_is_as_the_class_that_it_stands_in_for(self):
        for fake, real in (
            (FakeBus, Bus),
            (FakePlacement, Placement),
            (FakeLabels, Labels),
        ):
            with self.subTest(real=real.__name__):
                self.assertEqual([], signatures.differences(fake, real))

    def test_what_they_have_not_is_not_theirs_to_do(self):
        self.assertEqual(set(), signatures.missing(FakeBus, Bus))
        self.assertEqual(set(), signatures.missing(FakePlacement, Placement))
        # The agent's threads are started apart from its other parts.
        self.assertEqual(
            {"start", "stop"}, signatures.missing(FakeLabels, Labels)
        )
