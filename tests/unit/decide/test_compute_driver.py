# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt import facts
from sriov_rt import request
from sriov_rt.codec import Unknown
from sriov_rt.decide import compute_driver
from tests.unit import builders


def codes(driver):
    host = builders.realtime_host(compute={"driver": driver})
    found = compute_driver.reasons(facts.decisive(host))
    return [each.code for each in found]


class ComputeDriverTest(unittest.TestCase):
    def test_a_flavor_without_our_keys_needs_no_driver_of_ours(self):
        self.assertFalse(compute_driver.is_needed(request.parse({})))
        specs = {"hw:cpu_policy": "dedicated"}
        self.assertFalse(compute_driver.is_needed(request.parse(specs)))

    def test_a_guest_that_is_stripped_needs_it(self):
        specs = {"sriov_rt:guest": "lean"}
        self.assertTrue(compute_driver.is_needed(request.parse(specs)))

    def test_a_host_without_it(self):
        self.assertEqual([], codes("1.0"))
        self.assertEqual(["compute_driver_missing"], codes(None))

    def test_a_driver_that_could_not_be_looked_for(self):
        self.assertEqual(["fact_unknown"], codes(Unknown("EACCES")))

    def test_an_older_agent_reports_none(self):
        self.assertEqual([], codes(facts.NOT_REPORTED))
