# SPDX-License-Identifier: Apache-2.0

"""What tools/demo shows, at a terminal in a cloud that is up."""

import shlex
import sys
from typing import Any

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
        self.assertRegex(result, r"binding_vif_type +\| sriov_rt ")
        self.assertRegex(result, r"\benp\w+ +\| plugged ")
        for line in result.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assert_nothing_left(RT)

    @periodic
    def test_what_it_proposes_to_try(self) -> None:
        commands = [each.replace("\\\n", "") for each in demo.TRY]
        *others, port, server, on_host = map(shlex.split, commands)
        for words in others:
            with self.subTest(words):
                # Agents on a busy machine take longer than a person would.
                text = self.tried([*words, "--wait", "60"])
                self.assertIn(RT, text)
        self.addCleanup(self.clean)
        self.tried(port)
        self.assertRegex(self.tried(server), rf"\bhost +\| {RT} ")
        self.assertEqual(["tools/demo", "on", RT, "--"], on_host[:4])
        table = self.cloud.host(RT).run(
            str(self.cloud.env.program(on_host[4])), *on_host[5:]
        )
        self.assertRegex(table, rf"{self.fast().id}.*\bplugged\b")

    def tried(self, words: list[str]) -> str:
        """Return what a program of the cloud prints, which succeeds."""
        # In the environment of what is run inside, which is ours.
        status, text = terminal.run(words[words.index("--") + 1 :])
        self.assertEqual(0, status, text)
        return text

    def fast(self) -> Any:
        """Return the port that is proposed; None without."""
        return self.cloud.api.network.find_port("fast")

    def clean(self) -> None:
        """Delete what is proposed to be made."""
        found = self.cloud.api.compute.find_server("mine")
        if found is not None:
            self.delete(found.id)
        if self.fast() is not None:
            self.cloud.api.network.delete_port(self.fast().id)
