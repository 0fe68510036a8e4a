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

"""What the journal of a release before has left, taken into the records."""

import contextlib
import json
import os

import hypothesis
from hypothesis import strategies

from sriov_rt.exceptions import SriovRtError
from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.vif import old_journal
from sriov_rt.vif import records
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from sriov_rt.vif.old_journal import Action
from sriov_rt.vif.old_journal import OldJournal
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

PLAIN = {
    "schema": 3,
    "action": "plug",
    "port": PORT,
    "owner": "me",
    "kind": "macvlan",
    "interface": "eth1",
    "namespace": "box",
    "parent": "enp1s0v0",
    "vf": "0000:01:10.0",
    "parent_up": True,
}
LOGGER = "sriov_rt.vif.old_journal"


def line(**fields) -> bytes:
    return json.dumps(PLAIN | fields, separators=(",", ":")).encode() + b"\n"


class EntryTest(fakes.HostTest):
    def test_steps_come_after_it_and_the_last_whole_entry_counts(self):
        found = old_journal.parse(line() + b"create\nup\nto")
        self.assertEqual(
            (Action.PLUG, Kind.MACVLAN), (found.action, found.kind)
        )
        data = line() + b"delete\n" + line(namespace="b2") + line()[:-1]
        self.assertEqual("b2", old_journal.parse(data).namespace)

    def test_what_is_no_entry(self):
        good = line()
        bad = [
            b"",
            b"\n",
            good[:-1],
            good[: len(good) // 2] + b"\n",
            b"\0" * 4096,
            b"[" * 60000 + b"\n",
            b" " * (old_journal.MAX_FILE + 1),
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
            bad.append(line(**change))
        for data in bad:
            with self.subTest(data=data[:80]), self.assertRaises(SriovRtError):
                old_journal.parse(data)

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(
        strategies.binary(), strategies.integers(0, 600), strategies.binary()
    )
    def test_any_bytes_are_taken(self, data, place, other):
        good = line()
        for each in (data, data + b"\n", good[:place] + other + good[place:]):
            with contextlib.suppress(SriovRtError):
                old_journal.parse(each)


class OldJournalTest(fakes.HostTest):
    def setUp(self):
        super().setUp()
        self.records = Records(self.directory)
        self.old = OldJournal(self.records)

    def write(self, data: bytes, port: str = PORT) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / port).write_bytes(data)

    def killed(self, kind=Kind.MACVLAN, at=8) -> bytes:
        """Return what an older release has left of a plug, and no record."""
        self.host.clock.set(at)
        with self.assertRaises(fakes.Killed):
            self.plugger.plug(asked(kind))
        self.host.clock.set(None)
        file = self.directory / "records" / PORT
        plain = json.loads(file.read_text().splitlines()[0])
        file.unlink()
        data = line(
            **{
                key: value
                for key, value in plain.items()
                if key in old_journal.Entry.__dataclass_fields__
            },
            space=plain["namespace_id"],
            schema=3,
        )
        self.write(data)
        return data

    def test_nothing_is_made_where_there_is_none(self):
        self.assertEqual((), self.old.ports())
        self.old.take(PORT)
        self.assertEqual((), self.old.set_aside())
        self.assertFalse(self.directory.exists())

    def test_a_plug_is_undone(self):
        for kind, at in ((Kind.MACVLAN, 8), (Kind.VF, 16)):
            with self.subTest(kind):
                self.setUp()
                before = self.host.state()
                self.killed(kind, at)
                self.assertNotEqual(before, self.host.state())
                done = self.another().recover()
                self.assertEqual((PORT,), done.undone)
                if kind == Kind.MACVLAN:
                    self.assertEqual(before, self.host.state())
                self.assertEqual((), self.old.ports())
                self.assertEqual((), self.pending())
                self.assertFalse(self.plugger.unplug(PORT))

    def test_an_unplug_is_finished(self):
        before = self.host.state()
        self.plugger.plug(asked())
        self.write(line(action="unplug"))
        self.assertEqual((PORT,), self.another().recover().finished)
        self.assertEqual(before, self.host.state())
        self.assertEqual((), self.old.ports())

    def test_the_next_plug_of_the_port_undoes_it_first(self):
        self.killed()
        self.plugger.plug(asked())
        self.assertEqual(1, len(self.plugger.show()))
        self.assertEqual((), self.old.ports())
        self.assertTrue(self.plugger.unplug(PORT))

    def test_the_version_before_deletes_nothing(self):
        self.write(line(schema=2))
        parent = self.host.named("enp1s0v0").index
        left = self.host.add(
            "eth1",
            namespace="box",
            kind="macvlan",
            mode="bridge",
            parent=parent,
        )
        done = self.another().recover()
        self.assertEqual((PORT,), done.quarantined)
        self.assertIn("see whether eth1 in box is left", done.failed[0][1])
        self.assertIsNotNone(self.host.named("eth1", "box"))
        with self.assertRaises(kernel_errors.LinkError):
            self.plugger.plug(asked(port=fakes.OTHER, parent="enp1s0v0"))
        self.host.drop(left.index)
        self.assertEqual((PORT,), self.another().recover().released)

    def test_an_unplug_of_a_damaged_record_goes_by_its_entry(self):
        self.plugger.plug(asked())
        self.records.put(records.stand_in(PORT, b"", "x"))
        self.write(line(action="unplug"))
        done = self.another().recover()
        self.assertEqual((PORT,), done.quarantined)
        self.assertIsNotNone(self.host.named("eth1", "box"))

    def test_a_plug_over_a_quarantined_record_keeps_that(self):
        self.plugger.plug(asked())
        record = self.records.get(PORT)
        kept = records.stand_in(PORT, records.form(record), "x")
        self.records.put(kept)
        self.write(line(boot=records.boot_id(), index=7, parent_index=2))
        self.old.take(PORT)
        self.assertEqual(State.PLUGGING, self.records.in_progress(PORT).state)
        self.assertEqual(kept, self.records.get(PORT))

    def test_one_of_another_boot_is_discarded(self):
        self.write(line(boot="another"))
        with self.assertLogs(LOGGER, "WARNING") as logs:
            self.assertEqual((), self.another().recover().undone)
        self.assertIn("a plug of another boot", logs.output[0])
        self.assertEqual((), self.old.ports())

    def test_what_was_never_whole_had_not_begun(self):
        whole = line()
        for length in (0, 1, 10, 40, len(whole) - 1):
            with self.subTest(length=length):
                self.write(whole[:length])
                self.assertEqual((PORT,), self.old.ports())
                self.assertEqual((), self.another().recover().undone)
                self.assertEqual((), self.old.ports())
                self.assertEqual((), self.old.set_aside())

    def test_what_a_damaged_entry_was_about_stays_out_of_use(self):
        for change in (
            lambda data: data.replace(b'"schema":3', b'"schema":9'),
            lambda data: data[: data.index(b'"parent_up"')] + b"\n",
            lambda data: data + b" " * old_journal.MAX_FILE,
        ):
            self.setUp()
            self.write(change(self.killed(at=3)))
            with self.assertLogs("sriov_rt.vif.records", "ERROR") as logs:
                found = self.another().recover()
            self.assertIn(f"port={PORT}", logs.output[0])
            self.assertEqual((PORT,), found.quarantined)
            self.assertEqual((f"{PORT}.0",), found.set_aside)
            with self.assertRaises(kernel_errors.ParentTaken):
                self.plugger.plug(
                    asked(port=fakes.OTHER, name="e2", parent="enp1s0v0")
                )
            self.plugger.plug(asked(port=fakes.OTHER, name="e2"))
            self.assertTrue(self.plugger.forget(PORT))
            self.plugger.plug(asked())

    def test_a_damaged_entry_beside_a_record_leaves_that(self):
        self.plugger.plug(asked())
        self.write(b"torn")
        found = self.another().recover()
        self.assertEqual((PORT,), found.standing)
        self.assertTrue(self.plugger.unplug(PORT))

    def test_what_is_garbled_or_foreign_is_set_aside(self):
        garbled = fakes.port(1)
        self.write(line()[1:], garbled)
        self.write(line(), fakes.port(2))
        (self.directory / fakes.port(3)).mkdir()
        (self.directory / fakes.port(4)).symlink_to("/etc/passwd")
        (self.directory / "README").write_text("hello")
        (self.directory / "x\ny").write_text("hello")
        os.mkfifo(self.directory / fakes.port(5))
        with self.assertLogs(LOGGER, "WARNING") as logs:
            for each in self.old.ports():
                self.old.take(each)
        self.assertEqual(7, len(logs.output))
        self.assertEqual((), self.old.ports())
        self.assertEqual(7, len(self.old.set_aside()))
        kept = self.directory / "set-aside" / f"{garbled}.0"
        self.assertEqual(line()[1:], kept.read_bytes())

    def test_nothing_that_was_set_aside_is_lost(self):
        for text in (b"one", b"two"):
            self.write(text)
            with self.assertLogs(LOGGER, "WARNING"):
                self.old.take(PORT)
        self.assertEqual((f"{PORT}.0", f"{PORT}.1"), self.old.set_aside())

    def test_what_cannot_be_set_aside_is_told(self):
        self.write(b"x")
        (self.directory / "set-aside").write_text("x")
        with self.assertLogs(LOGGER, "WARNING") as logs:
            self.old.take(PORT)
        self.assertIn("move it yourself", logs.output[0])

    def test_a_directory_that_is_none(self):
        self.directory.write_text("")
        for act in (self.old.ports, lambda: self.old.take(PORT)):
            with self.assertRaises(records.errors.JournalBroken):
                act()
        self.assertEqual((), self.old.set_aside())
