# SPDX-License-Identifier: Apache-2.0

import unittest

import requests_mock
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter

from sriov_rt.devices.one_time_use import Holding
from sriov_rt.devices.one_time_use import Inventory
from sriov_rt.devices.providers import DeviceProvider
from sriov_rt.devices.providers import DeviceProviders
from sriov_rt.placement.resource_provider import GenerationConflict
from sriov_rt.placement.resource_provider import PlacementRefused
from sriov_rt.placement.resource_provider import PlacementUnreachable
from tests.unit.devices import fakes

URL = "http://placement.example.org"
PROVIDER = f"{URL}/resource_providers/{fakes.UUID}"
INVENTORY = {
    "total": 1,
    "reserved": 1,
    "min_unit": 1,
    "max_unit": 1,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
INVENTORIES = {
    "inventories": {fakes.CLASS: INVENTORY},
    "resource_provider_generation": 7,
}
UNUSED = {"allocations": {}, "resource_provider_generation": 7}
HOLDING = Holding({fakes.CLASS: Inventory(1, 1, 1, 1, 1, 1.0)}, 7, False, 7)


class DeviceProvidersTest(unittest.TestCase):
    def setUp(self):
        self.http = self.enterContext(requests_mock.Mocker())
        auth = token_endpoint.Token(URL, "token")
        self.placement = DeviceProviders(
            Adapter(session.Session(auth=auth), service_type="placement")
        )

    def answer(self, inventories=INVENTORIES, allocations=UNUSED):
        self.http.get(f"{PROVIDER}/inventories", json=inventories)
        self.http.get(f"{PROVIDER}/allocations", json=allocations)

    def test_providers_of_the_tree_that_have_the_trait(self):
        self.http.get(
            f"{URL}/resource_providers",
            json={
                "resource_providers": [
                    {
                        "uuid": fakes.UUID,
                        "name": "rt-1_0000:41:00.0",
                        "generation": 7,
                        "parent_provider_uuid": fakes.ROOT,
                        "root_provider_uuid": fakes.ROOT,
                    }
                ]
            },
        )
        self.assertEqual(
            (DeviceProvider(fakes.UUID, "rt-1_0000:41:00.0", fakes.ROOT),),
            self.placement.one_time_use(fakes.ROOT),
        )
        asked = self.http.last_request
        self.assertEqual(
            {"in_tree": [fakes.ROOT], "required": ["hw_pci_one_time_use"]},
            asked.qs,
        )
        self.assertEqual(
            "placement 1.18", asked.headers["OpenStack-API-Version"]
        )

    def test_a_holding(self):
        self.answer()
        self.assertEqual(HOLDING, self.placement.holding(fakes.UUID))

    def test_a_holding_of_an_instance(self):
        self.answer(
            allocations={
                "allocations": {fakes.CONSUMER: {"resources": {}}},
                "resource_provider_generation": 8,
            }
        )
        found = self.placement.holding(fakes.UUID)
        self.assertTrue(found.is_allocated)
        self.assertEqual(8, found.allocations_generation)

    def test_garbage_is_no_answer(self):
        for inventories, allocations in (
            ([], UNUSED),
            ({}, UNUSED),
            ({**INVENTORIES, "inventories": []}, UNUSED),
            ({**INVENTORIES, "inventories": {"X": None}}, UNUSED),
            ({**INVENTORIES, "inventories": {"X": {}}}, UNUSED),
            (
                {
                    **INVENTORIES,
                    "inventories": {"X": {**INVENTORY, "reserved": "1"}},
                },
                UNUSED,
            ),
            (
                {
                    **INVENTORIES,
                    "inventories": {
                        "X": {**INVENTORY, "allocation_ratio": True}
                    },
                },
                UNUSED,
            ),
            (
                {**INVENTORIES, "resource_provider_generation": None},
                UNUSED,
            ),
            (INVENTORIES, {}),
            (INVENTORIES, {**UNUSED, "allocations": []}),
            (INVENTORIES, {**UNUSED, "allocations": None}),
            (INVENTORIES, {"allocations": {}}),
        ):
            with self.subTest(inventories=inventories, used=allocations):
                self.answer(inventories, allocations)
                with self.assertRaises(PlacementUnreachable):
                    self.placement.holding(fakes.UUID)
        for listed in ([], {"resource_providers": [None]}, {}):
            self.http.get(f"{URL}/resource_providers", json=listed)
            with self.subTest(listed), self.assertRaises(PlacementUnreachable):
                self.placement.one_time_use(fakes.ROOT)
        self.http.get(f"{PROVIDER}/inventories", text="<html>")
        with self.assertRaises(PlacementUnreachable):
            self.placement.holding(fakes.UUID)

    def test_only_reserved_changes(self):
        path = f"{PROVIDER}/inventories/{fakes.CLASS}"
        self.http.put(path, json={})
        self.placement.unreserve(fakes.UUID, HOLDING)
        self.assertEqual(
            {
                **INVENTORY,
                "reserved": 0,
                "resource_provider_generation": 7,
            },
            self.http.last_request.json(),
        )

    def test_another_generation_is_a_conflict(self):
        path = f"{PROVIDER}/inventories/{fakes.CLASS}"
        for status, error in (
            (409, GenerationConflict),
            (403, PlacementRefused),
            (503, PlacementUnreachable),
        ):
            self.http.put(path, status_code=status)
            with self.subTest(status), self.assertRaises(error):
                self.placement.unreserve(fakes.UUID, HOLDING)
