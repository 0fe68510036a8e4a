# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.host.root import Root
from tests.unit.host import trees


class RootTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.outside = pathlib.Path(place.name)
        (self.outside / "secret").write_text("outside")
        self.tree = trees.Tree(self.outside / "root")
        self.tree.path.mkdir()
        self.root = self.tree.root

    def test_reads_text(self):
        self.tree.write("a/b", "text\n")
        self.assertEqual("text\n", self.root.read_text("a/b"))

    def test_missing_file_is_named_with_its_error(self):
        self.assertEqual(
            Unknown("/a/b: No such file or directory"),
            self.root.read_text("a/b"),
        )

    def test_file_in_place_of_a_directory(self):
        self.tree.write("a")
        self.assertEqual(
            Unknown("/a/b: Not a directory"), self.root.read_text("a/b")
        )
        self.assertIs(False, self.root.exists("a/b"))
        self.assertEqual(
            Unknown("/a: Not a directory"), self.root.list_dir("a")
        )

    def test_empty_file_is_unknown_unless_it_may_be(self):
        self.tree.write("a")
        self.assertEqual(Unknown("/a: empty"), self.root.read_text("a"))
        self.assertEqual("", self.root.read_text("a", may_be_empty=True))

    def test_directory_is_no_text(self):
        (self.tree.path / "a").mkdir()
        self.assertEqual(
            Unknown("/a: Is a directory"), self.root.read_text("a")
        )

    def test_other_encodings_are_no_text(self):
        self.tree.write("a", b"\xff\xfe")
        self.assertEqual(
            Unknown("/a: not UTF-8 text"), self.root.read_text("a")
        )

    def test_limit_is_the_longest_text(self):
        self.tree.write("a", "12345")
        self.assertEqual("12345", self.root.read_text("a", 5))
        self.assertEqual(
            Unknown("/a: longer than 4 bytes"), self.root.read_text("a", 4)
        )

    def test_endless_file_ends_at_the_limit(self):
        with (self.tree.path / "a").open("wb") as file:
            file.truncate(2**40)
        self.assertEqual(
            Unknown("/a: longer than 65536 bytes"), self.root.read_text("a")
        )

    def test_fifo_does_not_block(self):
        os.mkfifo(self.tree.path / "a")
        self.assertEqual(
            Unknown("/a: not a regular file"), self.root.read_text("a")
        )

    def test_open_file(self):
        self.tree.write("a", b"\xff1")
        with self.root.open_file("a") as file:
            file.seek(1)
            self.assertEqual(b"1", file.read(9))
        self.assertEqual(
            Unknown("/b: No such file or directory"), self.root.open_file("b")
        )
        self.assertEqual(Unknown("/: Is a directory"), self.root.open_file(""))

    def test_what_is_no_file_is_not_even_opened(self):
        os.mkfifo(self.tree.path / "pipe")
        with mock.patch("os.open", wraps=os.open) as opened:
            found = self.root.open_file("pipe")
        self.assertEqual(Unknown("/pipe: not a regular file"), found)
        ((_, flags),) = (call.args for call in opened.call_args_list)
        self.assertTrue(flags & os.O_PATH)

    def test_permission_denied(self):
        self.tree.write("a", "x")
        with mock.patch("os.open", side_effect=PermissionError(13, "No")):
            self.assertEqual(Unknown("/a: No"), self.root.read_text("a"))

    def test_nul_in_a_path(self):
        self.assertEqual(
            Unknown("/a\0b: Invalid argument"), self.root.read_text("a\0b")
        )
        self.assertIsInstance(self.root.exists("a\0b"), Unknown)

    def test_absolute_link_stays_inside(self):
        self.tree.link("a", str(self.outside / "secret"))
        self.assertIsInstance(self.root.read_text("a"), Unknown)
        self.tree.write("etc/x", "inside")
        self.tree.link("d/e/b", "/etc/x")
        self.assertEqual("inside", self.root.read_text("d/e/b"))

    def test_relative_link_stays_inside(self):
        self.tree.link("a/b", "../../secret")
        self.assertIsInstance(self.root.read_text("a/b"), Unknown)
        self.assertIsInstance(self.root.read_text("../secret"), Unknown)
        self.tree.write("secret", "inside")
        self.assertEqual("inside", self.root.read_text("a/b"))

    def test_link_to_a_directory_outside(self):
        self.tree.link("a", str(self.outside))
        self.assertIsInstance(self.root.read_text("a/secret"), Unknown)
        self.assertIs(False, self.root.exists("a/secret"))
        self.assertIsInstance(self.root.list_dir("a"), Unknown)
        self.assertIsNone(self.root.read_link("a/secret"))

    def test_dots_after_a_link_are_of_its_target(self):
        self.tree.write("x/y/z", "deep")
        self.tree.write("x/near", "near")
        self.tree.link("link", "x/y")
        self.assertEqual("near", self.root.read_text("link/../near"))

    def test_root_that_is_a_link(self):
        self.tree.write("a", "x")
        (self.outside / "to-root").symlink_to("root")
        root = Root(str(self.outside / "to-root"))
        self.assertEqual("x", root.read_text("a"))

    def test_link_circle(self):
        self.tree.link("a", "b")
        self.tree.link("b", "a")
        wanted = Unknown("/a: Too many levels of symbolic links")
        self.assertEqual(wanted, self.root.read_text("a"))
        self.assertEqual(wanted, self.root.exists("a"))

    def test_as_many_links_as_the_kernel_follows(self):
        self.tree.write("0", "end")
        for number in range(1, 42):
            self.tree.link(str(number), str(number - 1))
        self.assertEqual("end", self.root.read_text("40"))
        self.assertIn("Too many", self.root.read_text("41").reason)

    def test_read_link_gives_what_the_link_says(self):
        self.tree.link("d/a", "/dev/vfio/7")
        self.tree.write("file", "x")
        self.assertEqual("/dev/vfio/7", self.root.read_link("d/a"))
        self.assertIsNone(self.root.read_link("d/none"))
        self.assertEqual(
            Unknown("/file: Invalid argument"), self.root.read_link("file")
        )

    def test_names_are_sorted_text(self):
        for name in (b"b", b"a", b"\xff"):
            self.tree.write(os.fsdecode(name))
        self.assertEqual(("a", "b"), self.root.list_dir(""))

    def test_link_that_is_no_text(self):
        self.tree.link("a", os.fsdecode(b"\xff"))
        self.assertEqual(
            Unknown("/a: not UTF-8 text"), self.root.read_link("a")
        )

    def test_this_machine(self):
        root = Root()
        self.assertEqual(
            pathlib.Path("/proc/version").read_text(),
            root.read_text("proc/version"),
        )
        self.assertIs(True, root.exists("proc/self/fd"))
