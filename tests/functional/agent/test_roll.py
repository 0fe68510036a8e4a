# SPDX-License-Identifier: Apache-2.0

"""A kernel that is rolled over three hosts, by real agents and RabbitMQ."""

import json
import pathlib
import sys
import tempfile
import unittest

from tests.functional.agent import roll
from tests.periodic import periodic
from tests.testbed.waiting import run_logged

PATIENCE_S = 1500.0

PAGE = (
    pathlib.Path(__file__).resolve().parents[3]
    / "doc/source/admin/maintenance.rst"
)


@periodic
class RollTest(unittest.TestCase):
    """The list after each step; the page has the screen as it was printed."""

    def test_the_operator_s_screen(self) -> None:
        """Hold, boot owed and kernel are seen; what differs comes first."""
        with tempfile.TemporaryDirectory() as directory:
            output = pathlib.Path(directory, "screen.json")
            run_logged(
                (
                    *(sys.executable, "-m", "tests.functional.agent.roll"),
                    str(output),
                ),
                timeout=PATIENCE_S,
                log=pathlib.Path(directory, "log"),
            )
            screen = json.loads(output.read_text())
        lists = [text for command, text in screen if command.startswith("$")]
        rows = [self._rows(text) for text in lists]
        self.assertEqual(1 + 3 * len(roll.HOSTS), len(rows))
        self.assertEqual([""] * 3, [each["Differs"] for each in rows[0]])
        first = rows[1][0]
        self.assertEqual("rt-1", first["Host"])
        self.assertEqual("hold, boot_owed", first["Differs"])
        self.assertEqual("root: kernel 6.12", first["Hold"])
        self.assertEqual("kernel command line", first["Boot owed"])
        # Two of three have the new kernel: the third is the odd one.
        self.assertEqual("rt-3", rows[6][0]["Host"])
        self.assertEqual("kernel", rows[6][0]["Differs"])
        self.assertEqual({roll.KERNEL}, {each["Kernel"] for each in rows[-1]})
        self.assertEqual([""] * 3, [each["Differs"] for each in rows[-1]])
        page = PAGE.read_text()
        for text in (lists[1], lists[6]):
            for line in text.splitlines():
                self.assertIn(line, page)

    def _rows(self, text: str) -> list[dict[str, str]]:
        """Return the rows of a table, of which one may be some lines."""
        head, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in text.splitlines()
            if line.startswith("|")
        )
        found: list[dict[str, str]] = []
        for row in rows:
            cells = ["" if cell == "-" else cell for cell in row]
            if cells[0]:
                found.append(dict.fromkeys(head, ""))
            for name, cell in zip(head, cells, strict=True):
                found[-1][name] = f"{found[-1][name]} {cell}".strip()
        return found
