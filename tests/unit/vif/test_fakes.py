# SPDX-License-Identifier: Apache-2.0

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
        # No port plans for many VFs at once, gives one back, counts, or has
        # a MAC that libvirt gives.
        self.assertEqual(
            {
                *("apply_all", "check", "check_mac", "counters", "flr", "pf"),
                *("plan_all", "plan_resets", "restore"),
            },
            signatures.missing(FakeVfs, Vfs),
        )
