# SPDX-License-Identifier: Apache-2.0

"""The device nodes of macvtaps."""

import errno
import os
import pathlib
import stat
import tempfile
import types
import unittest
from unittest import mock

from sriov_rt.kernel import errors
from sriov_rt.kernel import taps


class EnsureTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.dev = pathlib.Path(made.name, "dev")
        self.sys = pathlib.Path(made.name, "net")
        (self.sys / "tap0" / "tap7").mkdir(parents=True)
        self.dev.mkdir()
        self._say("246:3\n")
        for name, value in (("DEV", self.dev), ("SYS", self.sys)):
            self._patch(taps, name, value)
        self.mknod = self._patch(taps.os, "mknod")

    def _patch(self, where, name, *value):
        patched = mock.patch.object(where, name, *value)
        self.addCleanup(patched.stop)
        return patched.start()

    def _say(self, text: str) -> None:
        (self.sys / "tap0" / "tap7" / "dev").write_text(text)

    def _found(self, *numbers):
        """Let a look at a node find a device of each number, in turn."""
        return mock.patch.object(
            pathlib.Path,
            "lstat",
            side_effect=[
                types.SimpleNamespace(
                    st_mode=stat.S_IFCHR, st_rdev=os.makedev(246, each)
                )
                for each in numbers
            ],
        )

    def test_a_missing_node_is_made(self):
        self.assertEqual(taps.ensure("tap0", 7), self.dev / "tap7")
        (place, mode, number), _ = self.mknod.call_args
        self.assertEqual(place, self.dev / "tap7")
        self.assertEqual(mode, 0o020600)
        self.assertEqual((os.major(number), os.minor(number)), (246, 3))

    def test_the_right_node_stays(self):
        with self._found(3):
            taps.ensure("tap0", 7)
        self.mknod.assert_not_called()

    def test_what_is_left_over_goes(self):
        (self.dev / "tap7").write_text("not a device")
        taps.ensure("tap0", 7)
        self.assertFalse((self.dev / "tap7").exists())
        self.mknod.assert_called_once()

    def test_a_link_in_its_place_is_not_followed(self):
        target = self.dev / "precious"
        target.write_text("precious")
        (self.dev / "tap7").symlink_to(target)
        taps.ensure("tap0", 7)
        self.assertEqual(target.read_text(), "precious")
        self.assertFalse((self.dev / "tap7").is_symlink())

    def test_udev_may_be_first(self):
        self.mknod.side_effect = FileExistsError(errno.EEXIST, "there")
        with self._found(4, 3):
            taps.ensure("tap0", 7)

    def test_something_else_may_be_first(self):
        self.mknod.side_effect = FileExistsError(errno.EEXIST, "there")
        with self.assertRaises(errors.NotVerified):
            taps.ensure("tap0", 7)

    def test_without_the_capability(self):
        self.mknod.side_effect = PermissionError(errno.EPERM, "no")
        with self.assertRaises(errors.NotPermitted) as caught:
            taps.ensure("tap0", 7)
        self.assertIn("tap7", caught.exception.device)

    def test_no_macvtap(self):
        for index in (8, 1):
            with self.assertRaises(errors.NoSuchLink):
                taps.ensure("tap0", index)

    def test_numbers_out_of_their_form(self):
        for text in ("", "246", "x:3", "246:1048577", "4096:1", "246:-1"):
            self._say(text)
            with (
                self.subTest(text=text),
                self.assertRaises(errors.NoSuchLink),
            ):
                taps.ensure("tap0", 7)
        self.mknod.assert_not_called()

    def test_a_node_of_ours_goes_with_its_interface(self):
        place = self.dev / "tap7"
        place.write_text("")
        for number, ours in ((3, True), (4, False)):
            with self.subTest(ours=ours), self._found(number):
                with taps.leaving("tap0", 7):
                    self.assertTrue(place.exists())
                self.assertNotEqual(ours, place.exists())
                place.write_text("")

    def test_what_devtmpfs_has_removed_is_gone(self):
        with taps.leaving("tap0", 7):
            pass
        with taps.leaving("nothing", 8):
            pass

    def test_a_deletion_that_fails_keeps_the_node(self):
        (self.dev / "tap7").write_text("")
        with (
            self._found(3),
            self.assertRaises(errors.ParentTaken),
            taps.leaving("tap0", 7),
        ):
            raise errors.ParentTaken("tap0")
        self.assertTrue((self.dev / "tap7").exists())

    def test_a_node_that_cannot_be_removed_is_logged(self):
        refused = PermissionError(errno.EPERM, "no")
        with (
            mock.patch.object(pathlib.Path, "lstat", side_effect=refused),
            self.assertLogs("sriov_rt.kernel.taps", "WARNING") as logs,
            taps.leaving("tap0", 7),
        ):
            pass
        self.assertIn("tap7 cannot be removed: no", logs.output[0])
