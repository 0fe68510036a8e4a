# SPDX-License-Identifier: Apache-2.0

import contextlib
import os
import pathlib
import stat
import tempfile
import threading
import unittest
from unittest import mock

from sriov_rt import files


class LockTest(unittest.TestCase):
    def test_one_that_is_held_is_waited_for(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "lock"
            stack = contextlib.ExitStack()
            stack.enter_context(files.locked(path))
            for seconds in (0.0, 0.05):
                with (
                    self.assertRaises(BlockingIOError),
                    files.locked(path, seconds),
                ):
                    self.fail("it is held")
            threading.Timer(0.05, stack.close).start()
            with files.locked(path, 10.0):
                pass

    def test_it_ends_with_its_owner_and_not_with_a_child(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "lock"
            reader, writer = os.pipe()
            with files.locked(path):
                child = os.fork()
                if not child:
                    os.close(writer)
                    os.read(reader, 1)
                    os._exit(0)
            with files.locked(path, 5.0):
                pass
            os.close(writer)
            os.close(reader)
            os.waitpid(child, 0)

    def test_a_link_is_none(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "lock"
            path.symlink_to("another")
            with self.assertRaises(OSError), files.locked(path):
                self.fail("it is a link")
            self.assertFalse(path.exists())


class DirectoryTest(unittest.TestCase):
    def test_root_s_umask_keeps_nobody_out(self):
        """Nor does a daemon's umask let everybody write."""
        for umask in (0o077, 0o027, 0o000):
            with (
                self.subTest(oct(umask)),
                tempfile.TemporaryDirectory() as place,
            ):
                self.addCleanup(os.umask, os.umask(umask))
                top = pathlib.Path(place) / "lib"
                for mode in (0o700, 0o755):
                    files.make_directory(top / "a" / f"{mode}", mode)
                    found = (top / "a" / f"{mode}").stat().st_mode & 0o777
                    self.assertEqual(mode, found)
                for each in (top, top / "a"):
                    self.assertEqual(0o755, each.stat().st_mode & 0o777)
                top.chmod(0o711)
                files.make_directory(top)
                self.assertEqual(0o711, top.stat().st_mode & 0o777)


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

    def test_a_full_disk_is_named_by_the_file(self):
        """Without a name, the error would seem to be about the output."""
        with (
            mock.patch("os.write", side_effect=OSError(28, "No space left")),
            self.assertRaises(OSError) as caught,
        ):
            files.replace(self.path, b"new")
        self.assertEqual(str(self.path), caught.exception.filename)

    def test_a_durable_one_is_on_the_disk_by_its_name(self):
        """A later power cut must not bring the old file back."""
        synced = []

        def fsync(descriptor):
            link = pathlib.Path(f"/proc/self/fd/{descriptor}")
            synced.append(str(link.readlink()))

        with mock.patch("os.fsync", fsync):
            files.replace(self.path, b"new", durable=True)
        self.assertEqual(str(self.path.parent), synced[-1])
        self.assertEqual(2, len(synced))

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


class ReadTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name) / "store"
        self.directory.mkdir(0o700)
        self.path = self.directory / "file"

    def refused(self, path=None, **options):
        with self.assertRaises(files.Unusable) as caught:
            files.read(path or self.path, 9, **options)
        return caught.exception.strerror

    def test_one_byte_more_than_the_limit_tells_that_it_is_longer(self):
        self.path.write_bytes(b"x" * 100)
        self.assertEqual(b"x" * 10, files.read(self.path, 9))

    def test_nothing_but_a_file_is_read_and_nothing_is_waited_for(self):
        os.mkfifo(self.path)
        self.assertEqual("not a regular file", self.refused())
        self.assertEqual("not a regular file", self.refused(self.directory))
        socket = self.directory / "socket"
        os.mknod(socket, 0o600 | stat.S_IFSOCK)
        self.assertEqual("not a regular file", self.refused(socket))

    def test_a_private_file_is_no_link(self):
        self.path.write_bytes(b"x")
        link = self.directory / "link"
        link.symlink_to(self.path)
        self.assertEqual(b"x", files.read(link, 9))
        self.assertEqual("a link", self.refused(link, private=True))

    def test_a_private_file_is_roots_or_ours(self):
        self.path.write_bytes(b"x")
        self.assertEqual(b"x", files.read(self.path, 9, private=True))
        for mode in (0o620, 0o602, 0o666):
            self.path.chmod(mode)
            self.assertEqual(
                f"can be written by others (mode {mode:04o})",
                self.refused(private=True),
            )
        self.path.chmod(0o600)
        with mock.patch.object(os, "geteuid", return_value=4242):
            if self.path.stat().st_uid:
                self.assertIn("belongs to user", self.refused(private=True))
        if os.geteuid() == 0:
            os.chown(self.path, 4242, 0)
            self.assertEqual(
                "belongs to user 4242", self.refused(private=True)
            )

    def test_a_directory_of_others(self):
        files.check_directory(self.directory)
        for mode in (0o770, 0o707, 0o1777):
            self.directory.chmod(mode)
            with self.assertRaises(files.Unusable) as caught:
                files.check_directory(self.directory)
            self.assertEqual(
                f"{self.directory} can be written by others (mode {mode:04o})",
                caught.exception.strerror,
            )
        link = self.directory.with_name("link")
        link.symlink_to(self.directory)
        with self.assertRaises(files.Unusable) as caught:
            files.check_directory(link)
        self.assertEqual(f"{link} is a link", caught.exception.strerror)
        with self.assertRaises(FileNotFoundError):
            files.check_directory(self.directory / "none")
