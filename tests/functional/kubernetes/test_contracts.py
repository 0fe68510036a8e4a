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

import unittest

from tests import releases

_RUNNER = """
import sys
import urllib3
if not urllib3.__version__.startswith("1.26."):
    sys.exit(f"urllib3 {urllib3.__version__} and not 1.26")
import testtools.run
testtools.run.main(sys.argv, sys.stdout)
"""


class ContractsTest(unittest.TestCase):
    """The client of 2025.2 has urllib3 1.26; the installed one has 2."""

    def test_requests_with_the_client_of_2025_2(self):
        code, output = releases.SUPPORTED[0].run(
            _RUNNER, "tests.functional.kubernetes.test_api", timeout=900
        )
        self.assertEqual(0, code, output[-20000:])
        self.assertRegex(output, r"\nRan [1-9][0-9]* tests? in [^\n]+\nOK\n")
