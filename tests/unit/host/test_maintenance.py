# SPDX-License-Identifier: Apache-2.0

import os
import pathlib
import time
from unittest import mock

from sriov_rt import documents
from sriov_rt.cmd import host_maintenance
from sriov_rt.codec import Unknown
from sriov_rt.facts import HostHold
from sriov_rt.host import conditions
from sriov_rt.host import maintenance
from sriov_rt.host.observer import Observer
from sriov_rt.placement import host_traits
from tests.unit.host import trees

NOW = 1_800_000_000.0
FOUND = HostHold("alice", "kernel 6.12", NOW)


class MaintenanceTest(trees.TreeTest):
    def observe(self, now=NOW):
        with mock.patch.object(time, "time", return_value=now):
            return maintenance.observe(self.tree.root)

    def test_a_host_that_is_not_on_hold(self):
        self.assertIsNone(self.observe().hold)

    def test_a_hold_is_read_back_and_released(self):
        host_maintenance.write(self.tree.root, FOUND)
        self.assertEqual(FOUND, self.observe().hold)
        host_maintenance.release(self.tree.root, FOUND)
        self.assertIsNone(self.observe().hold)
        host_maintenance.release(self.tree.root, FOUND)

    def test_others_read_it_whatever_root_s_umask(self):
        """To a hook of vdsm's an unknown hold is one, for ever."""
        self.addCleanup(os.umask, os.umask(0o027))
        self.tree.remove("var")
        host_maintenance.write(self.tree.root, FOUND)
        for each in pathlib.Path(maintenance.PATH).parents:
            mode = (self.tree.path / each).stat().st_mode
            if str(each).startswith("var"):
                self.assertEqual(0o755, mode & 0o777, each)

    def test_one_with_an_end_ends_by_the_clock(self):
        found = HostHold("alice", "kernel 6.12", NOW, NOW + 60)
        host_maintenance.write(self.tree.root, found)
        self.assertEqual(found, self.observe(NOW + 59).hold)
        self.assertIsNone(self.observe(NOW + 60).hold)

    def test_one_that_cannot_be_read_is_unknown(self):
        for data in (
            *("", "{", "[]", '{"schema": 1}', b"\xff"),
            documents.dump(FOUND, maintenance.SCHEMA_VERSION + 1),
            " " * (maintenance.MAX_FILE + 1),
        ):
            self.tree.write(maintenance.PATH, data)
            with self.subTest(data[:40]):
                self.assertIsInstance(self.observe().hold, Unknown)
        self.tree.remove(maintenance.PATH)
        host_maintenance.write(self.tree.root, FOUND)
        (self.tree.path / maintenance.PATH).chmod(0o666)
        self.assertIsInstance(self.observe().hold, Unknown)
        self.tree.make_unreadable(maintenance.PATH)
        self.assertIsInstance(self.observe().hold, Unknown)

    def test_what_a_kill_before_it_was_whole_leaves(self):
        host_maintenance.write(self.tree.root, FOUND)
        with (
            mock.patch("pathlib.Path.replace", side_effect=OSError),
            self.assertRaises(OSError),
        ):
            host_maintenance.write(
                self.tree.root, HostHold("alice", "no", NOW)
            )
        self.assertEqual(FOUND, self.observe().hold)

    def test_an_agent_that_is_started_again_goes_on_with_it(self):
        before = self.seen_by_agent()
        self.assertNotIn("host_on_hold", before)
        host_maintenance.write(self.tree.root, FOUND)
        for _ in range(2):
            self.assertIn("host_on_hold", self.seen_by_agent())
        host_maintenance.release(self.tree.root, FOUND)
        self.assertEqual(before, self.seen_by_agent())

    def seen_by_agent(self):
        observer = Observer(self.tree.root, "rt-1", "rt-1", trees.SOURCES)
        found = host_traits.verdicts(observer.observe(), NOW)
        return [each.code for each in found[host_traits.REALTIME]]

    def test_microcode_and_profile(self):
        found = self.observe()
        self.assertIsNone(found.microcode)
        self.assertIsNone(found.tuned_profile)
        microcode = conditions.FILES["microcode"]
        self.tree.write(microcode, "0x500320a\n")
        self.tree.write("etc/tuned/active_profile", "rt mine\n")
        found = self.observe()
        self.assertEqual("0x500320a", found.microcode)
        self.assertEqual("rt mine", found.tuned_profile)
        self.tree.make_unreadable(microcode)
        self.assertIsInstance(self.observe().microcode, Unknown)
