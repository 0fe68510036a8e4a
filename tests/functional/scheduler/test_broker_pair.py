# SPDX-License-Identifier: Apache-2.0

"""A message queue of two nodes, one of which goes or cannot be reached.

The promise: a worker that hears nothing places nothing, and hears again by
itself. The agent, the worker and RabbitMQ are the real ones.
"""

import json
import pathlib
import sys
import tempfile
import unittest

from tests.functional.scheduler import broker_pair
from tests.periodic import periodic
from tests.testbed.waiting import run_logged

#: Seconds of oslo.messaging's reconnection, on a busy machine.
RECONNECTION_S = 30.0
#: Seconds until oslo.messaging takes a silent node for gone, twice
#: heartbeat_timeout_threshold (60 by default), and has found the other one.
SILENCE_S = 300.0
PATIENCE_S = 900.0


# Two nodes of RabbitMQ take minutes to start, stop and join.
@periodic
class BrokerPairTest(unittest.TestCase):
    def test_the_promise_outlives_a_node_and_a_cut(self):
        with tempfile.TemporaryDirectory() as directory:
            output = pathlib.Path(directory, "seconds.json")
            run_logged(
                (
                    *(sys.executable, "-m"),
                    "tests.functional.scheduler.broker_pair",
                    str(output),
                ),
                timeout=PATIENCE_S,
                log=pathlib.Path(directory, "log"),
            )
            seconds = json.loads(output.read_text())
        print(f"message queue of two nodes: {seconds} s", file=sys.stderr)
        # Old facts are of no use, and no sooner than they are old.
        self.assertLess(seconds["cut: refused"], broker_pair.MAX_AGE_S + 2)
        for what in ("a killed", "b killed", "repaired: heard"):
            with self.subTest(what):
                self.assertLess(seconds[what], RECONNECTION_S)
        for what in ("silent", "repaired: placed"):
            with self.subTest(what):
                self.assertLess(seconds[what], SILENCE_S)
