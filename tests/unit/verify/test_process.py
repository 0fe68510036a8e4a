# SPDX-License-Identifier: Apache-2.0

"""What is said of a measuring program that failed."""

import unittest

from sriov_rt.verify.process import Ended

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
