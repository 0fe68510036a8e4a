# SPDX-License-Identifier: Apache-2.0

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
