# SPDX-License-Identifier: Apache-2.0

"""What neutron-rootwrap makes of the extension's daemons."""

import tempfile
import unittest

from oslo_rootwrap import wrapper

from sriov_rt.neutron import privileged


class RootwrapTest(unittest.TestCase):
    def test_it_lets_privsep_helper_start_by_itself(self):
        """So that no filters of ours are needed."""
        with tempfile.TemporaryDirectory() as empty:
            (found,) = wrapper.load_filters([empty])
        self.assertEqual("privsep-helper", found.exec_path)
        for context in (privileged.vf_set, privileged.vf_clean):
            command = context.helper_command("/tmp/x/privsep.sock")
            self.assertEqual(["sudo", "privsep-helper"], command[:2])
            self.assertTrue(found.match(command[1:]))
