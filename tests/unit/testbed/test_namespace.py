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

"""What is run inside the cloud finds its programs, and the cloud."""

import os
import pathlib
import unittest
from unittest import mock

from tests.testbed import paths
from tests.testbed import python_env
from tests.testbed.namespace import Namespace

PLACE = paths.Paths(pathlib.Path("/cache"), pathlib.Path("/state"))


class EnvironmentTest(unittest.TestCase):
    def setUp(self):
        ours = {"PATH": "/bin", "http_proxy": "http://x", "NO_PROXY": "y"}
        with mock.patch.dict(os.environ, {**ours, "KEPT": "z"}, clear=True):
            self.found = Namespace(PLACE).environment()

    def test_its_own_programs_come_first(self):
        programs = python_env.PythonEnv.in_cache(PLACE.cache).bin
        self.assertEqual(f"{programs}:/bin", self.found["PATH"])
        self.assertEqual(str(paths.CHECKOUT), self.found["PYTHONPATH"])

    def test_clients_find_the_cloud(self):
        self.assertEqual("admin", self.found["OS_USERNAME"])
        self.assertEqual("2.96", self.found["OS_COMPUTE_API_VERSION"])

    def test_proxies_of_the_machine_are_left_out(self):
        self.assertEqual("z", self.found["KEPT"])
        self.assertFalse({"http_proxy", "NO_PROXY"} & self.found.keys())

    def test_what_runs_there_knows_that_it_is_inside(self):
        with mock.patch.dict(os.environ, self.found):
            self.assertTrue(Namespace(PLACE).inside)
        other = paths.Paths(PLACE.cache, pathlib.Path("/other"))
        with mock.patch.dict(os.environ, self.found):
            self.assertFalse(Namespace(other).inside)
