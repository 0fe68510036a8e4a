# SPDX-License-Identifier: Apache-2.0

"""A real node runs pods, in namespaces of its own."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tests import periodic
from tests.packages import agent_image
from tests.testbed.kube import node
from tests.testbed.kube.node_programs import NodePrograms
from tests.testbed.paths import CHECKOUT
from tests.testbed.paths import Paths
from tests.testbed.progress import Progress

#: Seconds that all cases may take on two busy cores.
_SECONDS = 1500


@periodic.periodic
class NodeTest(unittest.TestCase):
    """The cases run where nothing that they mount or make is left."""

    def test_pods_start_as_they_request(self) -> None:
        place = Paths.from_environment()
        place.make()
        NodePrograms(place.cache).prepare(place.log, Progress())
        self.addCleanup(node.remove_groups)
        state = place.state / "node"
        state.mkdir(exist_ok=True)
        image = self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        archive = agent_image.archive(pathlib.Path(image))
        done = subprocess.run(
            (
                *("unshare", "-n", "-m", "-p", "-f", "-u", "--kill-child"),
                *("--mount-proc", sys.executable, "-m", "unittest", "-v"),
                "tests.kubernetes.cases.node",
            ),
            cwd=CHECKOUT,
            env={
                **os.environ,
                "SRIOV_RT_STATE": str(state),
                node.AGENT_ARCHIVE: str(archive),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        print(done.stdout)
        self.assertEqual(0, done.returncode, done.stdout)
