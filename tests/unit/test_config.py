# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from oslo_config import cfg

from sriov_rt import config


class LoadTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name) / "sriov-rt.conf"

    def value(self, files):
        conf = config.load(files)
        conf.register_opts([cfg.StrOpt("word", default="none")], group="part")
        return conf.part.word

    def test_options_are_registered_after_the_files_were_read(self):
        self.path.write_text("[part]\nword = read\n")
        self.assertEqual("read", self.value([self.path]))

    def test_the_last_of_several_files_counts(self):
        self.path.write_text("[part]\nword = first\n")
        other = self.path.with_name("other.conf")
        other.write_text("[part]\nword = last\n")
        self.assertEqual("last", self.value([str(self.path), other]))

    def test_no_files(self):
        self.assertEqual("none", self.value([]))

    def test_a_file_that_is_not_there_or_is_none(self):
        with self.assertRaises(cfg.Error):
            config.load([self.path])
        self.path.write_text("word\n= [")
        with self.assertRaises(cfg.Error):
            config.load([self.path])

    def test_what_is_no_text_file_is_named_and_not_waited_for(self):
        fifo = self.path.with_name("fifo")
        os.mkfifo(fifo)
        long = self.path.with_name("long")
        with long.open("wb") as file:
            file.truncate(1 << 40)
        self.path.write_bytes(b"[part]\n\xff")
        for path, problem in (
            (fifo, "not a regular file"),
            (pathlib.Path("/dev/zero"), "not a regular file"),
            (fifo.parent, "not a regular file"),
            (self.path / "below", "Not a directory"),
            (long, f"longer than {config.MAX_FILE} bytes"),
            (self.path, "not UTF-8 at byte 7"),
        ):
            with (
                self.subTest(path),
                self.assertRaisesRegex(
                    cfg.ConfigFileParseError, f"{path}: {problem}"
                ),
            ):
                config.load([path])

    def test_the_default_files_are_checked_as_well(self):
        folder = self.path.parent / "sriov-rt.conf.d"
        folder.mkdir()
        os.mkfifo(folder / "a.conf")
        with (
            mock.patch.object(cfg, "find_config_files", return_value=[]),
            mock.patch.object(
                cfg, "find_config_dirs", return_value=[str(folder)]
            ),
            self.assertRaisesRegex(cfg.ConfigFileParseError, "a.conf: not a"),
        ):
            config.load()
