# SPDX-License-Identifier: Apache-2.0

"""Which of Tempest's tests are left out, and how its runs are counted."""

import ast
import pathlib
import re
import unittest
from collections.abc import Iterator

import sriov_rt_tempest_plugin
from tests import results
from tests.testbed import tempest_tests

OUTPUT = """\
{0} tempest.api.compute.test_a.A.test_a [1.3s] ... ok
{1} tempest.api.compute.test_a.A.test_b ... SKIPPED: no cinder
{0} tempest.scenario.test_b.B.test_c[id-1,smoke] [0.4s] ... FAILED
{0} setUpClass (tempest.api.network.test_c.C) [0.0s] ... FAILED

======
Totals
======
Ran: 3 tests in 40.5536 sec.
 - Passed: 1
 - Skipped: 1
 - Expected Fail: 0
 - Unexpected Success: 0
 - Failed: 2
"""


def _tests() -> Iterator[str]:
    """Yield the names of the plugin's tests, as stestr has them."""
    (package,) = map(pathlib.Path, sriov_rt_tempest_plugin.__path__)
    for file in package.rglob("test_*.py"):
        name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
        for each in ast.parse(file.read_text()).body:
            for test in getattr(each, "body", ()):
                if getattr(test, "name", "").startswith("test_"):
                    yield f"{name}.{each.name}.{test.name}"


class ResultsTest(unittest.TestCase):
    def test_the_runs_of_one_log_are_summed_up(self):
        self.assertEqual((1, 2, 1), results.totals(OUTPUT))
        self.assertEqual((2, 4, 2), results.totals(OUTPUT * 2))


class LeftOutTest(unittest.TestCase):
    def test_what_is_left_out_is_there(self):
        """A test that is renamed would be run, and nobody would know."""
        found = list(_tests())
        for each in tempest_tests.PERIODIC:
            self.assertTrue(
                any(f".{each}." in f"{test}." for test in found), each
            )
        left_out = [
            each
            for each in found
            if re.search(tempest_tests.LEFT_OUT, f"{each}[id-1,smoke]")
        ]
        self.assertLess(len(tempest_tests.PERIODIC), len(left_out))
        self.assertLess(len(left_out), len(found))
