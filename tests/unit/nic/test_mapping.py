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
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.nic import mapping
from sriov_rt.nic.words import VfDevice
from tests.unit.host import trees
from tests.unit.nic import fakes

PORT = "0b0a3e2c-4f0a-4a65-8f7b-0f8a54b4c0de"
INSTANCE = "7c3a6f0e-9a44-4c58-a1d0-a9f3ad0d8a11"


class MappingTest(unittest.TestCase):
    def map(self, *owners, ports=None):
        kernel = fakes.FakeKernel(vfs=len(owners))
        kernel.change_device(0, uppers=("mv0",))
        known = mock.Mock()
        known.of.side_effect = owners
        return list(mapping.of(fakes.vfs(kernel).list(), known, ports))

    def test_instance_and_port_are_in_the_alias(self):
        (found,) = self.map(f"sriov-rt:{PORT}:{INSTANCE}")
        self.assertEqual(PORT, found.port)
        self.assertEqual(INSTANCE, found.instance)
        self.assertEqual(("mv0",), found.on_it)
        # A whole VF's has the name that it has on the host, too.
        (found,) = self.map(f"sriov-rt:{PORT}:{INSTANCE}:enp1s0v0")
        self.assertEqual((PORT, INSTANCE), (found.port, found.instance))

    def test_a_vf_is_told_of_for_each_port_on_it(self):
        ports = {"0000:01:10.0": [("p1", "web"), ("p2", "db")]}
        found = self.map(None, None, ports=ports)
        self.assertEqual(
            [(0, "p1", "web"), (0, "p2", "db"), (1, None, None)],
            [(each.vf.index, each.port, each.instance) for each in found],
        )

    def test_other_owners_are_named_as_they_are(self):
        others = (
            "pid 42 qemu guest=instance-1",
            "sriov-rt:../../x:y z",
            "the lab's",
        )
        found = self.map(*others)
        self.assertEqual(list(others), [each.instance for each in found])
        self.assertEqual([None] * 3, [each.port for each in found])

    def test_nobody_and_not_known(self):
        found = self.map(None, Unknown("proc/7/fd: no permission"))
        self.assertIsNone(found[0].instance)
        self.assertIn("no permission", found[1].instance)

    def test_table(self):
        found = self.map(f"sriov-rt:{PORT}:{INSTANCE}", None)
        self.assertEqual(
            [
                "VF        ADDRESS       INTERFACE       DRIVER  GROUP  "
                "INSTANCE                              PORT",
                "enp1s0/0  0000:01:10.0  enp1s0v0 < mv0  igbvf   40     "
                f"{INSTANCE}  {PORT}",
                "enp1s0/1  0000:01:10.1  enp1s0v1        igbvf   41     "
                f"-{' ' * 35}  -",
            ],
            list(mapping.lines(found)),
        )


class OwnersTest(trees.TreeTest):
    def test_owners_are_those_of_the_host(self):
        owners = mapping.Owners(self.root)
        vf = fakes.VfId("eno1", 0, "0000:3b:02.0")
        self.assertEqual(
            "sriov-rt instance 7c",
            owners.of(vf, VfDevice("iavf", netdev="eno1v0")),
        )
        vf = fakes.VfId("eno1", 2, "0000:3b:02.2")
        self.assertIn(
            "guest=instance-00000001",
            owners.of(vf, VfDevice("vfio-pci", iommu_group=42)),
        )
