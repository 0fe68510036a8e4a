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

"""Programs in PATH that stand for the tools of measurements."""

import os
import pathlib
import subprocess
import tempfile
from unittest import mock

from sriov_rt.verify import validity
from tests.unit.host import trees


class ProgramTest(trees.TreeTest):
    """With a directory for them, ``place``, that comes first."""

    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        path = f"{self.place}:{os.environ['PATH']}"
        self.enterContext(mock.patch.dict(os.environ, {"PATH": path}))
        # A tool is asked for its realtime threads once it ran for a while. A
        # script has none, and runs that long where the machine is busy.
        self.enterContext(
            mock.patch.object(validity, "threads", return_value=())
        )

    def program(self, name, text):
        """Write a shell script.

        Another process writes it: one that is forked here meanwhile, as a
        stream of requests is, would hold the file open for writing, and the
        kernel runs none that is (ETXTBSY).
        """
        subprocess.run(
            ("install", "-m", "755", "/dev/stdin", self.place / name),
            input=f"#!/bin/sh\n{text}\n".encode(),
            check=True,
        )
