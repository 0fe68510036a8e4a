# SPDX-License-Identifier: Apache-2.0

import errno
import os
import pathlib
import tempfile
import unittest
from unittest import mock

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

    def test_an_odd_file_costs_its_own_labels_alone(self):
        # As in NFD, which passes over each of them.
        odd = self.files / "b"
        for name, make in (
            ("long", lambda: odd.write_bytes(b"x" * (MAX_FILE + 1))),
            ("FIFO", lambda: os.mkfifo(odd)),
            ("loop", lambda: odd.symlink_to("b")),
        ):
            with self.subTest(name):
                (self.files / "a").write_text("a=1")
                (self.files / "c").write_text("c=1")
                make()
                self.clock.now += 1
                answer = self.source.read()
                self.assertEqual(
                    {f"{PREFIX}a": "1", f"{PREFIX}c": "1"}, answer.labels
                )
                self.assertEqual(self.clock.now, answer.confirmed)
                self.assertIn("features.d/b: ", answer.problem)
                odd.unlink()
                self.assertIsNone(self.source.read().problem)

    def test_a_line_in_another_encoding_costs_that_line(self):
        (self.files / "a").write_bytes(b"a=1\nb=f\xfcr\n\xff=1\nc=1\n")
        self.assertEqual({"a": "1", "c": "1"}, self.labels())

    def test_files_beyond_the_first_ones_are_passed_over(self):
        for number in range(nfd_local.MAX_FILES + 2):
            (self.files / f"{number:03}").write_text(f"a{number}=1")
        answer = self.source.read()
        self.assertEqual(nfd_local.MAX_FILES, len(answer.labels))
        self.assertEqual(self.clock.now, answer.confirmed)
        self.assertIn("2 files of /etc/nfd/features.d", answer.problem)

    def test_a_file_that_cannot_be_read_confirms_nothing(self):
        (self.files / "a").write_text("a=1")
        before = self.source.read()
        self.clock.now += 1
        for code in (errno.EIO, errno.EMFILE, errno.EACCES):
            with (
                self.subTest(errno.errorcode[code]),
                mock.patch.object(
                    nfd_local, "read_file", side_effect=OSError(code, "No")
                ),
            ):
                answer = self.source.read()
                self.assertEqual(before.labels, answer.labels)
                self.assertEqual(before.confirmed, answer.confirmed)
                self.assertIn("features.d/a: No", answer.problem)
