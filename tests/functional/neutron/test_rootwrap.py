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
