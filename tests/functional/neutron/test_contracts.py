# SPDX-License-Identifier: Apache-2.0

import unittest

from tests import releases
from tests.functional.neutron import releases as neutron
from tests.periodic import periodic


class ContractsTest(unittest.TestCase):
    """Against a release that can't be had these fail, and are not skipped."""

    maxDiff = None

    def _run(self, number: int, *tests: str) -> None:
        (release,) = (r for r in releases.SUPPORTED if r.neutron == number)
        code, output = neutron.run(release, *tests)
        self.assertEqual(0, code, output[-20000:])
        self.assertRegex(output, r"\nRan [1-9][0-9]* tests? in [^\n]+\nOK\n")

    def test_the_mechanism_driver(self):
        self._run(29, "test_mechanism")

    def test_the_agent(self):
        self._run(29, "test_agent")

    def test_the_extension(self):
        self._run(29, "test_extension")

    def test_the_mechanism_driver_on_neutron_27(self):
        self._run(27, "test_mechanism")

    # The gate has the newest one whole.
    @periodic
    def test_all_of_it_on_neutron_28(self):
        self._run(28, "test_mechanism", "test_agent", "test_extension")

    @periodic
    def test_all_of_it_on_neutron_27(self):
        self._run(27, "test_mechanism", "test_agent", "test_extension")

    def test_every_case_is_run(self):
        found = {each.stem for each in neutron.CASES.glob("test_*.py")}
        self.assertEqual(
            {"test_mechanism", "test_agent", "test_extension"}, found
        )
