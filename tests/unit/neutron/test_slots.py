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

import pathlib
import tempfile
import unittest

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.codec import SchemaError
from sriov_rt.neutron import slots
from sriov_rt.neutron.slots import Slot
from sriov_rt.parse.errors import ParseError

KEPT = {
    "0000:01:10.0": Slot("p1", left=False),
    "0000:01:10.2": Slot("p2", left=True),
}


class FileTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name, "slots.json")

    def test_what_was_saved_is_loaded(self):
        self.assertTrue(slots.save(self.path, KEPT))
        self.assertEqual(KEPT, slots.load(self.path))
        self.assertTrue(slots.save(self.path, {}))
        self.assertEqual({}, slots.load(self.path))
        self.assertEqual([self.path], list(self.path.parent.iterdir()))

    def test_no_file_is_no_slots(self):
        self.assertEqual({}, slots.load(self.path))

    def test_a_file_of_no_use_is_told_of_and_passed_over(self):
        for data in (
            b"",
            b"{",
            b"[]",
            b'{"schema": 2, "slots": {}}',
            b'{"schema": 1, "slots": {"0000:01:10.0": {"port": 7}}}',
            b'{"schema": 1, "slots": {"../x": {"port": "p", "left": true}}}',
            b"[" * 100000,
            b" " * (slots.MAX_FILE + 1),
        ):
            with (
                self.subTest(data=data[:60]),
                self.assertLogs(slots.LOG, "WARNING") as logged,
            ):
                self.path.write_bytes(data)
                self.assertEqual({}, slots.load(self.path))
            self.assertIn(
                "cleaned when they get another port", logged.output[0]
            )

    def test_a_file_that_cannot_be_read_is_told_of(self):
        self.path.mkdir()
        with self.assertLogs(slots.LOG, "WARNING"):
            self.assertEqual({}, slots.load(self.path))

    def test_a_file_that_cannot_be_written_is_told_of(self):
        with self.assertLogs(slots.LOG, "WARNING") as logged:
            self.assertFalse(slots.save(self.path / "deeper", KEPT))
        self.assertIn("state_file", logged.output[0])

    @given(st.binary(max_size=200))
    def test_any_bytes_are_slots_or_refused(self, data):
        try:
            found = slots.parse(data)
        except (SchemaError, ParseError):
            return
        self.assertIsInstance(found, slots.Slots)
