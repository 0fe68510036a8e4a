# SPDX-License-Identifier: Apache-2.0

"""Death at each step of each kind and mode, and what is there afterwards."""

import dataclasses
import functools
import itertools
import logging
from unittest import mock

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import errors as vif_errors
from sriov_rt.vif import records
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from sriov_rt.vif.validation import MODES
from tests.periodic import slow
from tests.unit.vif import fakes
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import Killed
from tests.unit.vif.fakes import asked

#: Every kind and mode.
ALL = [
    (kind, mode) for kind, modes in MODES.items() for mode in modes or (None,)
]

#: More than any plug or unplug takes.
MANY = 200


def full(kind, mode, **fields):
    """Return a port that uses all there is."""
    values = {
        "vlan": 100,
        "mtu": 1400,
        "addresses": ("192.0.2.1/24",),
        "routes": (("default", "192.0.2.254"),),
        "limits": Limits(1000, 2000),
    }
    if kind != Kind.IPVLAN:
        values["mac"] = "02:00:5e:10:00:01"
    return asked(kind, mode=mode, **{**values, **fields})


@slow
class KillTest(fakes.HostTest):
    def setUp(self):
        super().setUp()
        logging.disable()
        self.addCleanup(logging.disable, logging.NOTSET)

    def fresh(self, **fields):
        self.setUp()
        for name in ("enp1s0v0", "enp1s0v1", "enp1s0v2"):
            self.host.change(name, **fields)
        return self.host.state()

    def die_at(self, number, work) -> bool:
        """Kill the work at a call; False if it was done before."""
        self.host.clock.set(number)
        try:
            work()
        except Killed:
            return True
        finally:
            self.host.clock.set(None)
        return False

    def test_a_plug_that_is_killed_anywhere_is_undone(self):
        died = 0
        for (kind, mode), up in itertools.product(ALL, (True, False)):
            for number in range(1, MANY):
                before = self.fresh(up=up and kind != Kind.VF)
                want = full(kind, mode)
                work = functools.partial(self.plugger.plug, want)
                if not self.die_at(number, work):
                    break
                died += 1
                call = self.host.clock.calls
                done = self.another().recover()
                with self.subTest(kind=kind, mode=mode, at=number, call=call):
                    self.assertEqual((), done.failed)
                    standing = done.standing
                    if standing:
                        # It died after its record said that it was done.
                        self.assertEqual((PORT,), standing)
                        self.assertTrue(self.another().unplug(PORT))
                    self.assertEqual(before, self.host.state())
                    self.assertEqual((), self.pending())
                    again = self.another().recover()
                    self.assertEqual((), again.undone + again.cleaned)
            else:
                self.fail(f"{kind} {mode} never ends")
        self.assertGreater(died, 200)

    def test_an_unplug_that_is_killed_anywhere_is_finished(self):
        died = 0
        for (kind, mode), up in itertools.product(ALL, (True, False)):
            for number in range(1, MANY):
                before = self.fresh(up=up and kind != Kind.VF)
                self.plugger.plug(full(kind, mode))
                work = functools.partial(self.plugger.unplug, PORT)
                if not self.die_at(number, work):
                    break
                died += 1
                again = self.another()
                again.recover()
                if number == 1:
                    # Nothing was written yet: it is as if never asked.
                    self.assertTrue(again.unplug(PORT))
                with self.subTest(kind=kind, mode=mode, at=number, up=up):
                    self.assertEqual(before, self.host.state())
                    self.assertEqual((), self.pending())
                    self.assertFalse(again.unplug(PORT))
            else:
                self.fail(f"{kind} {mode} never ends")
        self.assertGreater(died, 100)

    def test_a_recovery_that_is_killed_anywhere_is_done_by_the_next(self):
        for kind, mode, at in (
            (Kind.MACVLAN, "bridge", 15),
            (Kind.VF, None, 30),
        ):
            for number in range(1, MANY):
                before = self.fresh(up=kind != Kind.VF)
                work = functools.partial(self.plugger.plug, full(kind, mode))
                self.assertTrue(self.die_at(at, work))
                died = self.die_at(number, self.another().recover)
                self.another().recover()
                with self.subTest(kind=kind, mode=mode, at=number):
                    self.assertEqual(before, self.host.state())
                if not died:
                    break

    def test_an_error_at_any_step_of_a_plug_undoes_it(self):
        for kind, mode in ALL:
            for number in range(1, MANY):
                before = self.fresh(up=kind != Kind.VF)
                self.host.clock.set(number, kernel_errors.TryAgain("enp1s0v0"))
                try:
                    self.plugger.plug(full(kind, mode))
                    break
                except kernel_errors.TryAgain:
                    pass
                finally:
                    self.host.clock.set(None)
                self.another().recover()
                with self.subTest(kind=kind, mode=mode, at=number):
                    if not self.plugger.unplug(PORT):
                        self.assertEqual(before, self.host.state())
                    self.assertEqual((), self.pending())

    def test_a_vf_that_vanishes_at_any_step_leaves_nothing(self):
        for (kind, mode), unplug in itertools.product(ALL, (False, True)):
            for number in range(1, MANY):
                self.fresh(up=kind != Kind.VF)
                if unplug:
                    self.plugger.plug(full(kind, mode))
                vf = self.host.vf(0)
                gone = _Vanishing(self.host, vf, number)
                try:
                    if unplug:
                        self.plugger.unplug(PORT)
                    else:
                        self.plugger.plug(full(kind, mode))
                except (kernel_errors.LinkError, fakes.NoSuchDevice):
                    pass
                self.host.clock.tick = gone.tick
                done = self.another().recover()
                with self.subTest(kind=kind, mode=mode, at=number):
                    self.assertEqual((), done.failed)
                    self.another().unplug(PORT)
                    self.assertEqual((), self.pending())
                    # It may have got the next VF instead: that is clean.
                    self.assertNotIn(
                        PORT, str(self.host.state()), "left behind"
                    )
                    for settings in self.host.settings.values():
                        self.assertEqual(fakes.CLEAN, settings)
                if not gone.happened:
                    break


class _Vanishing:
    """Takes a VF away at a call."""

    def __init__(self, host, vf, at):
        self._host, self._vf, self._at = host, vf, at
        self._count = 0
        self.happened = False
        self.tick = host.clock.tick
        host.clock.tick = self._tick

    def _tick(self, call):
        self._count += 1
        if self._count == self._at:
            self.happened = True
            self._host.vanish(self._vf)


class RecoverTest(fakes.HostTest):
    def test_nobody_elses_interface_is_touched(self):
        self.host.add("eth9", namespace="box", kind="macvlan", mode="bridge")
        self.plugger.plug(asked(port=fakes.OTHER, name="eth5"))
        before = self.host.state()
        self.host.clock.set(12)
        with self.assertRaises(Killed):
            self.plugger.plug(asked(Kind.VF))
        self.host.clock.set(None)
        done = self.another().recover()
        self.assertEqual((PORT,), done.undone)
        self.assertEqual((fakes.OTHER,), done.standing)
        self.host.change("enp1s0v1", up=True)
        self.assertEqual(before, self.host.state())

    def test_a_vf_that_another_port_got_meanwhile_is_left(self):
        self.host.clock.set(3)
        with self.assertRaises(Killed):
            self.plugger.plug(asked(Kind.VF))
        self.host.clock.set(None)
        pending = self.directory / "records" / PORT
        kept = pending.read_bytes()
        pending.unlink()
        self.plugger.plug(asked(Kind.VF, port=fakes.OTHER))
        pending.write_bytes(kept)
        before = self.host.state()
        self.assertEqual((PORT,), self.another().recover().undone)
        self.assertEqual(before, self.host.state())

    def test_sixty_four_interrupted_plugs_take_no_more_looks_than_one(self):
        self.host.add_pf("enp2s0", vfs=0)
        for number in range(64):
            self.host.add(f"enp2s0v{number}", mtu=9000)
        names = [f"enp2s0v{each}" for each in range(64)]
        self.parents = [f"physnet3:{each}" for each in names]
        plugger = self.another()
        for number, name in enumerate(names):
            self.host.clock.set(6)
            with self.assertRaises(Killed):
                plugger.plug(
                    asked(
                        port=fakes.port(number),
                        physical_network="physnet3",
                        parent=name,
                        name=f"eth{number}",
                    )
                )
        self.host.clock.set(None)
        self.links.dumps = self.vfs.lists = 0
        done = self.another().recover()
        self.assertEqual(64, len(done.undone))
        self.assertLessEqual(self.links.dumps, 3)
        self.assertLessEqual(self.vfs.lists, 3)

    def test_a_port_in_progress_elsewhere_is_left_to_who_does_it(self):
        self.host.clock.set(5)
        with self.assertRaises(Killed):
            self.plugger.plug(asked())
        self.host.clock.set(None)
        with Locks(self.directory, 0.2).port(PORT):
            done = self.another().recover()
        self.assertEqual((PORT,), done.busy)
        self.assertEqual((PORT,), self.pending())

    def test_what_cannot_be_undone_keeps_its_record(self):
        self.host.clock.set(9)
        with self.assertRaises(Killed):
            self.plugger.plug(asked(vlan=7))
        self.host.clock.set(2, kernel_errors.NotPermitted("eth1"))
        with self.assertLogs("sriov_rt.vif.unplug", "ERROR"):
            done = self.another().recover()
        self.assertEqual(PORT, done.failed[0][0])
        self.assertIn("not permitted", done.failed[0][1])
        self.assertEqual((PORT,), self.pending())
        self.host.clock.set(None)
        self.assertEqual((PORT,), self.another().recover().undone)

    def killed_after(self, call: str, want) -> None:
        """Kill a plug right after a call."""
        for number in range(1, MANY):
            self.setUp()
            self.host.clock.set(number)
            with self.assertRaises(Killed):
                self.plugger.plug(want)
            calls = self.host.clock.calls
            self.host.clock.set(None)
            if len(calls) > 1 and calls[-2].startswith(call):
                return
        self.fail(f"no {call}")

    def test_what_a_killed_plug_made_and_a_tenant_hid_is_quarantined(self):
        for kind, call in ((Kind.MACVLAN, "create"), (Kind.VF, "move")):
            with self.subTest(kind):
                self.killed_after(call, asked(kind, parent="enp1s0v0"))
                made = self.host.named("eth1", "box")
                self.assertIsNotNone(made)
                self.host.hide("eth1")
                done = self.another().recover()
                self.assertEqual([PORT], [port for port, _ in done.failed])
                self.assertEqual((PORT,), done.quarantined)
                self.assertEqual((), self.pending())
                # Nobody else gets what it is on.
                with self.assertRaises(kernel_errors.LinkError):
                    self.plugger.plug(
                        asked(port=fakes.OTHER, parent="enp1s0v0", vlan=9)
                    )
                with self.assertRaises(vif_errors.Quarantined):
                    self.plugger.plug(asked(kind))
                # The remedy of its reason works.
                self.assertTrue(self.plugger.forget(PORT))
                self.assertTrue(self.plugger.plug(asked(kind)))

    def test_what_a_failed_plug_left_out_of_sight_is_quarantined(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        self.plugger.unplug(PORT)
        create = self.links.create

        def hidden(what):
            create(what)
            self.host.hide("eth1")
            raise kernel_errors.NotPermitted("eth1")

        with (
            mock.patch.object(self.links, "create", hidden),
            self.assertRaises(kernel_errors.NotPermitted),
        ):
            self.plugger.plug(asked(parent="enp1s0v0"))
        self.assertEqual((), self.pending())
        (found,) = self.plugger.show()
        self.assertEqual(State.QUARANTINED, found.state)
        self.host.end_namespace("hidden")
        self.assertEqual((PORT,), self.another().recover().released)

    def test_a_record_that_is_written_meanwhile_is_not_cleaned(self):
        self.plugger.plug(asked())
        place = self.directory / "records" / PORT
        now = place.read_bytes()
        old = now.replace(records.boot_id().encode(), b"another")
        place.write_bytes(old)
        with Locks(self.directory, 0.2).port(PORT):
            self.another().recover()
            self.assertTrue(place.exists())
        self.another().recover()
        self.assertFalse(place.exists())

    def test_a_dirty_vf_that_nothing_uses_is_cleaned(self):
        dirty = dataclasses.replace(fakes.CLEAN, vlan=5, trust=True)
        self.host.settings[self.host.vf(1)] = dirty
        self.assertEqual(("enp1s0v1",), self.another().recover().cleaned)
        self.assertEqual((), self.another().recover().cleaned)

    def test_what_a_nic_cannot_clean_is_not_tried_again_and_again(self):
        stuck = dataclasses.replace(fakes.CLEAN, spoofchk=False)
        self.host.settings[self.host.vf(1)] = stuck
        self.assertEqual((), self.another().recover().cleaned)
        self.assertEqual(0, self.vfs.resets)

    def test_a_host_without_records_has_nothing_to_recover(self):
        done = self.another().recover()
        self.assertEqual((), done.undone + done.finished + done.failed)
        self.assertFalse(self.directory.exists())
