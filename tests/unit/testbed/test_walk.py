# SPDX-License-Identifier: Apache-2.0

"""Pages that are executed in beds: their commands, and what is compared."""

import pathlib
import re
import shlex
import tempfile
import unittest

from tests.testbed import paths
from tests.testbed import walk
from tests.unit.cmd import command_lines

PAGE = """
.. code-block:: console

   # cat > a.conf <<'END'
   # a comment, and no command
   a = 1
   END
   # sriov-rt vf \\
       list
   one ...
   END

.. code-block:: text

   # rm -rf /
"""

#: Words of a shell that end the words of a command.
ENDS = (">", ">>", "<", "|", "||", "2>&1", ";", "&&")

#: What runs each page; the stories are read, not run.
BEDS = {
    "lxc.rst": "tests/vm/test_lxc.py",
    "libvirt.rst": "tests/vm/test_libvirt.py",
    "kata.rst": "tests/functional/verify/test_disk.py",
    "ovirt.rst": "tests/functional/vdsm/test_contract.py",
    "onload.rst": "tests/kubernetes/cases/node.py",
}

_SUBSTITUTION = re.compile(r"\$\([^()]*\)")


class StepsTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        place = self.enterContext(tempfile.TemporaryDirectory())
        self.page = pathlib.Path(place) / "page.rst"
        self.page.write_text(PAGE)

    def test_commands_and_their_output(self):
        first, second = walk.steps(self.page)
        self.assertEqual(
            "cat > a.conf <<'END'\n# a comment, and no command\na = 1\nEND",
            first.command,
        )
        self.assertEqual(("", "one ...\nEND"), (first.output, second.output))
        self.assertEqual(
            ["sriov-rt", "vf", "list"],
            shlex.split(second.command.replace("\\\n", "")),
        )

    def run_with(self, *answers):
        said = iter(answers)
        walk.run(self, self.page, lambda _: next(said))

    def test_what_is_printed_is_what_is_shown(self):
        self.run_with((0, ""), (1, "one two\nEND  \n"))
        for answers in (
            ((1, ""),),
            ((0, ""), (2, "one two\nEND")),
            ((0, ""), (0, "two\nEND")),
            ((0, ""), (0, "one two\nEND\nand more")),
        ):
            with self.subTest(answers), self.assertRaises(AssertionError):
                self.run_with(*answers)


class PagesTest(unittest.TestCase):
    def test_each_page_has_its_bed(self):
        pages = {each.name for each in walk.PAGES.glob("*.rst")}
        self.assertEqual({*BEDS, "index.rst", "stories.rst"}, pages)
        for page, module in BEDS.items():
            with self.subTest(page):
                text = (paths.CHECKOUT / module).read_text()
                self.assertIn(f'walk.PAGES / "{page}"', text)

    def test_each_command_is_one_of_the_program(self):
        seen = 0
        for page in walk.PAGES.glob("*.rst"):
            for step in walk.steps(page):
                text = step.command.replace("\\\n", " ")
                # Whatever the shell puts there, it is one word.
                words = shlex.split(_SUBSTITUTION.sub("1", text))
                if words[0] == "sriov-rt":
                    with self.subTest(page=page.name, command=step.command):
                        ends = [
                            place
                            for place, word in enumerate(words)
                            if word in ENDS
                        ]
                        command_lines.parse(words[1 : min(ends, default=None)])
                        seen += 1
        self.assertGreater(seen, 6)
