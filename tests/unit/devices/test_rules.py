# SPDX-License-Identifier: Apache-2.0

import dataclasses
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.devices import rules
from sriov_rt.devices.rules import Device
from tests.unit.devices import fakes

IDLE = Device(
    address=fakes.ADDRESS,
    identity="8086:10c9",
    is_vf=False,
    vfs=0,
    driver="vfio-pci",
    methods=("flr", "bus"),
    holder=None,
    header=fakes.header(),
    errors={"fatal": 2, "nonfatal": 0},
)
GONE = b"\xff" * rules.HEADER


def code(found):
    return None if found is None else found.code


class ForbiddenTest(unittest.TestCase):
    def why_not(self, **parts):
        return code(rules.why_not(dataclasses.replace(IDLE, **parts)))

    def test_an_idle_device_may_be_reset(self):
        for parts in (
            {},
            {"driver": None},
            {"driver": "mlx5_vfio_pci"},
            {"methods": ("device_specific",)},
            {"methods": ("bus",)},
            {"errors": {}},
        ):
            with self.subTest(**parts):
                self.assertIsNone(self.why_not(**parts))

    def test_any_other_stays_as_it_is(self):
        for expected, parts in (
            ("device_is_vf", {"is_vf": True}),
            ("device_has_vfs", {"vfs": 1}),
            ("device_held", {"holder": "pid 4242 qemu-system-x86"}),
            ("device_use_unknown", {"holder": Unknown("EACCES")}),
            ("device_of_host", {"driver": "nvme"}),
            ("device_of_host", {"driver": "uio_pci_generic"}),
            ("device_lost", {"header": GONE}),
            ("device_lost", {"header": fakes.header(product=0x1533)}),
            ("device_without_reset", {"methods": ()}),
            ("device_without_reset", {"methods": ("pm",)}),
            ("device_without_reset", {"methods": ("pm", "bus")}),
            ("device_without_reset", {"methods": ("of_the_future",)}),
        ):
            with self.subTest(expected, **parts):
                self.assertEqual(expected, self.why_not(**parts))


class CleanTest(unittest.TestCase):
    def why_not_clean(self, **parts):
        after = dataclasses.replace(IDLE, **parts)
        return rules.why_not_clean(IDLE, after)

    def test_a_device_as_it_was_is_clean(self):
        self.assertIsNone(self.why_not_clean())

    def test_its_status_is_its_own(self):
        header = bytearray(IDLE.header)
        header[6:8] = b"\x10\xa0"
        self.assertIsNone(self.why_not_clean(header=bytes(header)))

    def test_what_is_another_after_the_reset_is_not_clean(self):
        changed = bytearray(IDLE.header)
        changed[0x10] ^= 1
        for expected, parts in (
            ("its driver is None and was vfio-pci", {"driver": None}),
            ("bus master", {"header": fakes.header(command=0x6)}),
            ("header", {"header": bytes(changed)}),
            ("1 fatal PCIe errors", {"errors": {"fatal": 3, "nonfatal": 0}}),
            ("4 nonfatal", {"errors": {"fatal": 2, "nonfatal": 4}}),
            ("in another way", {"errors": {"fatal": 2}}),
        ):
            with self.subTest(expected):
                found = self.why_not_clean(**parts)
                self.assertEqual("device_not_clean", found.code)
                self.assertIn(expected, found.message)

    def test_what_forbids_a_reset_forbids_the_next_guest(self):
        for expected, parts in (
            ("device_lost", {"header": GONE}),
            ("device_held", {"holder": "pid 1"}),
            ("device_has_vfs", {"vfs": 2}),
        ):
            with self.subTest(expected):
                self.assertEqual(expected, code(self.why_not_clean(**parts)))

    def test_a_device_that_was_bus_master_all_the_time_is_not_clean(self):
        master = dataclasses.replace(IDLE, header=fakes.header(command=0x6))
        found = rules.why_not_clean(master, master)
        self.assertIn("bus master", found.message)
