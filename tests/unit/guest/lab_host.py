# SPDX-License-Identifier: Apache-2.0

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
