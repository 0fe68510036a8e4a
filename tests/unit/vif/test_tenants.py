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


"""Which ports are on which VF."""

import unittest
from unittest import mock

from sriov_rt.vif import errors
from sriov_rt.vif import tenants
from sriov_rt.vif.netlink import NetlinkLinks
from sriov_rt.vif.words import Kind
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked


class TenantsTest(fakes.HostTest):
    def test_ports_of_all_kinds_in_all_namespaces(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        self.plugger.plug(
            asked(port=OTHER, parent="enp1s0v0", namespace="box2", owner="you")
        )
        self.plugger.plug(
            asked(Kind.VF, port=fakes.port(3), parent="enp1s0v1", name="p0")
        )
        links = self.links.all(everywhere=True)
        self.assertEqual(
            {
                "0000:01:10.0": [(PORT, "me"), (OTHER, "you")],
                "0000:01:10.1": [(fakes.port(3), "me")],
            },
            tenants.of(self.vfs.list(), links),
        )


class HereTest(unittest.TestCase):
    def test_who_may_not_look_is_told(self):
        told = []
        refused = errors.NotPermitted("box")
        with mock.patch.object(NetlinkLinks, "all", side_effect=refused):
            self.assertEqual({}, tenants.here((), told.append))
        self.assertIn("CAP_SYS_ADMIN", told[0])
