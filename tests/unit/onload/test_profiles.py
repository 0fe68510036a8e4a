# SPDX-License-Identifier: Apache-2.0

"""A profile with its imports is frozen, and holds allowed variables only."""

import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

from sriov_rt.host.root import Root
from sriov_rt.onload import grammar
from sriov_rt.onload import profiles
from sriov_rt.onload import variables
from sriov_rt.onload.errors import ProfileMissing
from sriov_rt.onload.errors import ProfileNotAllowed
from sriov_rt.onload.errors import ProfileRejected
from sriov_rt.onload.errors import ProfileUnreadable
from sriov_rt.onload.profiles import Directories
from sriov_rt.parse import errors
from tests.unit import signatures
from tests.unit.onload import fakes
from tests.unit.onload.fakes import FakeDirectories

ALLOWED = frozenset({"a", "b"})


class FakesTest(unittest.TestCase):
    def test_they_are_as_the_class_that_they_stand_in_for(self):
        self.assertEqual(
            [], signatures.differences(FakeDirectories, Directories)
        )
        self.assertEqual(
            set(), signatures.missing(FakeDirectories, Directories)
        )


def resolve(directories, name="a", **more):
    return profiles.resolve(name, directories, ALLOWED, **more)


class ResolveTest(unittest.TestCase):
    def refused(self, directories, **more):
        with self.assertRaises(ProfileRejected) as caught:
            resolve(directories, **more)
        return caught.exception

    def test_what_is_set_first_counts(self):
        directories = FakeDirectories(
            a="onload_set EF_TCP 0\nonload_import b\nonload_set EF_UDP 1\n",
            b="onload_set EF_TCP 1\nonload_set EF_UDP 0\n",
        )
        self.assertEqual(
            {"EF_TCP": "0", "EF_UDP": "0"},
            dict(resolve(directories).variables),
        )

    def test_it_is_frozen_with_its_sha256(self):
        # printf 'EF_TCP=0\nEF_UDP=1\n' | sha256sum
        digest = (
            "7e3d8299c3fb2c47c8b51ad2637586db9606b2eb3c3876635f0e298a9d041378"
        )
        found = resolve(
            FakeDirectories(a="onload_set EF_UDP 1\nonload_set EF_TCP 0\n")
        )
        self.assertIsInstance(found.variables, types.MappingProxyType)
        same = resolve(
            FakeDirectories(a="onload_set EF_TCP=0\nonload_set EF_UDP=1")
        )
        self.assertEqual(digest, found.sha256)
        self.assertEqual(digest, same.sha256)
        self.assertNotEqual(found.files, same.files)
        other = resolve(FakeDirectories(a="onload_set EF_UDP 0\n"))
        self.assertNotEqual(digest, other.sha256)

    def test_json(self):
        plain = resolve(FakeDirectories(a="onload_set EF_TCP 0\n")).to_plain()
        self.assertEqual({"EF_TCP": "0"}, plain["variables"])
        self.assertEqual("/profiles/a.opf", plain["files"][0]["path"])
        self.assertEqual(64, len(plain["files"][0]["sha256"]))

    def test_fragments_are_imported_only(self):
        directories = FakeDirectories(a="onload_import c\n", c__fragment="\n")
        self.assertEqual(
            ["/profiles/a.opf", "/profiles/c.opf-fragment"],
            [each.path for each in resolve(directories).files],
        )
        with self.assertRaises(ProfileMissing) as caught:
            resolve(FakeDirectories(a__fragment="\n"))
        self.assertEqual(("/profiles",), caught.exception.directories)

    def test_nothing_is_read_for_a_name_that_is_not_allowed(self):
        for name in (*fakes.HOSTILE_NAMES, "c"):
            directories = FakeDirectories(a="\n", c="\n")
            with (
                self.subTest(name=name),
                self.assertRaises(ProfileNotAllowed) as caught,
            ):
                resolve(directories, name)
            self.assertEqual([], directories.reads)
            self.assertEqual(name, caught.exception.name)
            self.assertLess(len(str(caught.exception)), 300)

    def test_a_hostile_name_on_the_list_is_not_read_either(self):
        for name in fakes.HOSTILE_NAMES:
            directories = FakeDirectories()
            with self.assertRaises(ProfileNotAllowed):
                profiles.resolve(name, directories, frozenset({name}))
            self.assertEqual([], directories.reads)

    def test_imports_that_go_round(self):
        error = self.refused(
            FakeDirectories(a="\nonload_import b\n", b="onload_import a\n")
        )
        self.assertEqual(("/profiles/b.opf", 1), (error.path, error.line))
        self.assertIn("a > b > a", error.problem)

    def test_imports_that_go_too_deep(self):
        chain = {
            f"p{each}": f"onload_import p{each + 1}\n" for each in range(9)
        }
        error = self.refused(FakeDirectories(a="onload_import p0\n", **chain))
        self.assertIn("more than 8 deep", error.problem)

    def test_imports_that_branch_without_end(self):
        doubling = {
            f"p{each}": f"onload_import p{each + 1}\n" * 2 for each in range(6)
        }
        directories = FakeDirectories(
            a="onload_import p0\n", p6="", **doubling
        )
        self.assertIn(
            "more than 32 imports", self.refused(directories).problem
        )
        self.assertLessEqual(len(directories.reads), profiles.MAX_FILES)

    def test_the_same_import_twice_is_none_that_goes_round(self):
        directories = FakeDirectories(
            a="onload_import b\nonload_import b\n", b=""
        )
        self.assertEqual(2, len(resolve(directories).files))

    def test_an_import_that_is_missing(self):
        error = self.refused(FakeDirectories(a="\n\nonload_import b\n"))
        self.assertEqual(3, error.line)
        self.assertIn("imports b", error.problem)

    def test_variables_that_may_not_be_set(self):
        for line in (
            "onload_set EF_LD_PRELOAD /tmp/x.so",
            "onload_set EF_LOG_FILE /etc/passwd",
            "onload_set EF_CONFIG_DUMP x",
            "onload_set LD_PRELOAD x",
            "onload_set PATH x",
            "onload_set EF_TCP 2",
            "onload_set EF_TCP yes",
            "onload_set EF_POLL_USEC 4294967296",
            "onload_set EF_POLL_USEC -1",
            "onload_set EF_NAME a/b",
            "onload_set EF_SHARE_WITH -1",
            "onload_set EF_PACKET_BUFFER_MODE 2",
        ):
            with self.subTest(line=line):
                error = self.refused(FakeDirectories(a=f"\n{line}\n"))
                self.assertEqual(2, error.line)

    def test_withheld_variables_that_the_operator_allows(self):
        directories = FakeDirectories(a="onload_set EF_SHARE_WITH -1\n")
        also = frozenset({"EF_SHARE_WITH"})
        found = resolve(directories, also=also)
        self.assertEqual({"EF_SHARE_WITH": "-1"}, dict(found.variables))


class VariablesTest(unittest.TestCase):
    def test_values(self):
        for name, value in (
            ("EF_POLL_USEC", "4294967295"),
            ("EF_UL_EPOLL", "3"),
            ("EF_RXQ_SIZE", "-1"),
            ("EF_UNIX_LOG", "0xffff"),
            ("EF_LOG", "conn_drop"),
            ("EF_CTPIO_MODE", "sf-np"),
        ):
            with self.subTest(name=name):
                variables.check(name, value)
        for name, value in (
            ("EF_UL_EPOLL", "4"),
            ("EF_POLL_USEC", "0x10"),
            ("EF_UNIX_LOG", "0x" + "f" * 17),
            ("EF_NAME", "x" * 65),
            ("EF_NAME", ""),
            ("EF_NAME", "a b"),
        ):
            with self.subTest(name=name), self.assertRaises(errors.ParseError):
                variables.check(name, value)

    def test_every_name_is_onloads_and_there_once(self):
        self.assertEqual(242, len(variables.VARIABLES))
        for each in variables.VARIABLES:
            self.assertRegex(each, r"\AEF_[A-Z0-9_]+\Z")


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
