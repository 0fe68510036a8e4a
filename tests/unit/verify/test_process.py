# SPDX-License-Identifier: Apache-2.0

"""A measuring program that failed, or that is to end."""

import unittest
from unittest import mock

from sriov_rt.verify import process
from sriov_rt.verify.process import Ended
from tests.unit.cmd import interrupts

#: oslat 2.40 without the right to lock its memory.
OSLAT = """\
ERROR:
ERROR: TEST(mlockall(MCL_CURRENT | MCL_FUTURE) == 0)
ERROR: at line 846
ERROR: errno=12 (Cannot allocate memory)
ERROR:
"""


class EndedTest(unittest.TestCase):
    def test_the_last_line_that_says_something(self):
        self.assertEqual(
            "ERROR: errno=12 (Cannot allocate memory)",
            Ended(1, OSLAT, interrupted=False).last_line(),
        )

    def test_without_one_it_is_the_exit_code(self):
        for text in ("", "\n  \n", "ERROR:\n"):
            ended = Ended(3, text, interrupted=False)
            self.assertEqual("exit code 3", ended.last_line())


class RunTest(unittest.TestCase):
    def test_a_program_that_ignores_ctrl_c(self):
        interrupts.accept(self)
        self.enterContext(mock.patch.object(process, "GRACE_S", 0.2))
        script = "trap '' INT; echo; exec sleep 60"
        ended = process.run(("sh", "-c", script), 50.0, lines=interrupts.send)
        self.assertTrue(ended.interrupted)
