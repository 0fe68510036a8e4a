# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.


"""A host's profiles are those that its operator allows and that are data."""

from sriov_rt.codec import Unknown
from sriov_rt.onload import source
from tests.unit.host import trees


class SourceTest(trees.TreeTest):
    def configure(self, *lines: str) -> None:
        text = "\n".join(("[onload]", *lines, ""))
        self.tree.write("etc/sriov_rt/sriov-rt.conf", text)

    def test_without_a_configuration_what_is_installed(self):
        found = source.observe(self.root)
        self.assertEqual(("latency",), found.profiles)
        self.assertEqual("/usr/lib64/libonload.so", found.library)

    def test_without_allowed_profiles_what_is_installed(self):
        self.configure("inside = /opt/x")
        self.assertEqual(("latency",), source.observe(self.root).profiles)

    def test_allowed_profiles_that_can_be_used(self):
        self.configure(
            "profile_directories = /etc/onload, /usr/libexec/onload/profiles",
            "profiles = mine, latency, shell, gone",
        )
        self.tree.write("etc/onload/mine.opf", "onload_import latency\n")
        self.tree.write("etc/onload/shell.opf", "eval x\n")
        self.assertEqual(
            ("latency", "mine"), source.observe(self.root).profiles
        )

    def test_the_library_that_is_configured(self):
        self.configure("library = /opt/onload/lib/libonload.so")
        self.assertIsNone(source.observe(self.root).library)
        self.tree.write("opt/onload/lib/libonload.so")
        self.assertEqual(
            "/opt/onload/lib/libonload.so", source.observe(self.root).library
        )

    def test_a_configuration_that_is_wrong(self):
        self.configure("library = libonload.so")
        found = source.observe(self.root)
        self.assertIsInstance(found.profiles, Unknown)
        self.assertIn("[onload] library", found.library.reason)
        self.assertEqual(("onload", "sfc"), found.modules)
