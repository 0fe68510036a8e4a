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

"""A Python without any package brings a cloud up, and takes it away."""

import subprocess
import sys
import unittest

from tests.testbed import paths

#: What Debian's python3 is started with, by people or by tools/.
MODULES = (
    "tests.run",
    "tests.testbed.__main__",
    "tests.testbed.container_world",
    "tests.testbed.demo",
    "tests.testbed.kube.programs",
    "tests.testbed.latency",
    "tests.testbed.ssh",
    "tests.testbed.supervisor",
)


class BarePythonTest(unittest.TestCase):
    def test_it_has_all_that_they_import(self):
        for module in MODULES:
            with self.subTest(module):
                done = subprocess.run(
                    # -S: without the packages that are installed here.
                    (sys.executable, "-S", "-c", f"import {module}"),
                    cwd=paths.CHECKOUT,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(0, done.returncode, done.stderr)
