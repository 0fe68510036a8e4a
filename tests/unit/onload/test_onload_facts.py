# SPDX-License-Identifier: Apache-2.0

"""A host's profiles are those that its operator allows and that are data."""

from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.facts import OnloadFacts
from sriov_rt.host.root import Root
from sriov_rt.onload import onload_facts
from tests.unit.host import trees


class SourceTest(trees.TreeTest):
    def configure(self, *lines: str) -> None:
        text = "\n".join(("[onload]", *lines, ""))
        self.tree.write("etc/sriov_rt/sriov-rt.conf", text)

    def test_without_a_configuration_what_is_installed(self):
        found = onload_facts.observe(self.root)
        self.assertEqual(("latency",), found.profiles)
        self.assertEqual("/usr/lib64/libonload.so", found.library)

    def test_without_allowed_profiles_what_is_installed(self):
        self.configure("inside = /opt/x")
        self.assertEqual(
            ("latency",), onload_facts.observe(self.root).profiles
        )

    def test_allowed_profiles_that_can_be_used(self):
        self.configure(
            "profile_directories = /etc/onload, /usr/libexec/onload/profiles",
            "profiles = mine, latency, shell, gone",
        )
        self.tree.write("etc/onload/mine.opf", "onload_import latency\n")
        self.tree.write("etc/onload/shell.opf", "eval x\n")
        self.assertEqual(
            ("latency", "mine"), onload_facts.observe(self.root).profiles
        )

    def test_the_library_that_is_configured(self):
        self.configure("library = /opt/onload/lib/libonload.so")
        self.assertIsNone(onload_facts.observe(self.root).library)
        self.tree.write("opt/onload/lib/libonload.so")
        self.assertEqual(
            "/opt/onload/lib/libonload.so",
            onload_facts.observe(self.root).library,
        )

    def test_a_configuration_that_is_wrong(self):
        self.configure("library = libonload.so")
        found = onload_facts.observe(self.root)
        self.assertIsInstance(found.profiles, Unknown)
        self.assertIn("[onload] library", found.library.reason)
        self.assertEqual(("onload", "sfc"), found.modules)


class OnloadTest(trees.TreeTest):
    def observe(self) -> OnloadFacts:
        return onload_facts.installed(self.root)

    def test_installed(self):
        self.assertEqual(
            OnloadFacts(
                modules=("onload", "sfc"),
                devices=("/dev/onload",),
                library="/usr/lib64/libonload.so",
                profiles=("latency",),
                version=None,
                library_fits=None,
                nics={"ens2f0": "native"},
            ),
            self.observe(),
        )

    def test_not_installed(self):
        for path in (
            "sys/module/onload",
            "sys/module/sfc",
            "dev/onload",
            "usr/lib64/libonload.so",
            "usr/libexec",
        ):
            self.tree.remove(path)
        # The NIC is one that it could use.
        self.assertEqual(
            OnloadFacts((), (), None, (), None, None, {"ens2f0": "native"}),
            self.observe(),
        )

    def test_library_where_debian_has_it(self):
        self.tree.remove("usr/lib64/libonload.so")
        self.tree.write("usr/lib/x86_64-linux-gnu/libonload.so")
        self.assertEqual(
            "/usr/lib/x86_64-linux-gnu/libonload.so", self.observe().library
        )

    def test_library_that_is_a_link_to_nothing_is_not_there(self):
        self.tree.remove("usr/lib64/libonload.so")
        self.tree.link("usr/lib64/libonload.so", "libonload.so.9")
        self.assertIsNone(self.observe().library)

    def load_driver(self, interface: str = "0123456789abcdef" * 2) -> None:
        self.tree.write(
            "proc/driver/onload/version",
            "onload_product: Onload\nonload_version: 9.0.2\n"
            f"uk_intf_ver: {interface}\n",
        )

    def test_the_library_fits_the_driver_or_not(self):
        self.load_driver()
        found = self.observe()
        self.assertEqual(("9.0.2", False), (found.version, found.library_fits))
        # Across two pieces of what is read.
        for before in (0, 2**20 - 7):
            self.tree.write(
                "usr/lib64/libonload.so",
                b"x" * before + b"0123456789abcdef" * 2 + b"\0",
            )
            self.assertIs(True, self.observe().library_fits)
        self.tree.remove("usr/lib64/libonload.so")
        self.assertIsNone(self.observe().library_fits)

    def test_a_driver_that_says_something_else(self):
        self.load_driver("../etc")
        self.assertIn("form", self.observe().library_fits.reason)
        self.tree.write("proc/driver/onload/version", "\n")
        self.assertIn("form", self.observe().version.reason)
        self.tree.make_unreadable("proc/driver/onload/version")
        self.assertIn("Is a directory", self.observe().version.reason)

    def test_a_library_that_cannot_be_read(self):
        self.load_driver()
        self.tree.make_unreadable("usr/lib64/libonload.so")
        self.assertIn("Is a directory", self.observe().library_fits.reason)

    def test_a_library_whose_disk_fails(self):
        self.load_driver()
        file = mock.MagicMock()
        file.read.side_effect = OSError(5, "Input/output error")
        with mock.patch.object(Root, "open_file", return_value=file):
            fits = self.observe().library_fits
        self.assertEqual(
            Unknown("/usr/lib64/libonload.so: Input/output error"), fits
        )

    def test_profiles_are_not_opened(self):
        path = "usr/libexec/onload/profiles/latency.opf"
        self.tree.make_unreadable(path)
        self.assertEqual(("latency",), self.observe().profiles)

    def test_unreadable(self):
        self.tree.remove("usr/libexec/onload/profiles")
        self.tree.link("usr/libexec/onload/profiles", "profiles")
        self.tree.remove("dev/onload")
        self.tree.link("dev/onload", "onload")
        found = self.observe()
        links = "Too many levels of symbolic links"
        self.assertEqual(
            Unknown(f"/usr/libexec/onload/profiles: {links}"), found.profiles
        )
        self.assertEqual(Unknown(f"/dev/onload: {links}"), found.devices)
        self.assertEqual(("onload", "sfc"), found.modules)
        self.tree.remove("usr/lib64/libonload.so")
        self.tree.link("usr/lib64/libonload.so", "libonload.so")
        self.assertIn(links, self.observe().library.reason)
        self.tree.remove("sys/module/sfc")
        self.tree.link("sys/module/sfc", "sfc")
        self.assertIn(links, self.observe().modules.reason)
