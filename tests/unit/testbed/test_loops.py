# SPDX-License-Identifier: Apache-2.0

import pathlib
import tempfile
import unittest
from unittest import mock

from tests.testbed import loops


class LoopsTest(unittest.TestCase):
    """The loop devices of one cloud, among those of the machine."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.block = pathlib.Path(scratch.name)
        patch = mock.patch.object(loops, "_BLOCK", self.block)
        self.addCleanup(patch.stop)
        patch.start()

    def attach(self, name, file):
        loop = self.block / name / "loop"
        loop.mkdir(parents=True)
        (loop / "backing_file").write_text(f"{file}\n")

    def attached(self):
        return loops.attached(pathlib.Path("/var/tmp/cloud"))

    def test_those_of_others_are_left_out(self):
        self.attach("loop0", "/var/tmp/cloud/data/disk")
        self.attach("loop1", "/var/tmp/cloud-2/data/disk")
        # Not attached to anything.
        (self.block / "loop2").mkdir()
        self.assertEqual(
            {"loop0": "/var/tmp/cloud/data/disk"}, self.attached()
        )

    def test_a_file_that_was_deleted_is_known_still(self):
        self.attach("loop7", "/var/tmp/cloud/disk (deleted)")
        self.assertEqual({"loop7": "/var/tmp/cloud/disk"}, self.attached())

    def test_each_of_them_is_detached(self):
        self.attach("loop0", "/var/tmp/cloud/a")
        self.attach("loop1", "/var/tmp/cloud/b")
        self.attach("loop2", "/srv/c")
        with mock.patch.object(loops, "run") as run:
            loops.detach(pathlib.Path("/var/tmp/cloud"))
        self.assertEqual(
            [
                ("losetup", "--detach", "/dev/loop0"),
                ("losetup", "--detach", "/dev/loop1"),
            ],
            [call.args[0] for call in run.call_args_list],
        )
