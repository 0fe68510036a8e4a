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

from sriov_rt.host.root import Root
from sriov_rt.labels import nfd_local
from sriov_rt.parse.features import MAX_FILE
from tests.unit.labels import fakes

DIRECTORY = "/etc/nfd/features.d"
PREFIX = "feature.node.kubernetes.io/"


class NfdLocalTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.files = pathlib.Path(place.name + DIRECTORY)
        self.files.mkdir(parents=True)
        self.clock = fakes.Clock()
        self.source = nfd_local.NfdLocal(
            Root(place.name),
            DIRECTORY,
            monotonic=self.clock.monotonic,
            wall=self.clock.wall,
        )

    def labels(self):
        answer = self.source.read()
        self.assertIsNone(answer.problem)
        self.assertEqual(self.clock.now, answer.confirmed)
        return {
            key.removeprefix(PREFIX): value
            for key, value in answer.labels.items()
        }

    def test_files_in_the_order_of_their_names(self):
        (self.files / "10-a").write_text("a=1\nb=1\n")
        (self.files / "20-b").write_text("b=2\n")
        (self.files / ".hidden").write_text("c=3\n")
        (self.files / "sub").mkdir()
        (self.files / "empty").touch()
        self.assertEqual({"a": "1", "b": "2"}, self.labels())
        (self.files / "20-b").unlink()
        self.assertEqual({"a": "1", "b": "1"}, self.labels())

    def test_what_the_agent_wrote_itself_is_passed_over(self):
        (self.files / "sriov-rt").write_text("a=1")
        self.assertEqual({}, self.labels())

    def test_no_directory_is_no_file(self):
        self.files.rmdir()
        self.assertEqual({}, self.labels())

    def test_labels_expire_by_themselves(self):
        (self.files / "a").write_text(
            "# +expiry-time=2026-09-21T14:30:01Z\na=1"
        )
        self.assertEqual({"a": "1"}, self.labels())
        self.clock.now += 3
        self.assertEqual({}, self.labels())

    def test_nothing_new_is_the_same_object(self):
        (self.files / "a").write_text("a=1")
        first = self.source.read().labels
        self.assertIs(first, self.source.read().labels)

    def test_a_file_that_cannot_be_taken_confirms_nothing(self):
        (self.files / "a").write_text("a=1")
        before = self.source.read()
        self.clock.now += 1
        for data in (b"x" * (MAX_FILE + 1), b"\xff=1"):
            with self.subTest(data=data[:5]):
                (self.files / "b").write_bytes(data)
                answer = self.source.read()
                self.assertEqual(before.labels, answer.labels)
                self.assertEqual(before.confirmed, answer.confirmed)
                self.assertIn("features.d/b: ", answer.problem)

    def test_too_many_files(self):
        for number in range(nfd_local.MAX_FILES + 1):
            (self.files / str(number)).touch()
        answer = self.source.read()
        self.assertIsNone(answer.labels)
        self.assertIn("more than 256 files", answer.problem)
