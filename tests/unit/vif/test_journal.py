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


"""What is on disk while a port is in progress."""

import contextlib
import dataclasses
import errno
import json
import os
import pathlib
import stat
import tempfile
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies

from sriov_rt.exceptions import SriovRtError
from sriov_rt.vif import errors
from sriov_rt.vif import journal
from sriov_rt.vif.journal import Action
from sriov_rt.vif.journal import Entry
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.model import Kind
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT

ENTRY = Entry(
    action=Action.PLUG,
    port=PORT,
    owner="me",
    kind=Kind.MACVLAN,
    interface="eth1",
    namespace="box",
    parent="enp1s0v0",
    vf="0000:01:10.0",
    parent_up=True,
)
LOGGER = "sriov_rt.vif.journal"


class EntryTest(unittest.TestCase):
    def test_an_entry_reads_back(self):
        self.assertEqual(ENTRY, journal.parse(journal.form(ENTRY)))

    def test_steps_come_after_it(self):
        data = journal.form(ENTRY) + b"create\nup\nto"
        self.assertEqual(ENTRY, journal.parse(data))

    def test_what_is_no_entry(self):
        good = journal.form(ENTRY)
        plain = json.loads(good)
        bad = [
            b"",
            b"\n",
            good[:-1],
            good[: len(good) // 2] + b"\n",
            b"\0" * 4096,
            b"[" * 60000 + b"\n",
            b" " * (journal.MAX_FILE + 1),
        ]
        for change in (
            {"schema": 1},
            {"action": "delete"},
            {"kind": "veth"},
            {"port": "../../etc/passwd"},
            {"owner": "a b"},
            {"interface": "a/b"},
            {"namespace": "../1"},
            {"parent": ""},
            {"vf": "../../x"},
            {"parent_up": 1},
        ):
            bad.append(json.dumps({**plain, **change}).encode() + b"\n")
        for data in bad:
            with self.subTest(data=data[:80]), self.assertRaises(SriovRtError):
                journal.parse(data)

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(
        strategies.binary(), strategies.integers(0, 600), strategies.binary()
    )
    def test_any_bytes_are_taken(self, data, place, other):
        good = journal.form(ENTRY)
        for each in (data, data + b"\n", good[:place] + other + good[place:]):
            with contextlib.suppress(SriovRtError):
                journal.parse(each)


class JournalTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name) / "a" / "vif"
        self.journal = Journal(self.directory)

    def test_nothing_is_made_before_the_first_entry(self):
        self.assertEqual((), self.journal.ports())
        self.assertIsNone(self.journal.get(PORT))
        self.journal.end(PORT)
        self.assertEqual((), self.journal.aside())
        self.assertFalse(self.directory.exists())

    def test_begin_step_end(self):
        self.journal.begin(ENTRY)
        self.journal.step(PORT, "create")
        self.journal.step(PORT, "up")
        again = Journal(self.directory)
        self.assertEqual((PORT,), again.ports())
        self.assertEqual(ENTRY, again.get(PORT))
        text = (self.directory / PORT).read_text()
        self.assertEqual(["create", "up"], text.splitlines()[1:])
        mode = (self.directory / PORT).stat().st_mode
        self.assertEqual(0o600, stat.S_IMODE(mode))
        self.journal.end(PORT)
        self.assertEqual([], fakes.files(self.directory))

    def test_no_disk_is_waited_for(self):
        with mock.patch("os.fsync", side_effect=AssertionError):
            self.journal.begin(ENTRY)
        self.assertEqual(ENTRY, self.journal.get(PORT))

    def test_a_disk_that_takes_a_part_at_a_time(self):
        real = os.write
        with mock.patch("os.write", lambda fd, data: real(fd, data[:100])):
            self.journal.begin(ENTRY)
        self.assertEqual(ENTRY, self.journal.get(PORT))

    def test_a_full_disk_at_any_write_of_an_entry(self):
        for name in ("os.write", "os.open"):
            for code, named in (
                (errno.ENOSPC, errors.JournalFull),
                (errno.EDQUOT, errors.JournalFull),
                (errno.EROFS, errors.JournalBroken),
            ):
                self.directory.mkdir(parents=True, exist_ok=True)
                failing = OSError(code, os.strerror(code))
                with (
                    self.subTest(name=name, code=code),
                    mock.patch(name, side_effect=failing),
                    self.assertRaises(named) as caught,
                ):
                    self.journal.begin(ENTRY)
                self.assertEqual(PORT, caught.exception.port)
                self.assertEqual([], fakes.files(self.directory))

    def test_a_step_that_is_not_written_stops_nothing(self):
        self.journal.begin(ENTRY)
        with (
            mock.patch("os.write", side_effect=OSError(errno.ENOSPC, "full")),
            self.assertLogs(LOGGER, "WARNING") as logs,
        ):
            self.journal.step(PORT, "create")
        self.assertIn("create (full)", logs.output[0])
        self.assertEqual(ENTRY, self.journal.get(PORT))

    def test_an_entry_that_cannot_be_removed(self):
        self.journal.begin(ENTRY)
        with (
            mock.patch("os.unlink", side_effect=OSError(errno.EROFS, "ro")),
            self.assertRaises(errors.JournalBroken),
        ):
            self.journal.end(PORT)

    def test_a_directory_that_is_none(self):
        self.directory.parent.mkdir()
        self.directory.write_text("")
        with self.assertRaises(errors.JournalBroken):
            self.journal.begin(ENTRY)
        with self.assertRaises(errors.JournalBroken):
            self.journal.ports()
        with self.assertRaises(errors.JournalBroken):
            self.journal.get(PORT)
        self.assertEqual((), self.journal.aside())

    def test_what_is_garbled_or_foreign_is_set_aside(self):
        self.directory.mkdir(parents=True)
        garbled = fakes.port(1)
        (self.directory / garbled).write_bytes(journal.form(ENTRY)[1:])
        (self.directory / fakes.port(2)).write_bytes(journal.form(ENTRY))
        (self.directory / fakes.port(3)).mkdir()
        (self.directory / fakes.port(4)).symlink_to("/etc/passwd")
        (self.directory / "README").write_text("hello")
        (self.directory / "x\ny").write_text("hello")
        os.mkfifo(self.directory / fakes.port(5))
        with self.assertLogs(LOGGER, "WARNING") as logs:
            for each in self.journal.ports():
                self.assertIsNone(self.journal.get(each))
        self.assertEqual(7, len(logs.output))
        self.assertEqual((), self.journal.ports())
        self.assertEqual(7, len(self.journal.aside()))
        kept = self.directory / "set-aside" / f"{garbled}.0"
        self.assertEqual(journal.form(ENTRY)[1:], kept.read_bytes())

    def test_nothing_that_was_set_aside_is_lost(self):
        self.directory.mkdir(parents=True)
        for text in ("one", "two"):
            (self.directory / PORT).write_text(text)
            with self.assertLogs(LOGGER, "WARNING"):
                self.assertIsNone(self.journal.get(PORT))
        self.assertEqual((f"{PORT}.0", f"{PORT}.1"), self.journal.aside())

    def test_what_cannot_be_set_aside_is_told(self):
        self.directory.mkdir(parents=True)
        (self.directory / PORT).write_text("x")
        (self.directory / "set-aside").write_text("x")
        with self.assertLogs(LOGGER, "WARNING") as logs:
            self.assertIsNone(self.journal.get(PORT))
        self.assertIn("move it yourself", logs.output[0])

    def test_what_was_never_whole_had_not_begun(self):
        whole = journal.form(ENTRY)
        self.directory.mkdir(parents=True)
        for length in (0, 1, 10, 40, len(whole) - 1):
            with self.subTest(length=length):
                (self.directory / PORT).write_bytes(whole[:length])
                self.assertEqual((PORT,), self.journal.ports())
                self.assertIsNone(self.journal.get(PORT))
                self.assertEqual([], fakes.files(self.directory))

    def test_the_last_whole_entry_counts(self):
        other = dataclasses.replace(ENTRY, namespace="elsewhere")
        self.journal.begin(ENTRY)
        self.journal.step(PORT, "delete")
        self.journal.begin(other)
        self.assertEqual(other, self.journal.get(PORT))
        with (self.directory / PORT).open("ab") as file:
            file.write(journal.form(ENTRY)[:-1])
        self.assertEqual(other, self.journal.get(PORT))

    def test_a_full_disk_takes_no_entry_away(self):
        self.journal.begin(ENTRY)
        with (
            mock.patch("os.write", _full_after(os.write, 5)),
            self.assertRaises(errors.JournalFull),
        ):
            self.journal.begin(dataclasses.replace(ENTRY, namespace="x"))
        self.assertEqual(
            journal.form(ENTRY), (self.directory / PORT).read_bytes()
        )

    def test_half_a_step_does_not_spoil_what_follows(self):
        other = dataclasses.replace(ENTRY, namespace="elsewhere")
        self.journal.begin(ENTRY)
        with (
            mock.patch("os.write", _full_after(os.write, 3)),
            self.assertLogs(LOGGER, "WARNING"),
        ):
            self.journal.step(PORT, "delete")
        self.journal.begin(other)
        self.assertEqual(other, self.journal.get(PORT))


def _full_after(real, count):
    """Return a write that takes some bytes, and then no more."""
    left = [count]

    def write(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken, left[0] = left[0], 0
        return real(descriptor, data[:taken])

    return write
