# SPDX-License-Identifier: Apache-2.0

"""An agent to which no scheduler listens, over a real RabbitMQ."""

import json
import pathlib
import sys
import tempfile
import unittest

from tests.testbed.waiting import run_logged

PATIENCE_S = 600.0


class LoneAgentTest(unittest.TestCase):
    def test_that_nobody_listens_is_no_fault(self):
        with tempfile.TemporaryDirectory() as directory:
            output = pathlib.Path(directory, "logged.json")
            run_logged(
                (
                    *(sys.executable, "-m"),
                    "tests.functional.agent.lone_agent",
                    str(output),
                ),
                timeout=PATIENCE_S,
                log=pathlib.Path(directory, "log"),
            )
            logged = json.loads(output.read_text())
        self.assertEqual([], logged["before any"])
        ((level, name, line),) = logged["after the last"]
        self.assertEqual("INFO", level)
        self.assertEqual("sriov_rt.agent.publisher", name)
        self.assertIn("no scheduler listens", line)
        self.assertEqual([], logged["then"])
        # A broker that is down stays a fault, in oslo's words and in ours.
        levels = {level for level, _, _ in logged["broker down"]}
        self.assertLessEqual({"ERROR", "WARNING"}, levels)
