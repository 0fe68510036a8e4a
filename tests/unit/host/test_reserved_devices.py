# SPDX-License-Identifier: Apache-2.0

from sriov_rt import documents
from sriov_rt.codec import Unknown
from sriov_rt.host import reserved_devices
from sriov_rt.host.reserved_devices import Record
from sriov_rt.host.reserved_devices import ReservedDevice
from tests.unit.host import trees

NOW = 1_800_000_000.0
DEVICE = ReservedDevice("0000:41:00.0", "device_lost", "a; b", "b")


class ReservedDevicesTest(trees.TreeTest):
    def write(self, at=NOW, schema=reserved_devices.SCHEMA):
        self.tree.write(
            reserved_devices.PATH,
            documents.dump(Record(at, (DEVICE,)), schema),
        )

    def observe(self):
        return reserved_devices.observe(self.tree.root, NOW)

    def test_no_run_leaves_nothing(self):
        self.assertEqual((), self.observe())

    def test_what_the_last_run_has_left(self):
        self.write()
        self.assertEqual((DEVICE,), self.observe())

    def test_a_record_of_a_cleaning_that_was_turned_off(self):
        self.write(NOW - reserved_devices.MAX_AGE_S - 1)
        self.assertEqual((), self.observe())

    def test_a_record_that_cannot_be_read_is_unknown(self):
        self.write(schema=reserved_devices.SCHEMA + 1)
        self.assertIsInstance(self.observe(), Unknown)
        for data in (
            *("", "{", "[]", '{"schema": 1}', b"\xff"),
            '{"schema": 1, "at": 1, "devices": [{}]}',
            " " * (reserved_devices.MAX_RECORD + 1),
        ):
            self.tree.write(reserved_devices.PATH, data)
            with self.subTest(data[:40]):
                self.assertIsInstance(self.observe(), Unknown)
        self.tree.make_unreadable(reserved_devices.PATH)
        self.assertIsInstance(self.observe(), Unknown)
