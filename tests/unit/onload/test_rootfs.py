# SPDX-License-Identifier: Apache-2.0

"""A preload that would silently do nothing is refused, with its Reason."""

import dataclasses
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from sriov_rt.host.root import Root
from sriov_rt.onload import elf
from sriov_rt.onload import rootfs
from sriov_rt.onload import sentences
from sriov_rt.onload.elf import Elf
from sriov_rt.onload.rootfs import why_not_preload
from tests.unit.onload import elves


def parsed(built: elves.Built, **changes) -> Elf:
    return elf.parse(dataclasses.replace(built, **changes).bytes())


LIBRARY = parsed(elves.LIBRARY)
LIBC = parsed(elves.LIBC)
INIT = parsed(elves.INIT)


class WhyNotPreloadTest(unittest.TestCase):
    def codes(self, init=INIT, library=LIBRARY, libc=LIBC):
        found = why_not_preload(init, library, libc)
        return [each.code for each in found]

    def test_what_fits(self):
        self.assertEqual([], self.codes())

    def test_musl(self):
        self.assertEqual(["onload_musl"], self.codes(parsed(elves.MUSL)))
        linked = parsed(elves.MUSL, interpreter=None)
        self.assertEqual(["onload_musl"], self.codes(linked))

    def test_a_static_init(self):
        self.assertEqual(
            ["onload_init_static"], self.codes(parsed(elves.STATIC))
        )

    def test_another_architecture(self):
        for changes in ({"machine": 183}, {"bits": 32}, {"order": ">"}):
            with self.subTest(changes=changes):
                self.assertEqual(
                    ["onload_other_architecture"],
                    self.codes(parsed(elves.INIT, **changes)),
                )

    def test_an_image_that_is_too_old(self):
        old = parsed(elves.LIBC, defines=("GLIBC_2.2.5", "GLIBC_2.31"))
        (found,) = why_not_preload(INIT, LIBRARY, old)
        self.assertEqual("onload_glibc_floor", found.code)
        self.assertIn("needs glibc 2.34, the image has 2.31", found.message)
        same = parsed(elves.LIBC, defines=("GLIBC_2.34",))
        self.assertEqual([], self.codes(libc=same))

    def test_a_library_with_relative_relocations(self):
        needs = (("libc.so.6", ("GLIBC_2.2.5", "GLIBC_ABI_DT_RELR")),)
        library = parsed(elves.LIBRARY, versions=needs)
        (found,) = why_not_preload(INIT, library, LIBC)
        self.assertIn("GLIBC_ABI_DT_RELR", found.message)
        libc = parsed(elves.LIBC, defines=("GLIBC_2.36", "GLIBC_ABI_DT_RELR"))
        self.assertEqual([], self.codes(library=library, libc=libc))

    def test_no_libc(self):
        self.assertEqual(["onload_libc_missing"], self.codes(libc=None))
        other = parsed(elves.LIBC, defines=())
        self.assertEqual(["onload_libc_missing"], self.codes(libc=other))

    def test_each_sentence_fits_into_novas_fault(self):
        names = (
            "init found architecture library wanted floor glibc problem "
            "option source target device"
        )
        fields = dict.fromkeys(names.split(), "x" * 12)
        for code in sentences.SENTENCES:
            with self.subTest(code=code):
                message = sentences.reason(code, **fields).message
                self.assertLessEqual(len(message), 255)


class RootfsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)
        self.write("host/lib/libonload.so", elves.LIBRARY)
        self.write("image/usr/lib/systemd/systemd", elves.INIT)
        self.write("image/usr/lib/x86_64-linux-gnu/libc.so.6", elves.LIBC)
        (self.path / "image/lib").symlink_to("usr/lib")
        (self.path / "image/sbin").mkdir()
        (self.path / "image/sbin/init").symlink_to("/lib/systemd/systemd")

    def write(self, name, data):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if isinstance(data, elves.Built):
            data = data.bytes()
        path.write_bytes(data)

    def why_not(self, init="/sbin/init"):
        found = rootfs.why_not(
            Root(str(self.path / "image")),
            init,
            Root(str(self.path / "host")),
            "/lib/libonload.so",
        )
        return [each.code for each in found]

    def test_what_fits(self):
        self.assertEqual([], self.why_not())

    def test_a_static_init(self):
        self.write("image/usr/lib/systemd/systemd", elves.STATIC)
        self.assertEqual(["onload_init_static"], self.why_not())

    def test_the_libc_of_the_programs_architecture_counts(self):
        other = dataclasses.replace(elves.LIBC, bits=32)
        self.write("image/usr/lib/x86_64-linux-gnu/libc.so.6", other)
        self.assertEqual(["onload_libc_missing"], self.why_not())
        self.write("image/usr/lib64/libc.so.6", elves.LIBC)
        self.assertEqual([], self.why_not())

    def test_a_script_is_what_runs_it(self):
        self.write("image/start", b"#! /bin/sh -e\n")
        self.write("image/bin/sh", elves.MUSL)
        self.assertEqual(["onload_musl"], self.why_not("/start"))

    def test_scripts_that_go_round(self):
        self.write("image/start", b"#!/start\n")
        self.assertEqual(["onload_init_unreadable"], self.why_not("/start"))

    def test_what_cannot_be_read(self):
        os.mkfifo(self.path / "image/fifo")
        self.write("image/empty", b"")
        self.write("image/nothing", b"#!\n")
        for init in ("/none", "/fifo", "/empty", "/nothing", "/usr", "/a\0b"):
            with self.subTest(init=init):
                self.assertEqual(
                    ["onload_init_unreadable"], self.why_not(init)
                )
        self.write("host/lib/libonload.so", b"no library")
        self.assertEqual(["onload_library_unreadable"], self.why_not())

    def test_a_disk_that_fails(self):
        file = mock.MagicMock()
        file.read.side_effect = OSError(5, "Input/output error")
        with mock.patch.object(Root, "open_file", return_value=file):
            found = rootfs.read_elf(Root(str(self.path)), "/x")
            self.assertEqual("/x: Input/output error", found.problem)
            found = rootfs.program(Root(str(self.path)), "/x")
            self.assertIn("Input/output error", found.problem)

    def test_a_link_does_not_lead_out_of_the_image(self):
        self.write("outside", elves.INIT)
        (self.path / "image/out").symlink_to("../../../outside")
        self.assertEqual(["onload_init_unreadable"], self.why_not("/out"))
