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

"""Commands that run as hooks start without what takes long to import."""

import contextlib
import importlib
import io
import json
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

from sriov_rt.cmd import hook
from sriov_rt.cmd import main
from sriov_rt.cmd import shell
from sriov_rt.vif import host
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT

#: Modules that take 10 ms and more, and that no hook needs to start.
SLOW = (
    "cliff", "kubernetes", "libvirt", "neutron", "nova", "openstack",
    "oslo_config", "oslo_messaging", "pbr", "prettytable", "pyroute2",
    "requests", "stevedore", "yaml",
)  # fmt: skip

_LISTS = (
    "import sys\n"
    "from sriov_rt.cmd import hook, main\n"
    "hook.load(tuple(sys.argv[1:]))\n"
    "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
)


def imported(*name: str) -> set[str]:
    """Return the packages that a hook imports before it runs."""
    done = subprocess.run(
        (sys.executable, "-c", _LISTS, *name),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


class StartTest(unittest.TestCase):
    def test_a_hook_imports_only_what_it_needs(self):
        for name in hook.COMMANDS:
            with self.subTest(name):
                found = imported(*name)
                self.assertIn("sriov_rt", found)
                self.assertEqual(set(), found.intersection(SLOW))

    def test_it_is_found_where_it_is_named(self):
        for place, function in hook.COMMANDS.values():
            module = importlib.import_module(place)
            self.assertTrue(callable(getattr(module, function)))
            self.assertTrue(callable(getattr(module, f"configure_{function}")))

    def test_each_is_a_command_of_the_shell_too(self):
        names = {" ".join(name) for name in hook.COMMANDS}
        self.assertLessEqual(names, set(shell.COMMANDS))


class PlugTest(unittest.TestCase):
    WORDS = (
        "vif", "plug", "--port", PORT, "--owner", "web", "--kind", "macvlan",
        "--network", "physnet1", "--namespace", "box",
    )  # fmt: skip

    def run_hook(self, *words):
        printed = io.StringIO()
        plugger = fakes.plugger(pathlib.Path("journal"))
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(io.StringIO()),
            mock.patch.object(host, "configured", return_value=plugger),
        ):
            return hook.main([*self.WORDS, *words]), printed.getvalue()

    def test_json_and_plans_take_no_cliff(self):
        code, printed = self.run_hook("--json", "--dry-run")
        self.assertEqual(0, code)
        self.assertTrue(json.loads(printed))
        self.assertEqual(0, self.run_hook("--dry-run")[0])

    def test_a_table_or_help_is_left_to_cliff(self):
        for words in ((), ("-f", "json"), ("--json", "--help"), ("--debug",)):
            with self.subTest(words):
                self.assertEqual((None, ""), self.run_hook(*words))

    def test_other_commands_are_no_hooks(self):
        for words in ([], ["vif"], ["vif", "show"], ["--debug", *self.WORDS]):
            self.assertIsNone(hook.main(words))


class ShellTest(unittest.TestCase):
    def run_main(self, *words):
        printed, said = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            try:
                code = main.main(words)
            except SystemExit as end:
                code = end.code or 0
        return code, printed.getvalue(), said.getvalue()

    def test_every_command_has_help(self):
        code, printed, _ = self.run_main("--help")
        self.assertEqual(0, code)
        for name, place in shell.COMMANDS.items():
            module, _, cls = place.partition(":")
            found = getattr(
                importlib.import_module(f"sriov_rt.cmd.{module}"), cls
            )
            summary = found.__doc__.split("\n")[0].rstrip(".")
            with self.subTest(name):
                self.assertIn(summary, printed)
                code, told, _ = self.run_main(*name.split(), "--help")
                self.assertEqual(0, code)
                self.assertIn(summary, " ".join(told.split()))
                self.assertEqual(told, self.run_main("help", *name.split())[1])

    def test_the_version(self):
        code, printed, _ = self.run_main("--version")
        self.assertEqual(0, code)
        self.assertRegex(printed, r" \S+\n\Z")

    def test_completion_for_bash(self):
        code, printed, _ = self.run_main("complete")
        self.assertEqual(0, code)
        self.assertIn("cmds_vif='forget lxc-hook plug", printed)

    def test_what_is_no_command(self):
        for words, part in (
            ((), "a command is needed"),
            (("vif", "plag"), "is not a sriov-rt command"),
            (("nonsense",), "is not a sriov-rt command"),
        ):
            with self.subTest(words):
                code, printed, said = self.run_main(*words)
                self.assertEqual(2, code)
                self.assertIn(part, printed + said)

    def test_a_column_that_there_is_not(self):
        for form in ("table", "json"):
            code, printed, said = self.run_main(
                "host", "check", "-c", "nonsense", "-f", form
            )
            self.assertEqual((2, ""), (code, printed.partition("\n")[2]))
            self.assertIn("nonsense", said)

    def test_a_traceback_for_who_wants_one(self):
        words = ("onload", "profile", "show", "x", "--config-file", "/none")
        code, _, said = self.run_main(*words)
        self.assertEqual((2, 1), (code, said.count("\n")))
        code, _, said = self.run_main("--debug", *words)
        self.assertEqual(2, code)
        self.assertIn("Traceback", said)
