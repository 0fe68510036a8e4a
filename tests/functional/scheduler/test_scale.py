# SPDX-License-Identifier: Apache-2.0

"""Three hundred hosts over a real RabbitMQ.

The small form of tests/benchmarks/scale. The messages are those of the
project's own Publisher, and a worker's table is what they make of it.
"""

import json
import pathlib
import sys
import tempfile
import unittest

from tests.testbed.waiting import run_logged

HOSTS = 300

#: CPU seconds that a worker may take for the facts of a host, with all that
#: oslo.messaging does for a message: about four times what it takes.
CPU_S = 0.008

PATIENCE = 900.0


class ScaleTest(unittest.TestCase):
    def test_a_worker_learns_of_300_hosts_and_of_a_change_on_all(self):
        with tempfile.TemporaryDirectory() as directory:
            output = pathlib.Path(directory, "scale.json")
            run_logged(
                (
                    *(sys.executable, "-m", "tests.benchmarks.scale"),
                    *("--hosts", str(HOSTS), "--workers", "1"),
                    *("--interval", "2", "--spread", "1", "--seconds", "1"),
                    *("--scenarios", "agents", "cold", "change"),
                    *("--output", str(output)),
                ),
                timeout=PATIENCE,
                log=pathlib.Path(directory, "log"),
            )
            rows = json.loads(output.read_text())
        found = {row["scenario"]: row["workers"][0] for row in rows}
        self.assertEqual(0, found["agents"]["messages"])
        for scenario in ("cold", "change"):
            with self.subTest(scenario=scenario):
                # Each host once, whatever was requested or confirmed again.
                self.assertEqual(HOSTS, found[scenario]["decoded"])
                self.assertLess(found[scenario]["cpu_s"], HOSTS * CPU_S)
