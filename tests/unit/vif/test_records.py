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


"""Records of ports: strict, bounded, of this boot."""

import dataclasses
import json
import pathlib
import stat
from unittest import mock

from sriov_rt.exceptions import SriovRtError
from sriov_rt.vif import errors
from sriov_rt.vif import journal
from sriov_rt.vif import records
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked


class RecordsTest(fakes.HostTest):
    def setUp(self):
        super().setUp()
        self.records = Records(self.directory)

    def plugged(self, kind=Kind.MACVLAN, **fields):
        self.plugger.plug(asked(kind, **fields))
        return self.records.get(PORT)

    def file(self) -> pathlib.Path:
        return self.directory / "records" / PORT

    def change(self, **fields):
        plain = json.loads(self.file().read_text())
        self.file().write_text(json.dumps(plain | fields))

    def test_what_a_port_is(self):
        found = self.plugged(
            Kind.VF, vlan=7, addresses=("192.0.2.1/24",), mtu=1400
        )
        link = self.host.named("eth1", "box")
        self.assertEqual(
            (
                PORT, "me", Kind.VF, None, "eth1", "box",
                self.host.space("box"), link.index, "enp1s0v0",
                "0000:01:10.0", "enp1s0", link.mac, State.PLUGGED,
            ),
            (
                found.port, found.owner, found.kind, found.mode,
                found.interface, found.namespace, found.space, found.index,
                found.parent, found.vf, found.nic, found.mac, found.state,
            ),
        )  # fmt: skip
        self.assertEqual((7, 1400), (found.asked.vlan, found.asked.mtu))
        self.assertEqual((found,), self.records.all())

    def test_it_is_roots_alone_and_whole(self):
        self.plugged()
        place = self.file()
        self.assertEqual(0o600, stat.S_IMODE(place.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE(place.parent.stat().st_mode))
        self.assertEqual([PORT], fakes.files(place.parent))

    def test_a_full_disk_leaves_the_one_before(self):
        found = self.plugged()
        full = OSError(28, "No space left on device")
        other = dataclasses.replace(found, reason="x")
        with (
            mock.patch("os.write", side_effect=full),
            self.assertRaises(errors.JournalFull),
        ):
            self.records.put(other)
        self.assertEqual((found,), self.records.all())
        self.assertEqual([PORT], fakes.files(self.file().parent))

    def test_what_is_no_record_is_named_and_stops_plugs(self):
        self.plugged()
        for change in (
            {"schema": 2},
            {"owner": "a b"},
            {"vf": "x"},
            {"index": "7"},
            {"port": fakes.OTHER},
            {"interface": "a/b"},
            {"asked": None},
        ):
            kept = self.file().read_text()
            self.change(**change)
            with self.subTest(change=change):
                with self.assertRaises(errors.RecordBroken) as caught:
                    self.records.all()
                self.assertIn(str(self.file()), str(caught.exception))
                with self.assertRaises(errors.RecordBroken):
                    self.plugger.plug(asked(port=fakes.OTHER, name="e2"))
            self.file().write_text(kept)
        self.file().write_bytes(b"x" * (records.MAX_FILE + 9))
        with self.assertRaises(errors.RecordBroken):
            self.records.all()

    def test_what_is_no_file_is_not_followed(self):
        self.plugged()
        self.file().rename(self.directory / "elsewhere")
        self.file().symlink_to(self.directory / "elsewhere")
        with self.assertRaises(SriovRtError):
            self.records.get(PORT)

    def test_other_names_are_passed_over(self):
        found = self.plugged()
        for name in (".tmp", "README", "x" * 40):
            (self.file().parent / name).touch()
        self.assertEqual((found,), self.records.all())

    def test_another_boots_is_none_and_goes_at_the_next_start(self):
        self.plugged()
        self.change(boot="another")
        with self.assertLogs("sriov_rt.vif.records", "INFO") as logs:
            self.assertEqual((), self.records.all())
        self.assertIn("another boot", logs.output[0])
        self.another().recover()
        self.assertEqual([], fakes.files(self.file().parent))

    def test_none_was_ever_written(self):
        self.assertEqual((), self.records.all())
        self.assertIsNone(self.records.get(PORT))
        self.records.remove(PORT)


class JournalTest(fakes.HostTest):
    def _killed(self) -> pathlib.Path:
        self.host.clock.set(3)
        with self.assertRaises(fakes.Killed):
            self.plugger.plug(asked())
        self.host.clock.set(None)
        return self.directory / PORT

    def test_an_entry_of_another_boot_is_ended(self):
        file = self._killed()
        plain = json.loads(file.read_text().splitlines()[0])
        file.write_text(json.dumps(plain | {"boot": "another"}) + "\n")
        with self.assertLogs("sriov_rt.vif.journal", "WARNING") as logs:
            self.assertIsNone(Journal(self.directory).get(PORT))
        self.assertIn("another boot", logs.output[0])
        self.assertEqual((), self.pending())

    def test_the_schema_before_is_read_and_deletes_nothing(self):
        file = self._killed()
        plain = json.loads(file.read_text().splitlines()[0])
        for name in ("boot", "space", "index", "parent_index"):
            del plain[name]
        old = json.dumps(plain | {"schema": 2}, separators=(",", ":"))
        file.write_text(old + "\n")
        self.assertEqual(0, journal.parse(file.read_bytes()).index)
        parent = self.host.named("enp1s0v0").index
        self.host.add(
            "eth1",
            namespace="box",
            kind="macvlan",
            mode="bridge",
            parent=parent,
        )
        with self.assertLogs("sriov_rt.vif", "WARNING") as logs:
            self.assertEqual((PORT,), self.another().recover().undone)
        self.assertIn("see whether eth1 in box is left", logs.output[0])
        self.assertIsNotNone(self.host.named("eth1", "box"))
