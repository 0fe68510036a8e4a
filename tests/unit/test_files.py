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

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt import files


class ReplaceTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name) / "file"

    def names(self):
        return sorted(each.name for each in self.path.parent.iterdir())

    def test_the_mode_is_what_is_named_whatever_the_umask(self):
        self.addCleanup(os.umask, os.umask(0o077))
        for mode in (0o600, 0o644):
            files.replace(self.path, b"x", mode)
            self.assertEqual(mode, self.path.stat().st_mode & 0o777)

    def test_what_cannot_be_written_leaves_the_old_file_alone(self):
        files.replace(self.path, b"old")
        with (
            mock.patch.object(os, "fsync", side_effect=OSError("no space")),
            self.assertRaises(OSError),
        ):
            files.replace(self.path, b"new", durable=True)
        self.assertEqual(b"old", self.path.read_bytes())
        self.assertEqual(["file"], self.names())

    def test_what_a_crash_left_is_written_over(self):
        self.path.with_name(".file.new").write_text("half of a lon")
        files.replace(self.path, b"new")
        self.assertEqual(b"new", self.path.read_bytes())
        self.assertEqual(["file"], self.names())

    def test_a_link_in_its_place_is_not_followed(self):
        other = self.path.with_name("other")
        other.write_text("kept")
        self.path.with_name(".file.new").symlink_to(other)
        with self.assertRaises(OSError):
            files.replace(self.path, b"new")
        self.assertEqual("kept", other.read_text())
