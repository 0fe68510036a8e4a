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

import unittest

from sriov_rt.kernel.links import Links
from sriov_rt.nic.vfs import Vfs
from tests.unit import signatures
from tests.unit.vif.fakes import FakeLinks
from tests.unit.vif.fakes import FakeVfs


class FakesTest(unittest.TestCase):
    def test_links_are_those_of_the_kernel(self):
        self.assertEqual([], signatures.differences(FakeLinks, Links))
        self.assertEqual(set(), signatures.missing(FakeLinks, Links))

    def test_verbs_on_vfs_are_those_of_nic(self):
        self.assertEqual([], signatures.differences(FakeVfs, Vfs))
        # Nothing in vif plans for many VFs at once, or gives one back.
        self.assertEqual(
            {
                *("apply_all", "check", "flr", "pf"),
                *("plan_all", "plan_resets", "restore"),
            },
            signatures.missing(FakeVfs, Vfs),
        )
