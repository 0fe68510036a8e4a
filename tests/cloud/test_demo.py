# SPDX-License-Identifier: Apache-2.0

"""What tools/demo shows, at a terminal in a cloud that is up."""

import shlex
import sys

from tests.cloud.base import CloudTestCase
from tests.periodic import periodic
from tests.testbed import demo
from tests.testbed import terminal
from tests.testbed.services import RT
from tests.testbed.steps import Step


class TestDemo(CloudTestCase):
    """virsh(1) and others behave differently where there is a terminal."""

    def test_what_it_shows(self) -> None:
        status, text = terminal.run(
            (sys.executable, "-m", "tests.testbed.show")
        )
        self.assertEqual(0, status, text)
        titles = [step.value.title for step in Step]
        self.assertEqual(
            titles[titles.index(Step.EXPLAIN.value.title) :],
            [line for line in text.splitlines() if line in titles],
        )
        result = (self.cloud.place.log / demo.RESULT).read_text()
        self.assertIn("FIFO", result)
        for line in result.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assert_nothing_left(RT)

    @periodic
    def test_what_it_proposes_to_try(self) -> None:
        commands = [each.replace("\\\n", "") for each in demo.TRY]
        *others, create = map(shlex.split, commands)
        for words in others:
            with self.subTest(words):
                # In the environment of what is run inside, which is ours;
                # agents on a busy machine take longer than a person would.
                status, text = terminal.run(
                    (*words[words.index("--") + 1 :], "--wait", "60")
                )
                self.assertIn(RT, text)
                self.assertEqual(0, status, text)
        try:
            status, text = terminal.run(create[create.index("--") + 1 :])
            self.assertEqual(0, status, text)
            self.assertRegex(text, rf"\bhost +\| {RT} ")
        finally:
            found = self.cloud.api.compute.find_server("mine")
            if found is not None:
                self.delete(found.id)
