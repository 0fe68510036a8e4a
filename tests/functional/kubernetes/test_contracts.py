# SPDX-License-Identifier: Apache-2.0

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
