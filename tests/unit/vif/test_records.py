# SPDX-License-Identifier: Apache-2.0

"""Records of ports: strict, bounded, of this boot."""

import dataclasses
import json
import os
import pathlib
import stat
from unittest import mock

import hypothesis
from hypothesis import strategies

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.vif import errors
from sriov_rt.vif import records
from sriov_rt.vif import salvage
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

    def test_a_directory_of_the_container_is_refused(self):
        with mock.patch.object(
            records.container, "ends_with_container", return_value=True
        ):
            for act in (
                self.records.all,
                self.records.damaged.names,
                self.records.ports,
                lambda: self.records.get(PORT),
            ):
                with self.assertRaises(errors.RecordsNotKept) as caught:
                    act()
        self.assertIn("mount the host's /run", str(caught.exception))

    def test_no_port_is_plugged_without_a_record_that_stays(self):
        before = self.host.state()
        with (
            mock.patch.object(
                records.container, "ends_with_container", return_value=True
            ),
            self.assertRaises(errors.RecordsNotKept),
        ):
            self.plugger.plug(asked())
        self.assertEqual(before, self.host.state())

    def test_what_a_port_is(self):
        found = self.plugged(
            Kind.VF, vlan=7, addresses=("192.0.2.1/24",), mtu=1400
        )
        link = self.host.named("eth1", "box")
        self.assertEqual(
            (
                PORT, "me", Kind.VF, None, "eth1", "box",
                self.host.namespace_id("box"), link.index, "enp1s0v0",
                "0000:01:10.0", "enp1s0", link.mac, State.PLUGGED,
            ),
            (
                found.port, found.owner, found.kind, found.mode,
                found.interface, found.namespace, found.namespace_id,
                found.index,
                found.parent, found.vf, found.nic, found.mac, found.state,
            ),
        )  # fmt: skip
        self.assertEqual((7, 1400), (found.request.vlan, found.request.mtu))
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
            self.assertRaises(errors.RecordsFull),
        ):
            self.records.put(other)
        self.assertEqual((found,), self.records.all())
        self.assertEqual([PORT], fakes.files(self.file().parent))

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

    def test_an_unknown_boot_is_no_other_boot(self):
        found = self.plugged()
        for now, written in (("", found.boot), ("this", "")):
            self.change(boot=written)
            with mock.patch.object(records, "boot_id", return_value=now):
                (there,) = Records(self.directory).all()
                self.assertEqual(PORT, there.port)
                self.another().recover()
            self.assertEqual([PORT], fakes.files(self.file().parent))

    def test_none_was_ever_written(self):
        self.assertEqual((), self.records.all())
        self.assertIsNone(self.records.get(PORT))
        self.assertIsNone(self.records.in_progress(PORT))
        self.assertEqual((), self.records.ports())
        self.records.end(PORT)
        self.assertFalse(self.directory.exists())

    def test_a_port_in_progress(self):
        found = self.plugged()
        other = dataclasses.replace(found, port=fakes.OTHER)
        for state, there in ((State.PLUGGING, None), (State.UNPLUGGING, PORT)):
            with self.subTest(state):
                record = dataclasses.replace(found, state=state)
                self.records.begin(record)
                self.records.step(PORT, "create")
                again = Records(self.directory)
                self.assertEqual((PORT,), again.ports())
                self.assertEqual(record, again.in_progress(PORT))
                self.assertIsNone(again.in_progress(fakes.OTHER))
                now = again.get(PORT)
                self.assertEqual(there, now and now.port)
                self.records.put(other)
                self.assertEqual((PORT,), again.ports())
                self.records.end(fakes.OTHER)
        text = self.file().read_text()
        self.assertEqual(["create"], text.splitlines()[1:])
        self.records.end(PORT)
        self.assertEqual((), self.records.all() + self.records.ports())

    def test_a_plug_leaves_the_quarantine_that_it_replaces(self):
        found = dataclasses.replace(
            self.plugged(), state=State.QUARANTINED, reason="x", removed=True
        )
        self.records.put(found)
        plug = dataclasses.replace(
            found, state=State.PLUGGING, reason="", removed=False, index=7
        )
        self.records.begin(plug)
        self.assertEqual(7, self.records.in_progress(PORT).index)
        self.assertEqual(found, self.records.get(PORT))
        self.assertEqual((found,), self.records.all())
        self.records.end(PORT)
        self.assertEqual((), self.records.ports())
        self.assertEqual(found, self.records.get(PORT))
        self.records.begin(plug)
        done = dataclasses.replace(plug, state=State.PLUGGED)
        self.records.put(done)
        self.assertEqual((done,), self.records.all())
        self.records.end(PORT)
        self.assertEqual((), self.records.all())

    def test_one_that_is_looked_for_again_is_quarantined_meanwhile(self):
        found = dataclasses.replace(
            self.plugged(), state=State.UNPLUGGING, reason="x"
        )
        self.records.begin(found)
        (now,) = self.records.all()
        self.assertTrue(now.is_quarantined)

    def test_no_disk_is_waited_for(self):
        with mock.patch("os.fsync", side_effect=AssertionError):
            self.plugged()

    def test_a_disk_that_takes_a_part_at_a_time(self):
        real = os.write
        with mock.patch("os.write", lambda fd, data: real(fd, data[:100])):
            found = self.plugged()
        self.assertEqual((found,), self.records.all())

    def test_a_step_that_is_not_written_stops_nothing(self):
        record = dataclasses.replace(self.plugged(), state=State.UNPLUGGING)
        self.records.begin(record)
        full = OSError(28, "full")
        half = iter((3, full))
        real = os.write

        def write(descriptor, data):
            count = next(half)
            if isinstance(count, OSError):
                raise count
            return real(descriptor, data[:count])

        with (
            mock.patch("os.write", write),
            self.assertLogs("sriov_rt.vif.records", "WARNING") as logs,
        ):
            self.records.step(PORT, "delete")
        self.assertIn("delete (full)", logs.output[0])
        self.assertEqual(record, self.records.in_progress(PORT))
        self.assertEqual(records.form(record), self.file().read_bytes())

    def test_one_that_cannot_be_removed(self):
        self.plugged()
        with (
            mock.patch("os.unlink", side_effect=OSError(30, "ro")),
            self.assertRaises(errors.RecordsBroken),
        ):
            self.records.end(PORT)


def _truncated(file: pathlib.Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: data.index(b'"request"')])


def _directory(file: pathlib.Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "x").touch()


def _fifo(file: pathlib.Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _link(file: pathlib.Path) -> None:
    file.rename(file.parent.parent / "elsewhere")
    file.symlink_to(file.parent.parent / "elsewhere")


def _changed(**fields):
    def change(file: pathlib.Path) -> None:
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    return change


#: Damage to a file, and whether its parent can be told from what is left.
DAMAGE = {
    "truncated": (_truncated, True),
    "empty": (lambda file: file.write_bytes(b""), False),
    "zeros": (lambda file: file.write_bytes(bytes(4096)), False),
    "too long": (lambda f: f.write_bytes(f.read_bytes() + b" " * 40000), True),
    "newer schema": (_changed(schema=9), True),
    "schema true": (_changed(schema=True), True),
    "owner": (_changed(owner="a b"), True),
    "vf": (_changed(vf="x"), True),
    "index": (_changed(index="7"), True),
    "huge index": (_changed(index=2**31), True),
    "another's": (_changed(port=fakes.OTHER), True),
    "interface": (_changed(interface="a/b"), True),
    "request": (_changed(request=None), True),
    "state": (_changed(state="gone"), True),
    "before": (_changed(before="{}"), True),
    "UTF-16": (
        lambda f: f.write_bytes(f.read_text().encode("utf-16")), False
    ),
    "directory": (_directory, False),
    "FIFO": (_fifo, False),
    "link": (_link, False),
    "others may write it": (lambda file: file.chmod(0o666), False),
}  # fmt: skip


class DamagedTest(fakes.HostTest):
    """One damaged file stops its own port, and nothing else."""

    def file(self) -> pathlib.Path:
        return self.directory / "records" / PORT

    def damaged(self, how, kind=Kind.MACVLAN, **fields):
        """Plug a port on enp1s0v0, another elsewhere, and damage its file."""
        plugged = self.plugger.plug(asked(kind, **fields))
        self.plugger.plug(asked(port=fakes.OTHER, name="e2", vlan=5))
        how(self.file())
        return plugged

    def each(self):
        for name, (how, told) in DAMAGE.items():
            for kind in (Kind.MACVLAN, Kind.VF):
                with self.subTest(name, kind=kind):
                    self.setUp()
                    yield name, told, self.damaged(how, kind)
                    self.doCleanups()

    def test_everything_else_goes_on(self):
        for _, _, _ in self.each():
            shown = {each.port: each for each in self.plugger.show()}
            self.assertEqual({PORT, fakes.OTHER}, shown.keys())
            self.assertEqual(State.PLUGGED, shown[fakes.OTHER].state)
            self.assertEqual(State.QUARANTINED, shown[PORT].state)
            self.assertIn("damaged", shown[PORT].reason)
            third = fakes.port(3)
            self.plugger.plug(asked(port=third, name="e3", vlan=5))
            self.assertTrue(self.plugger.unplug(fakes.OTHER))
            self.assertTrue(self.plugger.unplug(third))
            found = self.another().recover()
            self.assertEqual((PORT,), found.quarantined)
            self.assertEqual((), found.failed)

    def test_to_forget_a_port_ends_its_damaged_files_too(self):
        for _, _, _ in self.each():
            before = len(fakes.files(self.file().parent))
            self.assertEqual(2, before)
            self.another().recover()
            self.assertEqual(3, len(fakes.files(self.file().parent)))
            for each in list(self.host.links.values()):
                if each.namespace and each.name != "e2":
                    self.host.drop(each.index)
            self.assertTrue(self.plugger.forget(PORT))
            self.assertEqual([fakes.OTHER], fakes.files(self.file().parent))
            self.assertFalse(self.plugger.forget(PORT))

    def test_what_it_was_about_stays_out_of_use(self):
        for _, _, plugged in self.each():
            with self.assertLogs("sriov_rt.vif.records", "ERROR") as logs:
                self.plugger.recover()
            self.assertIn(f"port={PORT}", logs.output[0])
            self.assertIn(str(self.file()), logs.output[0])
            self.assertIn(f"vif forget {PORT} --force", logs.output[0])
            before = self.host.named("eth1", "box")
            self.assertIsNotNone(before)
            if plugged.kind == Kind.VF:
                # It has no interface here that anybody could take.
                self.assertEqual("0000:01:10.0", before.device)
            else:
                with self.assertRaises(kernel_errors.ParentTaken):
                    self.plugger.plug(
                        asked(port=fakes.port(3), name="e3", parent="enp1s0v0")
                    )
            for act in (
                lambda: self.plugger.unplug(PORT),
                lambda: self.plugger.plug(asked()),
            ):
                with self.assertRaises(errors.RecordDamaged) as caught:
                    act()
                self.assertIn("forget PORT --force", str(caught.exception))
            self.assertEqual(before, self.host.named("eth1", "box"))
            # The next start says so again, and nothing of it is lost.
            self.assertEqual((PORT,), self.another().recover().quarantined)

    def test_without_a_word_of_the_kernel_the_file_is_enough(self):
        for name, told, plugged in self.each():
            if not told or name == "vf" or plugged.kind != Kind.MACVLAN:
                continue
            # Root in the container has taken the alias away and hidden it.
            self.host.drop(self.host.named("eth1", "box").index)
            with self.assertRaises(kernel_errors.ParentTaken):
                self.plugger.plug(
                    asked(port=fakes.port(3), name="e3", parent="enp1s0v0")
                )

    def test_the_original_is_kept_and_no_more_than_some(self):
        self.damaged(_truncated)
        text = self.file().read_bytes()
        found = self.plugger.recover()
        kept = f"{PORT}.damaged.0"
        self.assertEqual((kept,), found.damaged)
        self.assertEqual(text, self.file().with_name(kept).read_bytes())
        self.assertIn(kept, self.plugger.show()[0].reason)
        # It is set aside once.
        self.assertEqual((kept,), self.plugger.recover().damaged)
        with mock.patch.object(records, "MAX_DAMAGED", 3):
            for _ in range(9):
                self.file().write_bytes(b"x")
                self.plugger.recover()
        self.assertEqual(3, len(Records(self.directory).damaged.names()))

    def test_forget_mends_it(self):
        for _, _, plugged in self.each():
            self.host.drop(self.host.named("eth1", "box").index)
            if plugged.kind == Kind.VF:
                self.host.add("back", device="0000:01:10.0", up=False)
            self.assertTrue(self.plugger.forget(PORT))
            self.assertFalse(self.plugger.forget(PORT))
            self.plugger.plug(asked())
            self.assertEqual(State.PLUGGED, self.plugger.show()[0].state)

    def test_a_full_disk_leaves_it_as_it_is(self):
        self.damaged(_truncated)
        text = self.file().read_bytes()
        full = OSError(28, "No space left on device")
        with (
            mock.patch("os.write", side_effect=full),
            self.assertLogs("sriov_rt.vif.host", "ERROR"),
        ):
            self.plugger.recover()
        self.assertEqual(text, self.file().read_bytes())
        self.assertEqual(State.QUARANTINED, self.plugger.show()[0].state)
        self.assertEqual((), Records(self.directory).damaged.names())

    def test_it_says_where_the_alias_is(self):
        """An alias is no proof; it is enough to keep a parent out of use."""
        self.damaged(lambda file: file.write_bytes(b""))
        self.plugger.recover()
        found = Records(self.directory).get(PORT)
        self.assertEqual(self.host.named("enp1s0v0").index, found.parent_index)
        self.assertEqual(self.host.named("eth1", "box").index, found.index)

    def test_another_user_has_written_it(self):
        self.damaged(_changed())
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        os.chown(self.file(), 65534, 65534)
        found = Records(self.directory).get(PORT)
        self.assertTrue(found.damaged)
        self.assertIn("belongs to user 65534", found.reason)

    def test_nothing_is_believed_in_a_directory_of_others(self):
        self.damaged(_changed())
        for place in (self.file().parent, self.directory):
            place.chmod(0o777)
            with self.assertRaises(errors.RecordsBroken) as caught:
                self.plugger.show()
            self.assertIn("can be written by others", str(caught.exception))
            place.chmod(0o700)

    def test_a_link_to_other_records_is_an_error(self):
        self.damaged(_changed())
        self.file().parent.rename(self.directory.parent / "other")
        self.file().parent.symlink_to(self.directory.parent / "other")
        for act in (
            self.plugger.show,
            lambda: self.plugger.unplug(PORT),
            lambda: self.plugger.plug(asked(port=fakes.port(3))),
        ):
            with self.assertRaises(errors.RecordsBroken) as caught:
                act()
            self.assertIn("is a link", str(caught.exception))

    def test_a_file_in_place_of_the_directory_is_an_error(self):
        self.directory.mkdir()
        self.file().parent.touch()
        with self.assertRaises(errors.RecordsBroken):
            self.plugger.show()


class FuzzTest(fakes.HostTest):
    """Whatever is in a file: its port is out of use, and no error."""

    @hypothesis.settings(
        derandomize=True, deadline=None, max_examples=300, database=None
    )
    @hypothesis.given(
        place=strategies.integers(0, 900),
        cut=strategies.integers(0, 900),
        other=strategies.binary(max_size=40)
        | strategies.sampled_from(
            (b"[[]]", b"null", b"true", b"1e999", b"NaN", b'"\\ud800"', b"{}")
        ),
    )
    def test_any_bytes(self, place, cut, other):
        if not hasattr(self, "good"):
            self.plugger.plug(asked(vlan=7, addresses=("192.0.2.1/24",)))
            self.file = self.directory / "records" / PORT
            self.good = self.file.read_bytes()
        self.file.write_bytes(
            self.good[:place] + other + self.good[place + cut :]
        )
        (found,) = Records(self.directory).all() or (None,)
        if found is not None and found.damaged:
            self.assertTrue(found.is_quarantined)
            # What stands for it reads back.
            Records(self.directory).put(found)
            self.assertEqual(found, Records(self.directory).get(PORT))
        self.plugger.show()

    @hypothesis.settings(
        derandomize=True, deadline=None, max_examples=200, database=None
    )
    @hypothesis.given(strategies.binary(max_size=200))
    def test_salvage_takes_any_bytes(self, data):
        for each in (data, b"{" + data, b'{"vf":' + data + b"}"):
            salvage.record("", PORT, each, "cut")
