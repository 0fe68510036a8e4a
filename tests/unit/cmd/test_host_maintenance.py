# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json
import os
import time
from unittest import mock

from sriov_rt.cmd import host_maintenance
from sriov_rt.cmd import main
from sriov_rt.facts import HostHold
from sriov_rt.host import maintenance
from tests.unit.host import trees


class HostHoldTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        for patch in (
            mock.patch.object(
                host_maintenance, "Root", lambda _: self.tree.root
            ),
            mock.patch.dict(os.environ, {"SUDO_USER": "alice"}),
        ):
            self.enterContext(patch)

    def run_command(self, *words, code=0):
        printed, self.errors = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(self.errors),
        ):
            self.assertEqual(
                code, main.main(["host", *words]), self.errors.getvalue()
            )
        return printed.getvalue()

    def found(self):
        return maintenance.read(self.tree.root)

    def test_hold_and_release(self):
        printed = self.run_command("hold", "--why", "kernel 6.12")
        self.assertIn("| who   | alice", printed)
        self.assertIn("kernel 6.12", printed)
        self.assertEqual("alice", self.found().who)
        self.assertIsNone(self.found().until)
        self.assertLess(abs(time.time() - self.found().since), 60)
        printed = self.run_command("release", "--json")
        self.assertEqual("kernel 6.12", json.loads(printed)["hold"]["why"])
        self.assertIsNone(self.found())
        printed = self.run_command("release", "--json")
        self.assertIsNone(json.loads(printed)["hold"])

    def test_a_dry_run_changes_nothing(self):
        self.run_command("hold", "--why", "NIC", "--dry-run")
        self.assertIsNone(self.found())
        self.run_command("hold", "--why", "NIC")
        self.assertIn("would end", self.run_command("release", "--dry-run"))
        self.assertEqual("NIC", self.found().why)
        self.assertIn("| hold  | ends now", self.run_command("release"))

    def test_an_end(self):
        self.run_command("hold", "--why", "a", "--until", "4h")
        found = self.found()
        self.assertLess(abs(found.until - found.since - 4 * 3600), 60)
        self.run_command("hold", "--why", "a", "--until", "2100-01-01T06:00")
        self.assertEqual(4102466400.0, self.found().until)
        for until in ("noon", "2020-01-01", "0h"):
            with self.subTest(until), self.assertRaises(SystemExit):
                self.run_command("hold", "--why=a", "--until", until)

    def test_the_hold_of_another_stays(self):
        self.run_command("hold", "--why", "NIC", "--who", "bob")
        self.run_command("hold", "--why", "mine", code=2)
        self.assertIn("bob put this host on hold", self.errors.getvalue())
        self.assertEqual("NIC", self.found().why)
        self.run_command("hold", "--why", "NIC and BIOS", "--who", "bob")
        self.assertEqual("NIC and BIOS", self.found().why)

    def before_it_acts(self, act):
        """Have another command act once one has printed its plan."""
        real = host_maintenance._locked  # noqa: SLF001

        def locked(root):
            with mock.patch.object(host_maintenance, "_locked", real):
                act()
            return real(root)

        return mock.patch.object(host_maintenance, "_locked", locked)

    def put_by_bob(self):
        host_maintenance.release(self.tree.root, self.found())
        found = HostHold("bob", "NIC", time.time())
        host_maintenance.write(self.tree.root, found)

    def test_two_at_a_time(self):
        """Who is later does not take the place of the other's."""
        with self.before_it_acts(self.put_by_bob):
            self.run_command("hold", "--why", "mine", code=2)
        self.assertEqual("bob", self.found().who)

    def test_a_release_ends_the_hold_that_it_prints(self):
        self.run_command("hold", "--why", "mine")
        with self.before_it_acts(self.put_by_bob):
            self.run_command("release", code=2)
        self.assertEqual("bob", self.found().who)

    def test_one_that_has_ended_is_nobodys(self):
        self.run_command("hold", "--why", "a", "--who", "bob", "--until", "1s")
        with mock.patch.object(time, "time", return_value=time.time() + 9):
            self.run_command("hold", "--why", "mine")
        self.assertEqual("alice", self.found().who)

    def test_a_file_that_is_none(self):
        self.tree.write(maintenance.PATH, "{")
        self.run_command("hold", "--why", "a", code=2)
        self.assertIn("then run 'sriov-rt host", self.errors.getvalue())
        self.assertIn("unknown", self.run_command("release"))
        self.assertIsNone(self.found())

    def test_text_that_is_none(self):
        for why in ("", " ", "a\nb", "\x1b[2J", "a" * 201):
            with self.subTest(why), self.assertRaises(SystemExit):
                self.run_command("hold", "--why", why)
        self.assertIsNone(self.found())
