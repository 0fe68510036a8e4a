# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.neutron.privileged import PrivilegedVfs
from sriov_rt.neutron.this_host import ThisHost
from tests.unit import signatures
from tests.unit.neutron.fakes import FakeHost
from tests.unit.neutron.test_vf_cleaning import FakeVfs


class FakesTest(unittest.TestCase):
    def test_each_is_as_the_class_that_it_stands_in_for(self):
        # Those of neutron-server are compared where neutron is installed.
        self.assertEqual([], signatures.differences(FakeHost, ThisHost))
        self.assertEqual([], signatures.differences(FakeVfs, PrivilegedVfs))

    def test_what_they_have_not_is_done_once_at_a_start(self):
        self.assertEqual({"recover"}, signatures.missing(FakeHost, ThisHost))
        self.assertEqual({"start"}, signatures.missing(FakeVfs, PrivilegedVfs))
