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


"""The realtime hosts of one cloud."""

import pathlib
import unittest

from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed import realtime_host
from tests.testbed.realtime_host import FIRST
from tests.testbed.realtime_host import NODES
from tests.testbed.realtime_host import SECOND
from tests.testbed.realtime_host import Node
from tests.testbed.rtvm import Machine


class NodesTest(unittest.TestCase):
    """A guest can move between them."""

    def machine(self, node: Node) -> Machine:
        """Return the machine of a node."""
        place = paths.Paths(pathlib.Path("/cache"), pathlib.Path("/state"))
        env = python_env.PythonEnv(pathlib.Path("/venv"))
        host = realtime_host.RealtimeHost(place, env, node)
        return host.machine.machine

    def test_they_share_no_name_and_no_address(self) -> None:
        """Of a host's own everything differs."""
        machines = [self.machine(node) for node in NODES.values()]
        for part in ("name", "number", "tap", "address", "identity"):
            with self.subTest(part):
                found = {getattr(each, part) for each in machines}
                self.assertEqual(len(machines), len(found))

    def test_they_have_the_same_kernel_and_cpus(self) -> None:
        """As libvirt and Nova require of a destination."""
        one, other = self.machine(FIRST), self.machine(SECOND)
        self.assertEqual(one.kernel_line(), other.kernel_line())
        self.assertEqual(one.cpus, other.cpus)

    def test_the_second_has_no_agents_of_neutron(self) -> None:
        """It has no VFs, and costs no more than a move takes."""
        self.assertEqual(0, self.machine(SECOND).vfs)
        self.assertEqual(
            (realtime_host.AGENT, realtime_host.COMPUTE), SECOND.services
        )
