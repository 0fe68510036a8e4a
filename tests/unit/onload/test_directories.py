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


"""Profiles are read from the operator's directories, and nowhere else."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.host.root import Root
from sriov_rt.onload import grammar
from sriov_rt.onload.directories import Directories
from sriov_rt.onload.errors import ProfileUnreadable
from tests.unit.onload import fakes


class DirectoriesTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)
        for each in ("own", "theirs"):
            (self.path / each).mkdir()
        self.found = Directories(Root(place.name), ("/own", "/theirs"))

    def write(self, name, text=""):
        (self.path / name).write_text(text)

    def test_the_first_directory_counts(self):
        self.write("theirs/a.opf", "# theirs")
        self.assertEqual("# theirs", self.found.read("a", fragment=False).text)
        self.write("own/a.opf", "# own")
        read = self.found.read("a", fragment=False)
        self.assertEqual(("/own/a.opf", "# own"), (read.path, read.text))

    def test_fragments(self):
        self.write("own/a.opf-fragment")
        self.assertIsNone(self.found.read("a", fragment=False))
        self.assertIsNotNone(self.found.read("a", fragment=True))

    def test_absent(self):
        self.assertIsNone(self.found.read("a", fragment=True))
        self.assertEqual(("/own", "/theirs"), self.found.places)

    def test_what_cannot_be_read(self):
        (self.path / "own/dir.opf").mkdir()
        os.mkfifo(self.path / "own/fifo.opf")
        (self.path / "own/loop.opf").symlink_to("loop.opf")
        (self.path / "own/bytes.opf").write_bytes(b"\xff\xfe")
        self.write("own/long.opf", "#" * (grammar.MAX_PROFILE + 1))
        for each in ("dir", "fifo", "loop", "bytes", "long"):
            with (
                self.subTest(each=each),
                self.assertRaises(ProfileUnreadable) as caught,
            ):
                self.found.read(each, fragment=False)
            self.assertEqual(f"/own/{each}.opf", caught.exception.path)

    def test_no_hostile_name_reaches_a_system_call(self):
        calls = ("open", "stat", "readlink", "lstat")
        with mock.patch.multiple(
            os,
            **{each: mock.Mock(side_effect=AssertionError) for each in calls},
        ):
            for name in fakes.HOSTILE_NAMES:
                with self.subTest(name=name), self.assertRaises(ValueError):
                    self.found.read(name, fragment=True)
