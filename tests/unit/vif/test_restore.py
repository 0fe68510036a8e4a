# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
from unittest import mock

from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import errors
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.lost import LostPorts
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from sriov_rt.vif.restore import Restored
from sriov_rt.vif.restore import Restoring
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

MAC = "02:00:5e:10:00:07"
VF = {"kind": Kind.VF, "mac": MAC, "vlan": 7, "limits": Limits(1000, 2000)}


class ReloadTest(fakes.HostTest):
    """A host whose PF's driver is loaded again."""

    def setUp(self):
        super().setUp()
        self.containers = {}

    def restoring(self):
        """Return what restores ports, as another process would have it."""
        return Restoring(self.another(), self.containers.get)

    def lost(self):
        return [each.port for each in LostPorts(Records(self.directory)).all()]

    def reload(self, *numbers):
        """Let a driver's reload make VFs again, with other interfaces."""
        vfs = [self.host.vf(n) for n in numbers or range(3)]
        for vf in vfs:
            self.host.vanish(vf)
        self.make(*vfs)

    def make(self, *vfs):
        for vf in vfs:
            link = self.host.add(f"enp1s0v{vf.index}", device=vf.address)
            self.host.settings[vf] = fakes.CLEAN
            self.host.inodes[vf.address] = 1000 + link.index

    def port(self, port=PORT):
        return {each.port: each for each in self.plugger.show()}[port]


class RestoreTest(ReloadTest):
    def test_nothing_is_lost(self):
        self.plugger.plug(asked(**VF))
        self.assertEqual((), self.restoring().find())
        self.assertEqual(Restored(), self.restoring().run())

    def test_a_whole_vf_is_plugged_again(self):
        before = self.plugger.plug(asked(**VF))
        self.reload()
        self.assertEqual(State.ABSENT, self.port().state)
        self.assertEqual(Restored((PORT,)), self.restoring().run())
        found = self.port()
        for name in ("interface", "namespace", "mac", "vlan", "state"):
            self.assertEqual(getattr(before, name), getattr(found, name), name)
        self.assertEqual(State.PLUGGED, found.state)
        link = self.host.named("eth1", "box")
        self.assertEqual(Limits(1000, 2000), self.host.limits[link.index])
        self.assertEqual([], self.lost())
        # Its manager plugs it as before, and it is there.
        self.assertEqual(found, self.plugger.plug(asked(**VF)))
        self.assertTrue(self.plugger.unplug(PORT))

    def test_each_kind_on_a_shared_parent(self):
        for kind in (Kind.MACVLAN, Kind.IPVLAN):
            with self.subTest(kind):
                mac = MAC if kind is Kind.MACVLAN else None
                request = asked(kind, mac=mac, addresses=("192.0.2.7/24",))
                before = self.plugger.plug(request)
                self.reload()
                self.assertEqual(Restored((PORT,)), self.restoring().run())
                found = self.port()
                self.assertEqual(before.interface, found.interface)
                if kind is Kind.MACVLAN:
                    self.assertEqual(before.mac, found.mac)
                link = self.host.named("eth1", "box")
                self.assertEqual(
                    ["192.0.2.7/24"], self.host.addresses[link.index]
                )
                self.assertEqual(found, self.plugger.plug(request))
                self.plugger.unplug(PORT)

    def test_a_vf_that_is_not_back_is_tried_again(self):
        self.plugger.plug(asked(**VF))
        vfs = [self.host.vf(n) for n in range(3)]
        for vf in vfs:
            self.host.vanish(vf)
        for _ in range(2):
            ((port, why),) = self.restoring().run().left
            self.assertEqual(PORT, port)
            self.assertIn("no parent", why)
            self.assertEqual([PORT], self.lost())
        self.make(*vfs)
        self.assertEqual(Restored((PORT,)), self.restoring().run())

    def test_a_port_that_another_works_on_is_left(self):
        self.plugger.plug(asked(**VF))
        self.reload()
        plugger = self.another(wait_s=0.01)
        restoring = Restoring(plugger, self.containers.get)
        with Locks(self.directory, 0.0).port(PORT):
            ((port, _),) = restoring.run().left
        self.assertEqual((PORT, []), (port, self.lost()))
        # Nor is it changed by who takes it right after it was plugged.
        plug = plugger.plug
        with contextlib.ExitStack() as stack:

            def plug_and_go(*args):
                made = plug(*args)
                stack.enter_context(Locks(self.directory, 0.0).port(PORT))
                return made

            with mock.patch.object(plugger, "plug", plug_and_go):
                ((port, _),) = restoring.run().left
        self.assertEqual((PORT, [PORT]), (port, self.lost()))
        self.assertEqual((), self.restoring().run().left)
        self.assertEqual([], self.lost())

    def test_a_vf_of_the_same_name_is_not_the_one_of_the_record(self):
        self.plugger.plug(asked(namespace=None, **VF))
        self.reload()
        # It is on the host under its address, and no port has set it.
        self.assertEqual(State.ABSENT, self.port().state)
        other = {**VF, "mac": "02:00:5e:10:00:08"}
        found = self.plugger.plug(
            asked(port=OTHER, namespace="box2", parent="enp1s0v0", **other)
        )
        self.assertEqual("0000:01:10.0", found.vf)
        # What another port has by now is left to it.
        self.assertEqual(Restored((PORT,)), self.restoring().run())
        vfs = {self.port(each).vf for each in (PORT, OTHER)}
        self.assertEqual(2, len(vfs))
        self.assertEqual("box2", self.port(OTHER).namespace)

    def test_a_hidden_interface_is_not_lost(self):
        self.plugger.plug(asked())
        self.host.hide("eth1")
        self.assertEqual((), self.restoring().find())

    def test_a_container_that_has_ended_is_left_to_its_next_start(self):
        self.plugger.plug(asked(**VF))
        self.reload()
        self.host.end_namespace("box")
        self.assertEqual(Restored(), self.restoring().run())

    def test_one_that_ends_before_its_vf_is_back(self):
        self.plugger.plug(asked(**VF))
        vfs = [self.host.vf(n) for n in range(3)]
        for vf in vfs:
            self.host.vanish(vf)
        self.restoring().run()
        self.host.end_namespace("box")
        # Another container has the name.
        self.host.namespace_id("box2")
        self.host.namespaces.add("box")
        self.make(*vfs)
        self.assertEqual(Restored(ended=(PORT,)), self.restoring().run())
        self.assertEqual([], self.lost())

    def test_a_container_of_libvirts(self):
        """Its port was made on the host, and libvirt has moved it."""
        self.plugger.plug(asked(namespace=None, **VF))
        link = self.host.named("eth1")
        self.links.move(link, "pid:4711")
        self.assertEqual((), self.restoring().find())
        self.reload()
        self.containers["me"] = "pid:4711"
        self.assertEqual(Restored((PORT,)), self.restoring().run())
        self.assertIsNotNone(self.host.named("eth1", "pid:4711"))
        # Nova plugs it as before when it starts, and finds it in place.
        made = len(self.host.links)
        self.plugger.plug(asked(namespace=None, **VF))
        self.assertIsNotNone(self.host.named("eth1", "pid:4711"))
        self.assertEqual(made, len(self.host.links))

    def test_the_number_of_a_container_s_process_comes_again(self):
        """By the time that its namespace is open, it is another's."""
        self.plugger.plug(asked(namespace=None, **VF))
        self.links.move(self.host.named("eth1"), "pid:4711")
        self.reload()
        for there in ("pid:4711", "pid:4713"):
            self.host.namespace_id(there)
            self.host.namespaces.add(there)
        found = iter(("pid:4711", "pid:4713"))
        restoring = Restoring(self.another(), lambda _owner: next(found))
        ((port, why),) = restoring.run().left
        self.assertEqual(PORT, port)
        self.assertIn("another process", why)
        self.assertIsNone(self.host.named("eth1", "pid:4711"))
        self.assertEqual([PORT], self.lost())
        self.containers["me"] = "pid:4713"
        self.assertEqual(Restored((PORT,)), self.restoring().run())
        self.assertIsNotNone(self.host.named("eth1", "pid:4713"))

    def test_a_note_of_another_port_or_of_others_is_none(self):
        self.plugger.plug(asked(**VF))
        (record,) = self.plugger._records.all()  # noqa: SLF001
        notes = LostPorts(Records(self.directory))
        notes.put(record)
        path = notes.directory / PORT
        path.chmod(0o666)
        self.assertEqual((), notes.all())
        path.chmod(0o600)
        path.rename(notes.directory / OTHER)
        with self.assertLogs("sriov_rt.vif.lost", "ERROR"):
            self.assertEqual((), notes.all())

    def test_notes_that_cannot_be_read_are_not_none(self):
        notes = LostPorts(Records(self.directory))
        self.assertEqual((), notes.all())
        notes.directory.parent.mkdir(exist_ok=True)
        notes.directory.write_text("")
        with self.assertRaises(errors.RecordsBroken):
            notes.all()
        with self.assertRaises(errors.RecordsBroken):
            self.restoring().find()

    def test_a_driver_that_is_bound_again(self):
        """The VF is the same, its interface another one, on the host."""
        self.plugger.plug(asked(**VF))
        self.host.drop(self.host.named("eth1", "box").index)
        self.host.add("eth9", device=self.host.vf(0).address)
        self.assertEqual(Restored((PORT,)), self.restoring().run())
        self.assertEqual(MAC, self.host.named("eth1", "box").mac)

    def test_one_that_its_manager_has_plugged_otherwise(self):
        self.plugger.plug(asked(**VF))
        (record,) = self.restoring()._host.records.all()  # noqa: SLF001
        LostPorts(Records(self.directory)).put(record)
        self.assertEqual(Restored((PORT,)), self.restoring().run())
        LostPorts(Records(self.directory)).put(record)
        self.plugger.unplug(PORT)
        LostPorts(Records(self.directory)).put(record)
        self.plugger.plug(asked(**{**VF, "vlan": 8}))
        self.assertEqual(Restored(ended=(PORT,)), self.restoring().run())
        self.assertEqual([], self.lost())

    def test_a_guest_of_qemus_is_told_what_to_do(self):
        self.plugger.plug(asked(Kind.MACVTAP, namespace=None, name="tap0"))
        self.reload()
        for _ in range(2):
            found = self.restoring().run()
            ((_, why),) = found.guests
            self.assertEqual(Restored(guests=((PORT, why),)), found)
            self.assertIn("hard-reboot the instance", why)
            # So that the agent reports it.
            self.assertEqual([PORT], self.lost())
        # A hard reboot plugs it, with or without an unplug.
        self.plugger.plug(asked(Kind.MACVTAP, namespace=None, name="tap0"))
        self.assertEqual(Restored(ended=(PORT,)), self.restoring().run())
        self.assertEqual([], self.lost())
        self.assertEqual(Restored(), self.restoring().run())

    def test_an_unplug_ends_it(self):
        self.plugger.plug(asked(**VF))
        for _ in range(3):
            self.host.vanish(self.host.vf(0))
        self.restoring().run()
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertEqual([], self.lost())
        self.assertEqual(Restored(), self.restoring().run())

    def test_an_unplug_between_the_look_and_the_plug(self):
        self.plugger.plug(asked(**VF))
        self.reload()
        first, second = self.restoring(), self.restoring()
        for place in ("_note", "_restore"):
            run = getattr(first, place)

            def unplugged(*record, run=run):
                self.plugger.unplug(PORT)
                run(*record)

            with (
                self.subTest(place),
                mock.patch.object(first, place, unplugged),
            ):
                self.assertEqual(Restored(ended=(PORT,)), first.run())
            self.assertEqual((), self.plugger.show())
            self.assertEqual(Restored(), second.run())
            self.plugger.plug(asked(**VF))
            self.reload()

    def test_kills_at_each_step(self):
        """However often it dies, the port is there again in the end."""
        steps = 0
        for at in range(1, 200):
            self.host.clock.set(None)
            self.plugger.plug(asked(**VF))
            self.reload()
            self.host.clock.set(at)
            try:
                self.restoring().run()
            except fakes.Killed:
                steps += 1
            self.host.clock.set(None)
            with self.subTest(at):
                self.another().recover()
                found = self.restoring().run()
                self.assertEqual((), found.left)
                port = self.port()
                self.assertEqual(
                    (State.PLUGGED, "box", "eth1", MAC, 7),
                    (
                        port.state,
                        port.namespace,
                        port.interface,
                        port.mac,
                        port.vlan,
                    ),
                )
                self.assertEqual([], self.lost())
                self.assertTrue(self.plugger.unplug(PORT))
            if steps < at:
                break
        self.assertGreater(steps, 20)
        self.assertLess(steps, 199)

    def test_a_note_that_is_none_costs_its_port_alone(self):
        self.plugger.plug(asked(**VF))
        self.reload()
        place = self.directory / "lost"
        place.mkdir()
        (place / OTHER).write_bytes(b"{")
        with self.assertLogs("sriov_rt.vif.lost", "ERROR"):
            self.assertEqual(Restored((PORT,)), self.restoring().run())

    def test_a_note_of_another_boot_is_none(self):
        self.plugger.plug(asked(**VF))
        (record,) = self.plugger._records.all()  # noqa: SLF001
        notes = LostPorts(Records(self.directory))
        notes.put(dataclasses.replace(record, boot="another"))
        self.assertEqual((), notes.all())

    def test_a_note_that_cannot_be_written(self):
        self.plugger.plug(asked(**VF))
        self.reload()
        with mock.patch(
            "sriov_rt.files.replace", side_effect=OSError(28, "x")
        ):
            ((port, _),) = self.restoring().run().left
        self.assertEqual(PORT, port)
        self.assertEqual([PORT], [e.port for e in self.plugger.show()])
