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
"""A tuned host without Nova, for guests of other managers."""

import pathlib
import shutil
import tempfile
import unittest

from sriov_rt.host.root import Root
from tests.unit.host import trees


class LabHostTest(unittest.TestCase):
    """Its CPUs 2, 3, 6, 7 … are isolated; all of them are for any guest."""

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        trees.realtime_host(self.place)
        shutil.rmtree(self.place / "etc/nova")
        self.root = Root(str(self.place))
