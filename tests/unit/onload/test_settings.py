# SPDX-License-Identifier: Apache-2.0

"""What is worked with is what the operator wrote, or an error says why."""

import pathlib
import tempfile
import unittest

from sriov_rt.host.root import Root
from sriov_rt.onload import settings
from sriov_rt.onload.errors import ConfigurationUnreadable
from sriov_rt.onload.errors import NotConfigured
from sriov_rt.onload.errors import OptionRejected
from sriov_rt.onload.errors import ProfileNotAllowed


class SettingsTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)

    def load(self, *lines):
        file = self.path / "sriov-rt.conf"
        file.write_text("\n".join(("[onload]", *lines, "")))
        return settings.load([str(file)])

    def test_defaults(self):
        found = self.load()
        self.assertEqual(
            ("/usr/libexec/onload/profiles",), found.profile_directories
        )
        self.assertEqual(frozenset(), found.profiles)
        self.assertIsNone(found.profile(None, Root(str(self.path))))
        with self.assertRaises(NotConfigured) as caught:
            found.needed_library()
        self.assertEqual("library", caught.exception.option)

    def test_what_is_configured(self):
        found = self.load(
            "profile_directories = /etc/onload",
            "profiles = latency, mine",
            "default_profile = mine",
            "library = /opt/onload/lib/libonload.so.9",
            "also_allow = EF_SHARE_WITH",
            "devices = /dev/onload",
            "resource = solarflare.com/sfc",
        )
        self.assertEqual(frozenset({"latency", "mine"}), found.profiles)
        self.assertEqual(
            "/opt/onload/lib/libonload.so.9", found.needed_library()
        )
        directory = self.path / "etc/onload"
        directory.mkdir(parents=True)
        (directory / "mine.opf").write_text("onload_set EF_SHARE_WITH 0\n")
        mine = found.profile(None, Root(str(self.path)))
        self.assertEqual({"EF_SHARE_WITH": "0"}, dict(mine.variables))
        with self.assertRaises(ProfileNotAllowed):
            found.profile("other", Root(str(self.path)))

    def test_what_is_refused(self):
        for line in (
            "profile_directories = profiles",
            "profile_directories = /a/../b",
            "profile_directories = /a/.b",
            "profile_directories = $HOME/x",
            "profile_directories = /a b",
            "profile_directories = /a:b",
            "profile_directories = /",
            "profile_directories = /a//b",
            "profile_directories = " + ",".join(["/a"] * 65),
            "profiles = ../x",
            "profiles = a b",
            "default_profile = latency",
            "also_allow = EF_TCP",
            "also_allow = LD_PRELOAD",
            "library = libonload.so",
            "library = /lib/$ORIGIN/libonload.so",
            "library = /lib/libonload",
            "library = /lib/evil.so:/lib/libonload.so",
            "library = /" + "x" * 300 + "/libonload.so",
            "inside = opt",
            "devices = /etc/passwd",
            "devices = /dev/../etc/passwd",
            "resource = onload",
            "guest_library = ../libonload.so",
            "guest_library = onload.so",
        ):
            with self.subTest(line=line):
                with self.assertRaises(OptionRejected) as caught:
                    # oslo.config would substitute a "$".
                    self.load(line.replace("$", "$$"))
                option = line.partition(" ")[0]
                self.assertEqual(option, caught.exception.option)
                self.assertIn(f"[onload] {option}", str(caught.exception))

    def test_a_file_that_cannot_be_read(self):
        with self.assertRaises(ConfigurationUnreadable):
            settings.load([str(self.path / "none.conf")])
        (self.path / "bad.conf").write_text("no section\n")
        with self.assertRaises(ConfigurationUnreadable) as caught:
            settings.load([str(self.path / "bad.conf")])
        self.assertIn("name another by --config-file", str(caught.exception))
