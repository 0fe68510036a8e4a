# SPDX-License-Identifier: Apache-2.0

"""Whose a VF is: the store, its damaged files, its lock, its kills."""

import errno
import json
import os
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

from sriov_rt import files
from sriov_rt.host.interfaces import DEVICES
from sriov_rt.host.root import Root
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import errors
from sriov_rt.nic import tenancy
from sriov_rt.nic.tenancy import MANAGERS
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.tenancy import Tenancy
from tests.unit.nic import fakes

VF = "0000:01:10.0"
POD = Holder(
    Kind.POD,
    "c1/net1",
    "team/web-0",
    State.IN_USE,
    driver="iavf",
    network="fast",
    namespace="/run/netns/x",
)


class StoreTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        self.device = self.root / DEVICES / VF
        self.device.mkdir(parents=True)
        self.store = self.another()
        self.file = self.store.directory / VF

    def another(self):
        return Tenancies(Root(str(self.root)), fakes.Clock())

    def test_who_has_it_is_read_by_every_other_process(self):
        self.assertEqual((), self.store.get(VF).holders)
        self.store.assign(VF, POD)
        found = self.another().get(VF)
        self.assertEqual((POD,), found.holders)
        self.assertEqual(self.device.stat().st_ino, found.inode)
        self.assertEqual((found,), self.store.all())
        self.assertEqual(0o600, self.file.stat().st_mode & 0o777)
        self.store.release(VF, Kind.VMI)
        self.assertEqual((POD,), self.store.get(VF).holders)
        self.store.release(VF, Kind.POD)
        self.assertFalse(self.file.exists())

    def test_a_holder_replaces_one_of_its_kind_alone(self):
        port = Holder(Kind.PORT, "p1")
        self.store.assign(VF, port)
        self.store.mark(VF)
        for state in State:
            self.store.assign(VF, Holder(Kind.DOMAIN, "d1", state=state))
        found = self.store.get(VF)
        self.assertEqual(port, found.of(Kind.PORT))
        self.assertEqual(2, len(found.holders))
        self.assertTrue(found.filters)

    def test_a_device_that_cannot_be_looked_at_is_not_gone(self):
        self.store.assign(VF, POD)
        with mock.patch.object(pathlib.Path, "stat", side_effect=OSError(5)):
            self.assertEqual((POD,), self.store.get(VF).holders)

    def test_a_vf_that_was_made_again_is_nobodys(self):
        self.store.assign(VF, POD)
        self.store.mark(VF)
        self.store.note(VF, VfSettings(vlan=7))
        self.store.bind(VF)
        self.device.rename(self.device.with_name("before"))
        self.assertEqual(Tenancy(VF), self.store.get(VF))
        self.store.mark(VF)
        with self.assertRaises(errors.NoSuchDevice):
            self.store.assign(VF, POD)
        self.device.mkdir()
        self.assertTrue(self.store.get(VF).is_empty)

    def test_a_damaged_file_is_of_somebody_unknown_and_never_of_nobody(self):
        self.store.assign(VF, POD)
        good = json.loads(self.file.read_text())
        twice = {**good, "holders": 2 * good["holders"]}
        for data in (
            b"",
            b"x",
            b"{}",
            b"[" * 9000,
            b"\xff",
            b"9" * 50_000,
            json.dumps({**good, "schema": 2}).encode(),
            json.dumps({**good, "schema": True}).encode(),
            json.dumps({**good, "inode": "1"}).encode(),
            json.dumps({**good, "address": "0000:01:10.1"}).encode(),
            json.dumps({**good, "holders": [{"kind": "king"}]}).encode(),
            json.dumps(twice).encode(),
        ):
            with self.subTest(data[:40]):
                self.file.write_bytes(data)
                self.assertDamaged()
        self.file.unlink()
        os.mkfifo(self.file)
        self.assertDamaged()
        self.file.unlink()
        self.file.symlink_to("/etc/passwd")
        self.assertDamaged()
        self.file.unlink()
        self.file.mkdir()
        self.assertDamaged()

    def assertDamaged(self):
        found = self.store.get(VF)
        (holder,) = found.holders
        self.assertIs(Kind.UNKNOWN, holder.kind)
        self.assertTrue(holder.is_quarantined)
        self.assertTrue(found.filters)
        self.assertIn("damaged", holder.clause(VF))
        self.assertIn(f"vf reset {VF}", holder.clause(VF))
        for kind in Kind:
            if kind is not Kind.UNKNOWN:
                self.assertIn(holder, found.others(kind))

    def test_a_file_that_others_can_write_is_damaged(self):
        self.store.assign(VF, POD)
        self.file.chmod(0o666)
        self.assertDamaged()

    def test_what_a_damaged_file_said_goes_with_a_reset_alone(self):
        self.store.assign(VF, POD)
        self.file.write_text("x")
        self.store.assign(VF, POD)
        kinds = {each.kind for each in self.store.get(VF).holders}
        self.assertEqual({Kind.UNKNOWN, Kind.POD}, kinds)
        self.store.reset(VF)
        self.assertEqual((), self.store.get(VF).holders)

    def test_a_directory_that_others_can_write_is_not_used(self):
        self.store.check()
        # Who can write above it puts another directory in its place.
        for each in (self.store.directory, self.store.directory.parent):
            with self.subTest(each.name):
                each.chmod(0o777)
                with self.assertRaises(errors.NotRecorded):
                    self.store.assign(VF, POD)
                each.chmod(0o755)

    def test_nothing_is_left_to_a_container(self):
        with mock.patch.object(
            tenancy.container, "ends_with_container", return_value=True
        ):
            with self.assertRaises(errors.NotKept) as caught:
                self.store.mark(VF)
            found = self.store.get(VF)
        self.assertIn("mount the host's /run", str(caught.exception))
        self.assertTrue(found.filters)
        self.assertIs(Kind.UNKNOWN, found.holders[0].kind)

    def test_a_full_disk_leaves_the_old_file(self):
        self.store.assign(VF, POD)
        full = OSError(errno.ENOSPC, "no space")
        with (
            mock.patch.object(files, "replace", side_effect=full),
            self.assertRaises(errors.NotRecorded) as caught,
        ):
            self.store.release(VF, Kind.VMI)
        self.assertIn(VF, str(caught.exception))
        self.assertEqual((POD,), self.store.get(VF).holders)

    def test_a_kill_at_any_call_leaves_the_old_or_the_new(self):
        new = POD.quarantined("dirty")
        seen = []
        for name in ("open", "write", "fchmod", "close"):
            for before in (True, False):
                self.store.assign(VF, POD)
                pid = os.fork()
                if not pid:
                    self.dies(name, before, lambda: self.store.assign(VF, new))
                seen.append(os.waitstatus_to_exitcode(os.wait()[1]))
                found = self.store.get(VF).of(Kind.POD)
                self.assertIn(found, (POD, new), name)
                # Its lock has gone with it.
                with self.another().locked(VF, 0.0):
                    pass
        self.assertEqual([77] * 8, seen)

    def dies(self, name, before, act):
        """Do something in a child that is killed at a call."""
        real = getattr(os, name)

        def killed(*args, **named):
            if not before:
                real(*args, **named)
            os._exit(77)

        with mock.patch.object(os, name, killed):
            act()
        os._exit(0)

    def test_reasons_are_bounded(self):
        self.store.assign(VF, POD.quarantined("x" * 10**6))
        self.assertEqual(
            tenancy.MAX_TEXT, len(self.store.get(VF).holders[0].reason)
        )


class LockTest(StoreTest):
    def test_whoever_writes_waits_for_who_has_the_vf(self):
        self.store.assign(VF, POD)
        before = self.store.get(VF)
        for act in (
            lambda: self.store.assign(VF, POD.quarantined("no")),
            lambda: self.store.release(VF, POD.kind),
            lambda: self.store.reset(VF),
            lambda: self.store.bind(VF),
            lambda: self.store.note(VF, VfSettings()),
            lambda: self.store.mark(VF),
        ):
            with (
                fakes.locked_by_another(self.store, VF),
                self.assertRaises(errors.Locked),
            ):
                act()
            self.assertEqual(before, self.store.get(VF))

    def test_two_take_turns(self):
        order = []
        taken = threading.Event()

        def second():
            with (
                self.assertRaises(errors.Locked),
                self.another().locked(VF, 0.0),
            ):
                pass
            order.append("refused")
            taken.set()

        with self.store.locked(VF):
            with self.another().locked(VF, 0.0):
                order.append("again, in the same thread")
            thread = threading.Thread(target=second)
            thread.start()
            taken.wait(10)
            thread.join()
        with self.another().locked(VF, 0.0):
            order.append("free")
        self.assertEqual(
            ["again, in the same thread", "refused", "free"], order
        )

    def test_a_child_does_not_keep_it(self):
        with self.store.locked(VF):
            pid = os.fork()
            if not pid:
                path = pathlib.Path("/proc/self/fd")
                left = any(
                    each.resolve().parent == self.store.directory
                    for each in path.iterdir()
                )
                os._exit(int(left))
            self.assertEqual(0, os.waitstatus_to_exitcode(os.wait()[1]))


class HolderTest(unittest.TestCase):
    def test_every_kind_has_a_row(self):
        self.assertEqual(set(Kind), set(MANAGERS))

    def test_only_the_same_guests_managers_are_beside_each_other(self):
        holders = tuple(Holder(kind, "x", state=State.IN_USE) for kind in Kind)
        found = {
            kind: {each.kind for each in Tenancy(VF, 1, holders).others(kind)}
            for kind in (*Kind, None)
        }
        everybody = set(Kind)
        beside = {
            Kind.VMI: {Kind.POD},
            Kind.DOMAIN: {Kind.PORT},
            Kind.PORT: {Kind.DOMAIN},
        }
        for kind, others in found.items():
            expected = everybody - {kind} - beside.get(kind, set())
            self.assertEqual(expected, others, kind)

    def test_a_quarantine_keeps_the_same_guest_off_as_well(self):
        for kind, row in MANAGERS.items():
            if row.beside is not None:
                holder = Holder(row.beside, "x").quarantined("dirty")
                found = Tenancy(VF, 1, (holder,)).others(kind)
                self.assertEqual((holder,), found)

    def test_drift_is_told_of_what_the_kernel_tells(self):
        noted = Tenancy(VF, 1, settings=VfSettings(vlan=100, trust=False))
        for now, expected in (
            (VfSettings(vlan=100, trust=False, spoofchk=True), ()),
            (VfSettings(trust=None), ()),
            (VfSettings(vlan=200), ("its vlan is 200 and not 100",)),
            (VfSettings(trust=True), ("its trust is True and not False",)),
        ):
            self.assertEqual(expected, tenancy.drift(noted, now))
        self.assertEqual((), tenancy.drift(Tenancy(VF), VfSettings(vlan=7)))
