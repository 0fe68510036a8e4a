# SPDX-License-Identifier: Apache-2.0

"""Parents after their last port: as we found them, and nobody's taken."""

import dataclasses

from sriov_rt.kernel import errors
from sriov_rt.vif import alias
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import Killed
from tests.unit.vif.fakes import asked

PARENT = "enp1s0v0"
THEIRS = "uplink of the backup host"


class ParentTest(fakes.HostTest):
    """One VF, which is down, is the parent of all."""

    parents = (f"physnet1:{PARENT}", "physnet2:bond0", "physnet3:enp1s0")

    def setUp(self):
        super().setUp()
        self.host.change(PARENT, up=False)
        self.before = self.host.state()

    def parent(self):
        return self.host.named(PARENT)

    def second(self, **fields):
        return asked(port=OTHER, name="eth2", **fields)

    def test_it_is_up_until_its_last_port_has_gone(self):
        self.plugger.plug(asked())
        self.plugger.plug(self.second())
        self.plugger.unplug(PORT)
        self.assertTrue(self.parent().up)
        self.assertEqual(alias.PARENT, self.parent().alias)
        self.plugger.unplug(OTHER)
        self.assertFalse(self.parent().up)
        self.assertEqual("", self.parent().alias)

    def test_all_namespaces_are_looked_at_once(self):
        """Before it is set down: no port is quarantined on it besides."""
        self.plugger.plug(asked())
        self.links.looks = 0
        self.plugger.unplug(PORT)
        self.assertEqual(1, self.links.looks)
        self.assertFalse(self.parent().up)

    def test_one_in_passthru_mode_leaves_it_down(self):
        self.plugger.plug(asked(mode="passthru", mac="02:00:5e:10:00:01"))
        self.assertTrue(self.parent().up)
        self.plugger.unplug(PORT)
        self.assertFalse(self.parent().up)

    def test_one_that_was_up_stays_up(self):
        self.host.change(PARENT, up=True)
        before = self.host.state()
        self.plugger.plug(asked(vlan=7))
        self.assertEqual("", self.parent().alias)
        self.plugger.unplug(PORT)
        self.assertEqual(before, self.host.state())

    def test_one_with_an_alias_of_the_operators_stays_up(self):
        self.host.change(PARENT, alias=THEIRS)
        self.plugger.plug(asked())
        self.plugger.unplug(PORT)
        self.assertEqual(THEIRS, self.parent().alias)
        self.assertTrue(self.parent().up)

    def test_what_is_no_vf_stays_up(self):
        for network, name in (("physnet2", "bond0"), ("physnet3", "enp1s0")):
            with self.subTest(name):
                self.host.change(name, up=False)
                self.plugger.plug(asked(physical_network=network))
                self.plugger.unplug(PORT)
                self.another().recover()
                self.assertTrue(self.host.named(name).up)
                self.assertEqual("", self.host.named(name).alias)

    def test_a_vf_of_no_pool_is_down_again(self):
        self.host.change("enp1s0v1", up=False)
        before = self.host.state()
        self.plugger.plug(asked(physical_network=None, parent="enp1s0v1"))
        self.plugger.unplug(PORT)
        self.assertEqual(before, self.host.state())

    def test_a_lost_lock_file_loses_nothing(self):
        self.plugger.plug(asked(vlan=7))
        (self.directory / "lock").unlink()
        self.another().unplug(PORT)
        self.assertEqual(self.before, self.host.state())

    def test_a_namespace_that_went_leaves_it_to_who_looks(self):
        for look in (
            lambda: self.plugger.unplug(PORT),
            lambda: self.another().recover(),
        ):
            self.host.namespaces.add("box")
            self.plugger.plug(asked())
            self.host.end_namespace("box")
            self.assertTrue(self.parent().up)
            look()
            self.assertEqual(self.before, self.host.state())

    def test_somebody_elses_interface_keeps_it_up(self):
        self.plugger.plug(asked())
        theirs = self.host.add(
            "web0", namespace="box2", kind="vlan", parent=self.parent().index
        )
        self.plugger.unplug(PORT)
        self.assertEqual((), self.another().recover().cleaned)
        self.assertTrue(self.parent().up)
        self.host.drop(theirs.index)
        self.assertEqual((PARENT,), self.another().recover().cleaned)
        self.assertEqual(self.before, self.host.state())

    def test_an_address_or_a_bridge_keeps_it_up(self):
        self.plugger.plug(asked())
        index = self.parent().index
        self.host.addresses[index] = ["192.0.2.7/24"]
        self.plugger.unplug(PORT)
        self.assertTrue(self.parent().up)
        self.host.addresses.clear()
        self.host.change(PARENT, master=99)
        self.assertEqual((), self.another().recover().cleaned)
        self.assertTrue(self.parent().up)
        self.host.change(PARENT, master=None)
        self.another().recover()
        self.assertEqual(self.before, self.host.state())

    def test_a_port_that_comes_meanwhile_keeps_it_up(self):
        self.plugger.plug(asked())
        tick = self.host.clock.tick

        def plugged_then(call):
            tick(call)
            if call == "deleted eth1":
                self.another().plug(self.second())

        self.host.clock.tick = plugged_then
        self.plugger.unplug(PORT)
        self.assertTrue(self.parent().up)
        self.another().unplug(OTHER)
        self.assertEqual(self.before, self.host.state())

    def test_a_process_that_works_on_it_keeps_it_up(self):
        self.plugger.plug(asked())
        self.host.end_namespace("box")
        with Locks(self.directory, 0.2).parent(PARENT):
            self.assertEqual((), self.plugger.recover().cleaned)
        self.assertTrue(self.parent().up)

    def test_a_kernel_that_refuses_is_asked_again(self):
        self.plugger.plug(asked())
        # The six before are the entry's, the removal's and the step's.
        self.host.clock.set(7, errors.NotPermitted(PARENT))
        with self.assertRaises(errors.NotPermitted):
            self.plugger.unplug(PORT)
        self.assertIn(f"configure {PARENT} up alias", self.host.clock.calls)
        self.host.clock.set(None)
        self.assertEqual((PORT,), self.pending())
        self.assertEqual((PORT,), self.another().recover().finished)
        self.assertEqual(self.before, self.host.state())

    def test_one_left_up_can_be_a_port_itself(self):
        for number in range(1, 200):
            self.setUp()
            self.plugger.plug(asked())
            self.host.end_namespace("box")
            self.host.namespaces.add("box")
            self.host.clock.set(number)
            try:
                self.plugger.plug(self.second(kind=Kind.VF))
                break
            except Killed:
                self.host.clock.set(None)
            self.another().recover()
            self.another().unplug(OTHER)
            with self.subTest(at=number):
                self.assertEqual(self.before, self.host.state())
        self.assertGreater(number, 20)
        link = self.host.named("eth2", "box")
        self.assertEqual(f"sriov-rt:{OTHER}:me:{PARENT}", link.alias)

    def test_a_dirty_one_is_clean_and_down(self):
        dirty = dataclasses.replace(fakes.CLEAN, vlan=5)
        self.plugger.plug(asked())
        self.host.end_namespace("box")
        self.host.settings[self.host.vf(0)] = dirty
        self.assertEqual((PORT,), self.another().recover().released)
        self.assertEqual(self.before, self.host.state())
