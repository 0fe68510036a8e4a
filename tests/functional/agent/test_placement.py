# SPDX-License-Identifier: Apache-2.0

"""The traits of a provider in a real Placement, in this process."""

import unittest
import uuid

from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from placement.tests.functional.fixtures import placement

from sriov_rt.placement.resource_provider import Placement
from sriov_rt.placement.resource_provider import Provider
from sriov_rt.placement.resource_provider import ProviderMissing

REALTIME = "CUSTOM_SRIOV_RT_REALTIME"
PREEMPT_RT = "CUSTOM_SRIOV_RT_PREEMPT_RT"
MICROVERSION = "1.6"


class RealPlacementTest(unittest.TestCase):
    def setUp(self):
        fixture = placement.PlacementFixture()
        fixture.setUp()
        self.addCleanup(fixture.cleanUp)
        auth = token_endpoint.Token(fixture.endpoint, fixture.token)
        self.client = Adapter(
            session.Session(auth=auth), service_type="placement"
        )
        self.uuid = str(uuid.uuid4())
        self.provider = Provider(Placement(self.client), "rt-1", "rt-1")

    def _create_provider(self, *traits):
        self._ask(
            "POST",
            "/resource_providers",
            {"name": "rt-1", "uuid": self.uuid},
        )
        self._set(traits)

    def _ask(self, method, path, body=None):
        answer = self.client.request(
            path,
            method,
            json=body,
            microversion=MICROVERSION,
            raise_exc=False,
        )
        self.assertLess(answer.status_code, 300, answer.text)
        return answer

    def _traits(self):
        path = f"/resource_providers/{self.uuid}/traits"
        return set(self._ask("GET", path).json()["traits"])

    def _set(self, traits):
        """Replace the provider's traits, as somebody else."""
        path = f"/resource_providers/{self.uuid}/traits"
        for name in traits:
            if name.startswith("CUSTOM_"):
                self._ask("PUT", f"/traits/{name}")
        found = self._ask("GET", path).json()
        found["traits"] = list(traits)
        self._ask("PUT", path, found)

    def test_traits_come_and_go_and_those_of_others_stay(self):
        self._create_provider("COMPUTE_NODE", "CUSTOM_GOLD")
        self.provider.set_traits(frozenset({REALTIME, PREEMPT_RT}))
        self.assertEqual(
            {"COMPUTE_NODE", "CUSTOM_GOLD", REALTIME, PREEMPT_RT},
            self._traits(),
        )
        self.provider.set_traits(frozenset({PREEMPT_RT}))
        self.provider.set_traits(frozenset())
        self.assertEqual({"COMPUTE_NODE", "CUSTOM_GOLD"}, self._traits())

    def test_what_others_write_at_the_same_time_is_kept(self):
        self._create_provider("COMPUTE_NODE")
        client = Placement(self.client)
        original, meddled = client.set_traits, []

        def meddle(uuid, traits, generation):
            if not meddled:
                meddled.append(generation)
                self._set(("COMPUTE_NODE", "CUSTOM_GOLD"))
            original(uuid, traits, generation)

        client.set_traits = meddle
        Provider(client, "rt-1", "rt-1").set_traits(frozenset({REALTIME}))
        self.assertEqual(1, len(meddled))
        self.assertEqual(
            {"COMPUTE_NODE", "CUSTOM_GOLD", REALTIME}, self._traits()
        )

    def test_a_provider_that_is_not_there_yet_is_said_so(self):
        with self.assertRaises(ProviderMissing):
            self.provider.set_traits(frozenset({REALTIME}))
        self._create_provider("COMPUTE_NODE")
        self.provider.set_traits(frozenset({REALTIME}))
        self.assertIn(REALTIME, self._traits())
