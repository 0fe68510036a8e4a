# SPDX-License-Identifier: Apache-2.0

"""Network namespaces; nothing here needs a privilege."""

import errno
import os
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

from sriov_rt.kernel import errors
from sriov_rt.kernel import namespaces


class PathTest(unittest.TestCase):
    def test_a_name(self):
        self.assertEqual(
            namespaces.path("tenant-1"), pathlib.Path("/run/netns/tenant-1")
        )

    def test_a_process(self):
        self.assertEqual(
            namespaces.path("pid:4711"), pathlib.Path("/proc/4711/ns/net")
        )

    def test_what_no_namespace_is_called(self):
        for name in ("", ".", "..", "../proc", "a/b", "a\0b", "x" * 256):
            with (
                self.subTest(name=name),
                self.assertRaises(errors.NoSuchNamespace),
            ):
                namespaces.path(name)

    def test_what_no_process_is_called(self):
        for number in ("", "0", "-1", "1x", "self", "4194305", "1/root"):
            with (
                self.subTest(number=number),
                self.assertRaises(errors.NoSuchNamespace),
            ):
                namespaces.path(f"pid:{number}")


class OpenedTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.names = pathlib.Path(made.name)
        patched = mock.patch.object(namespaces, "NAMES", self.names)
        patched.start()
        self.addCleanup(patched.stop)

    def _is_left_open(self, descriptor: int) -> bool:
        try:
            os.fstat(descriptor)
        except OSError:
            return False
        return True

    def test_the_callers_own(self):
        with namespaces.opened(None) as found:
            wanted = pathlib.Path("/proc/self/ns/net").stat()
            self.assertEqual(
                namespaces.identity(found),
                namespaces.Identity(wanted.st_dev, wanted.st_ino),
            )
        self.assertFalse(self._is_left_open(found))

    def test_that_of_a_process(self):
        with (
            namespaces.opened(None) as own,
            namespaces.opened(f"pid:{os.getpid()}") as found,
        ):
            self.assertEqual(
                namespaces.identity(found), namespaces.identity(own)
            )

    def test_none_of_the_name(self):
        with (
            self.assertRaises(errors.NoSuchNamespace) as caught,
            namespaces.opened("tenant"),
        ):
            pass
        self.assertEqual(caught.exception.device, "tenant")

    def test_a_file_that_is_no_namespace(self):
        (self.names / "tenant").touch()
        with (
            self.assertRaises(errors.NoSuchNamespace),
            namespaces.opened("tenant"),
        ):
            pass

    def test_a_namespace_of_another_type(self):
        (self.names / "tenant").symlink_to("/proc/self/ns/uts")
        with (
            self.assertRaises(errors.NoSuchNamespace),
            namespaces.opened("tenant"),
        ):
            pass

    def test_a_process_of_somebody_else(self):
        refused = PermissionError(errno.EACCES, "no")
        with (
            mock.patch.object(namespaces.os, "open", side_effect=refused),
            self.assertRaises(errors.NotPermitted),
            namespaces.opened("pid:1"),
        ):
            pass

    def test_a_process_that_ends_meanwhile(self):
        gone = ProcessLookupError(errno.ESRCH, "gone")
        with (
            mock.patch.object(namespaces.os, "open", side_effect=gone),
            self.assertRaises(errors.NoSuchNamespace),
            namespaces.opened("pid:4711"),
        ):
            pass

    def test_an_errno_of_the_look_at_its_type(self):
        refused = PermissionError(errno.EPERM, "no")
        with (
            mock.patch.object(namespaces.fcntl, "ioctl", side_effect=refused),
            self.assertRaises(PermissionError),
            namespaces.opened(None),
        ):
            pass


class OthersTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.top = pathlib.Path(made.name)
        self.names = self.top / "netns"
        self.proc = self.top / "proc"
        self.proc.mkdir()
        for name, value in (("NAMES", self.names), ("PROC", self.proc)):
            patched = mock.patch.object(namespaces, name, value)
            patched.start()
            self.addCleanup(patched.stop)
        self.own = self._namespace("own")

    def _namespace(self, inode: str) -> namespaces.Identity:
        file = self.top / inode
        file.touch()
        found = file.stat()
        return namespaces.Identity(found.st_dev, found.st_ino)

    def _name(self, name: str, inode: str) -> None:
        self.names.mkdir(exist_ok=True)
        (self.names / name).symlink_to(self.top / inode)

    def _process(self, pid: int | str, inode: str) -> None:
        directory = self.proc / str(pid) / "ns"
        directory.mkdir(parents=True)
        (directory / "net").symlink_to(self.top / inode)

    def _found(self) -> list[str]:
        return [each.name for each in namespaces.others(self.own)]

    def test_each_is_found_once_and_by_its_name(self):
        self._namespace("a")
        self._name("tenant", "a")
        self._name("zalias", "a")
        self._process(12, "a")
        self.assertEqual(self._found(), ["tenant"])

    def test_without_a_name_by_its_first_process(self):
        self._namespace("a")
        self._process(120, "a")
        self._process(13, "a")
        self.assertEqual(self._found(), ["pid:13"])

    def test_ones_own_is_left_out(self):
        self._name("mine", "own")
        self._process(1, "own")
        self.assertEqual(self._found(), [])

    def test_processes_that_end_meanwhile_are_passed_over(self):
        self._namespace("a")
        self._process(12, "gone")
        self._process(13, "a")
        self._process("self", "a")
        self.assertEqual(self._found(), ["pid:13"])

    def test_a_name_that_nobody_could_ask_for_is_passed_over(self):
        self._namespace("a")
        self._name("white space", "a")
        self._name("pid:7", "a")
        self.assertEqual(self._found(), [])

    def test_thorough_is_by_threads_and_descriptors(self):
        self._process(12, "own")
        for name in ("thread", "held"):
            self._namespace(name)
        for place, target in (
            ("task/13/ns/net", "thread"),
            ("fd/3", "held"),
        ):
            path = self.proc / "12" / place
            path.parent.mkdir(parents=True)
            path.symlink_to(self.top / target)
        found = namespaces.others(self.own, thorough=True)
        with mock.patch.object(namespaces, "_NSFS", str(self.top)):
            paths = [each.path for each in found]
        self.assertEqual(
            [f"{self.proc}/12/task/13/ns/net", f"{self.proc}/12/fd/3"], paths
        )
        self.assertEqual([], self._found())

    def test_descriptors_are_looked_at_for_some_time(self):
        self._process(12, "own")
        self._namespace("held")
        (self.proc / "12" / "fd").mkdir()
        (self.proc / "12" / "fd" / "3").symlink_to(self.top / "held")
        for seconds, paths in ((9, [f"{self.proc}/12/fd/3"]), (-1, [])):
            with (
                mock.patch.object(namespaces, "_NSFS", str(self.top)),
                mock.patch.object(namespaces, "LOOK_S", seconds),
            ):
                found = [*namespaces.others(self.own, thorough=True)]
            self.assertEqual(paths, [each.path for each in found])

    def test_a_socket_whose_process_has_ended_leads_nowhere(self):
        self._process(namespaces.MAX_PID + 1, "own")
        fds = self.proc / str(namespaces.MAX_PID + 1) / "fd"
        fds.mkdir()
        (fds / "3").symlink_to("socket:[4711]")
        (fds / "4").symlink_to("/dev/net/tun")
        found = namespaces.others(self.own, thorough=True)
        self.assertEqual([], [each.path for each in found])

    def test_there_is_a_bound(self):
        for number in range(9):
            self._namespace(f"n{number}")
            self._process(10 + number, f"n{number}")
        with mock.patch.object(namespaces, "MAX_FOUND", 4):
            self.assertEqual(len(self._found()), 4)


class InsideTest(unittest.TestCase):
    def test_the_thread_that_goes_there_ends(self):
        with (
            namespaces.opened(None) as own,
            mock.patch.object(namespaces, "_setns", lambda: lambda *_: 0),
        ):
            there = namespaces.inside(own, threading.get_ident)
        self.assertNotEqual(threading.get_ident(), there)
        self.assertNotIn(there, [x.ident for x in threading.enumerate()])

    def test_what_it_raises_is_raised(self):
        def fail():
            raise ValueError("no")

        with (
            namespaces.opened(None) as own,
            mock.patch.object(namespaces, "_setns", lambda: lambda *_: 0),
            self.assertRaises(ValueError),
        ):
            namespaces.inside(own, fail)

    def test_a_kernel_that_refuses(self):
        with (
            pathlib.Path(os.devnull).open("rb") as none,
            self.assertRaises(OSError) as caught,
        ):
            namespaces.inside(none.fileno(), os.getpid)
        self.assertEqual(errno.EINVAL, caught.exception.errno)

    def test_an_entry_that_does_not_end_is_waited_for_so_long(self):
        stopped = threading.Event()
        self.addCleanup(stopped.set)
        with (
            mock.patch.object(namespaces, "LIMIT_S", 0.5),
            mock.patch.object(namespaces, "enter", lambda _: stopped.wait()),
            self.assertRaisesRegex(TimeoutError, "not ended within 0.5 s"),
        ):
            namespaces.inside(0, os.getpid)


class IdentityTest(unittest.TestCase):
    def test_an_inode_that_another_got_is_told_by_the_cookie(self):
        known = namespaces.Identity(4, 7, 100)
        self.assertEqual(namespaces.Identity(4, 7), known)
        self.assertTrue(known.is_now(100))
        self.assertTrue(known.is_now(0))
        self.assertTrue(namespaces.Identity(4, 7).is_now(101))
        self.assertFalse(known.is_now(101))
