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
