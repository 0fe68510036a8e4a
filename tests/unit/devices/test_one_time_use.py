# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest

from sriov_rt.devices import one_time_use
from sriov_rt.devices.one_time_use import Availability
from sriov_rt.devices.one_time_use import Holding
from sriov_rt.devices.one_time_use import Inventory
from sriov_rt.parse.pci import PciAddress
from sriov_rt.reason import Reason
from tests.unit.devices import fakes

ADDRESS = PciAddress.parse(fakes.ADDRESS)


def inventory(total=1, reserved=1):
    return Inventory(total, reserved, 1, 1, 1, 1.0)


RESERVED = Holding({fakes.CLASS: inventory()}, 7, False, 7)


class NameTest(unittest.TestCase):
    def test_nova_names_a_provider_for_its_node_and_address(self):
        for node, name, address in (
            ("rt-1", "rt-1_0000:41:00.0", "0000:41:00.0"),
            ("rt_1", "rt_1_0000:AF:1F.7", "0000:af:1f.7"),
            ("a.example.org", "a.example.org_10000:E1:00.0", "10000:e1:00.0"),
        ):
            with self.subTest(name):
                found = one_time_use.address_of(name, node)
                self.assertEqual(address, str(found))

    def test_any_other_name_is_refused(self):
        for name in (
            "",
            "_",
            "rt-1",
            "rt-1_",
            "rt-1_41:00.0",
            "rt-1_0000:af:00.0",
            "rt-1_0000:41:00.0 ",
            "rt-1_0000:41:00.0\n",
            "rt-1_../../0000:41:00.0",
            "rt-1_0000:41:20.0",
            "rt-1_0000:41:00.8",
            "rt-10000:41:00.0",
            "rt-2_0000:41:00.0",
            "rt-1_x_0000:41:00.0",
            "rt-1_٠٠٠٠:41:00.0",
            "x" * 100_000,
        ):
            with self.subTest(name[:40]):
                found = one_time_use.address_of(name, "rt-1")
                self.assertIsInstance(found, Reason)
                self.assertEqual("device_unnamed", found.code)
                self.assertLess(len(found.message), 500)


class JudgeTest(unittest.TestCase):
    def judge(self, **parts):
        holding = dataclasses.replace(RESERVED, **parts)
        found = one_time_use.judge(ADDRESS, fakes.UUID, holding)
        return found.code if isinstance(found, Reason) else found

    def test_only_what_is_reserved_and_of_nobody_is_due(self):
        of_nobody = {fakes.CLASS: inventory(reserved=0)}
        for expected, parts in (
            (Availability.DUE, {}),
            (Availability.AVAILABLE, {"inventories": of_nobody}),
            (Availability.ALLOCATED, {"is_allocated": True}),
            # Claimed, and nova-compute has not reserved it yet.
            (
                Availability.ALLOCATED,
                {"inventories": of_nobody, "is_allocated": True},
            ),
            ("device_provider_changed", {"allocations_generation": 8}),
        ):
            with self.subTest(expected, **parts):
                self.assertEqual(expected, self.judge(**parts))

    def test_an_inventory_that_nova_does_not_make_is_refused(self):
        for inventories in (
            {},
            {fakes.CLASS: inventory(), "PCPU": inventory()},
            {fakes.CLASS: inventory(total=0, reserved=0)},
            {fakes.CLASS: inventory(total=8, reserved=8)},
            {fakes.CLASS: inventory(reserved=-1)},
            {fakes.CLASS: inventory(reserved=2)},
        ):
            for is_allocated in (False, True):
                with self.subTest(inventories):
                    self.assertEqual(
                        "device_inventory_odd",
                        self.judge(
                            inventories=inventories, is_allocated=is_allocated
                        ),
                    )
