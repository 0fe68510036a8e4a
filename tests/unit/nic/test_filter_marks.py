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

"""Marks of VFs whose PF may keep MAC filters."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.host.root import Root
from sriov_rt.nic import errors
from sriov_rt.nic import filter_marks
from sriov_rt.nic.filter_marks import FilterMarks

VF = "0000:01:10.0"


class FilterMarksTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        (self.root / filter_marks.DEVICES / VF).mkdir(parents=True)
        self.marks = FilterMarks(Root(place.name))
        self.file = self.root / filter_marks.DIRECTORY / VF

    def test_a_mark_is_of_one_device(self):
        self.assertFalse(self.marks.has(VF))
        self.marks.put(VF)
        self.assertTrue(self.marks.has(VF))
        self.file.write_text("1\n")
        self.assertFalse(self.marks.has(VF))
        self.marks.put("0000:01:10.2")
        self.assertFalse(self.marks.has("0000:01:10.2"))

    def test_a_damaged_mark_is_one(self):
        self.file.parent.mkdir(parents=True)
        for data in (b"", b"x", b"9" * 5000, b"\xff"):
            self.file.write_bytes(data)
            self.assertTrue(self.marks.has(VF), data[:9])
            self.marks.put(VF)
            self.assertTrue(self.marks.has(VF))
        self.file.unlink()
        os.mkfifo(self.file)
        self.assertTrue(self.marks.has(VF))
        self.marks.put(VF)
        self.assertTrue(self.file.is_file())

    def test_no_mark_is_left_to_a_container(self):
        with mock.patch.object(
            filter_marks.container, "ends_with_container", return_value=True
        ):
            with self.assertRaises(errors.MarkNotKept) as caught:
                self.marks.put(VF)
            self.assertTrue(self.marks.has(VF))
        self.assertFalse(self.file.exists())
        self.assertIn("mount the host's /run", str(caught.exception))
        self.assertIn(str(self.file.parent), str(caught.exception))
