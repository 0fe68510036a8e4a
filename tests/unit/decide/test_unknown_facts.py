# SPDX-License-Identifier: Apache-2.0

import pathlib
import unittest

from sriov_rt import decide
from sriov_rt import facts
from sriov_rt.codec import Unknown
from sriov_rt.decide import unknown_facts


class UnknownFactsTest(unittest.TestCase):
    def test_a_fact_that_could_not_be_read(self):
        found = unknown_facts.unread("cpus.offline", Unknown("EIO"))
        (only,) = found
        self.assertEqual("fact_unknown", only.code)
        self.assertIn("cpus.offline", only.message)
        self.assertIn("EIO", only.message)

    def test_a_fact_that_an_older_agent_does_not_report(self):
        found = unknown_facts.unread("cpus.offline", facts.NOT_REPORTED)
        self.assertEqual([], list(found))

    def test_no_other_decision_builds_the_reason(self):
        room = pathlib.Path(decide.__file__).parent
        found = [
            path.name
            for path in sorted(room.glob("*.py"))
            if '"fact_unknown"' in path.read_text()
        ]
        self.assertEqual(["unknown_facts.py"], found)
