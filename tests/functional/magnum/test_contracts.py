# SPDX-License-Identifier: Apache-2.0

"""The cluster driver, in magnum-conductor's own code of three releases."""

import unittest

from tests import releases
from tests.magnum import releases as magnum
from tests.periodic import periodic


class ContractsTest(unittest.TestCase):
    """Against a release that can't be had these fail, and are not skipped."""

    maxDiff = None

    def _run(self, name: str, *tests: str) -> None:
        (release,) = (r for r in releases.SUPPORTED if r.name == name)
        code, output = magnum.run(release, *tests)
        self.assertEqual(0, code, output[-20000:])
        self.assertRegex(output, r"\nRan [1-9][0-9]* tests? in [^\n]+\nOK\n")

    def test_the_driver_on_magnum_23(self):
        self._run("2026.2", "test_driver", "test_api_filter")

    # These have Heat in tree: what works there is a few lines.
    @periodic
    def test_the_driver_on_magnum_22(self):
        self._run("2026.1", "test_driver", "test_api_filter")

    @periodic
    def test_the_driver_on_magnum_21(self):
        self._run("2025.2", "test_driver", "test_api_filter")

    def test_every_case_is_run(self):
        found = {each.stem for each in magnum.CASES.glob("test_*.py")}
        # The real parts are those of tests/kubernetes/test_magnum.py.
        self.assertEqual(
            {
                "test_api_filter",
                "test_driver",
                "test_real",
                "test_controllers",
            },
            found,
        )
