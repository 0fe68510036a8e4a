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

"""Where ports can be, by the configuration; and who is accelerated."""

from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.facts import Endpoint
from sriov_rt.facts import VifFacts
from sriov_rt.host.root import CONFIG
from sriov_rt.host.root import Root
from sriov_rt.vif import errors
from sriov_rt.vif import source
from tests.unit.host import trees

ENDPOINT = Endpoint("p", "i", "n", "eno1")

#: What /proc/self/status has of root, and of the user nova.
ROOTS, USERS = "000001ffffffffff", "0000000000000000"


class PoolsTest(trees.TreeTest):
    def pools(self, *parents):
        text = f"[vif]\nparents = {', '.join(parents)}\n"
        self.tree.write(CONFIG, text)
        return source.observe(self.root).pools

    def test_without_a_configuration_there_are_none(self):
        self.assertEqual({}, source.observe(self.root).pools)

    def test_a_vfs_nic_is_its_pf(self):
        self.assertEqual(
            {"physnet1": ("eno1", "ens2f0"), "physnet2": ("eth0",)},
            self.pools(
                "physnet1:pf:ens2f0",
                "physnet1:eno1v0",
                "physnet1:eno1v1",
                "physnet2:eth0",
            ),
        )

    def test_what_is_not_here_is_no_nic(self):
        self.assertEqual(
            {"physnet1": (), "physnet2": ("eno1",)},
            self.pools("physnet1:ens9v0", "physnet2:pf:eno1"),
        )

    def test_a_vf_whose_pf_is_in_another_namespace(self):
        vf = f"sys/{trees.X710.rpartition('/')[0]}/0000:3b:02.0"
        self.tree.remove(f"{vf}/physfn")
        (self.tree.path / vf / "physfn").mkdir()
        (self.tree.path / vf / "physfn/net").mkdir()
        self.assertEqual({"physnet1": ()}, self.pools("physnet1:eno1v0"))

    def test_parents_that_are_none_are_told_of(self):
        for parents in (("physnet1",), ("a:eno1", "b:eno1"), ("a:../x",)):
            found = self.pools(*parents)
            self.assertIn("[vif] parents", found.reason)
        self.tree.write(CONFIG, "[vif\n")
        self.assertIsInstance(source.observe(self.root).pools, Unknown)

    def test_what_cannot_be_read_is_not_known(self):
        for path in ("device/physfn/net", "device/physfn"):
            path = f"sys/class/net/eno1v0/{path}"
            self.tree.remove(path)
            self.tree.link(path, path.rpartition("/")[2])
            self.assertIn("links", self.pools("physnet1:eno1v0").reason)


class EndpointsTest(trees.TreeTest):
    def observe(self, rights):
        status = "" if rights is None else f"CapEff:\t{rights}\nCapBnd:\t0\n"
        self.tree.write("proc/self/status", f"Name:\tx\n{status}")
        with mock.patch.object(Root, "is_confined", False):
            return source.observe(self.root).endpoints

    def test_another_root_has_none_that_run(self):
        found = source.observe(self.root)
        self.assertIsInstance(found, VifFacts)
        self.assertIn("only the host that runs", found.endpoints.reason)

    def test_who_may_not_look_says_so(self):
        # Without one of the two, what is in containers would be left out.
        for rights in (USERS, f"{1 << 19:016x}", f"{1 << 21:016x}", None):
            with mock.patch.object(source, "_of_kernel") as asked:
                found = self.observe(rights)
            self.assertIn("takes root", found.reason)
            asked.assert_not_called()

    def test_who_may_asks_the_kernel(self):
        for rights in (ROOTS, f"{1 << 19 | 1 << 21:016x}"):
            with mock.patch.object(source, "_of_kernel", lambda: (ENDPOINT,)):
                self.assertEqual((ENDPOINT,), self.observe(rights))

    def test_a_kernel_that_refuses_is_quoted(self):
        with (
            mock.patch(
                "sriov_rt.vif.view.observe",
                side_effect=errors.NotPermitted("links"),
            ),
            mock.patch("sriov_rt.nic.vfs.Vfs.of_host"),
        ):
            self.assertIn("not permitted", self.observe(ROOTS).reason)
