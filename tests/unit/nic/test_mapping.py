# SPDX-License-Identifier: Apache-2.0

import unittest
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.nic import mapping
from sriov_rt.nic.model import VfDevice
from tests.unit.host import trees
from tests.unit.nic import fakes

PORT = "0b0a3e2c-4f0a-4a65-8f7b-0f8a54b4c0de"
INSTANCE = "7c3a6f0e-9a44-4c58-a1d0-a9f3ad0d8a11"


class MappingTest(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel(vfs=2)

    def map(self, *owners, ports=None):
        known = mock.Mock()
        known.of.side_effect = owners
        states = fakes.vfs(self.kernel).list()
        return list(mapping.of(states, known, ports))

    def hold(self, index):
        """Give a VF to a process."""
        self.kernel.change_device(
            index, driver="vfio-pci", netdev=None, mac=None
        )

    def test_a_vf_is_shown_for_each_port_on_it(self):
        ports = {"0000:01:10.0": [("p1", "web"), ("p2", "db")]}
        found = self.map(ports=ports)
        self.assertEqual(
            [(0, "p1", "web"), (0, "p2", "db"), (1, None, None)],
            [(each.vf.index, each.port, each.instance) for each in found],
        )

    def test_an_alias_names_nobody(self):
        # Root in a container can set it, and have it seen on the host.
        forged = f"sriov-rt:{PORT}:{INSTANCE}"
        self.kernel.change_device(0, alias=forged)
        self.kernel.change_device(1, alias=f"{forged}:enp1s0v1")
        for each in self.map():
            self.assertEqual((None, None), (each.port, each.instance))
            self.assertIn(forged, each.alias)

    def test_other_owners_are_named_as_they_are(self):
        self.hold(0)
        self.hold(1)
        others = "pid 42 qemu guest=instance-1", "another network namespace"
        found = self.map(*others)
        self.assertEqual(list(others), [each.instance for each in found])
        self.assertEqual([None] * 2, [each.port for each in found])

    def test_nobody_and_not_known(self):
        self.hold(0)
        self.hold(1)
        found = self.map(None, Unknown("proc/7/fd: no permission"))
        self.assertIsNone(found[0].instance)
        self.assertIn("no permission", found[1].instance)

    def test_rows(self):
        self.kernel.change_device(0, uppers=("mv0",), alias="uplink")
        found = self.map(ports={"0000:01:10.0": [(PORT, INSTANCE)]})
        self.assertEqual(
            [
                (
                    *("enp1s0/0", "0000:01:10.0", "enp1s0v0 < mv0", "igbvf"),
                    *("40", INSTANCE, PORT, "uplink"),
                ),
                (
                    *("enp1s0/1", "0000:01:10.1", "enp1s0v1", "igbvf"),
                    *("41", "-", "-", "-"),
                ),
            ],
            [mapping.row(each) for each in found],
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
