# SPDX-License-Identifier: Apache-2.0

import unittest

from sriov_rt.nic.kernel import Kernel
from tests.unit import signatures
from tests.unit.nic.fakes import FakeKernel


class FakesTest(unittest.TestCase):
    def test_the_kernel(self):
        self.assertEqual([], signatures.differences(FakeKernel, Kernel))
        # It is the kernel's own help in reading a device.
        self.assertEqual({"flags"}, signatures.missing(FakeKernel, Kernel))
