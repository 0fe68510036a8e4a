# SPDX-License-Identifier: Apache-2.0

"""Parents of quarantined ports: cut off, lifted and released."""

import dataclasses

from sriov_rt.vif import errors
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

PARENT = "enp1s0v0"


class CutOffTest(fakes.HostTest):
    """A port on a VF that was up, whose interface its tenant hides."""

    def setUp(self):
        super().setUp()
        self.plugger.plug(asked(parent=PARENT))

    def hide(self):
        """Hide it, and unplug the port."""
        self.host.hide("eth1")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)

    def up(self):
        return self.host.named(PARENT).up

    def record(self):
        return Records(self.directory).get(PORT)

    def test_its_parent_is_down_until_it_is_released(self):
        self.hide()
        self.assertFalse(self.up())
        self.assertTrue(self.record().lowered)
        self.host.end_namespace("hidden")
        self.assertEqual((), self.plugger.recheck())
        self.assertIsNone(self.record())
        self.assertTrue(self.up())

    def test_its_parent_is_up_when_it_is_forgotten(self):
        self.hide()
        self.plugger.forget(PORT)
        self.assertTrue(self.up())

    def test_another_port_on_it_keeps_it_up_until_that_goes(self):
        self.plugger.plug(asked(port=OTHER, name="eth2", parent=PARENT))
        self.hide()
        self.assertTrue(self.up())
        self.assertFalse(self.record().lowered)
        self.plugger.unplug(OTHER)
        self.assertFalse(self.up())
        self.assertTrue(self.record().lowered)

    def test_two_on_it_are_lifted_with_the_last(self):
        self.plugger.plug(asked(port=OTHER, name="eth2", parent=PARENT))
        self.hide()
        self.host.hide("eth2")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(OTHER)
        self.assertFalse(self.up())
        for port in (PORT, OTHER):
            self.assertFalse(self.up())
            self.plugger.forget(port)
        self.assertTrue(self.up())

    def test_it_is_written_down_before_it_is_done(self):
        self.host.hide("eth1")
        before = []
        tick = self.host.clock.tick

        def noted(call):
            if call.startswith(f"configure {PARENT} up"):
                before.append(self.record().lowered)
            tick(call)

        self.host.clock.tick = noted
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        self.assertEqual([True], before)

    def test_nothing_of_its_parent_is_reset(self):
        self.hide()
        vf = self.host.vf(0)
        dirty = dataclasses.replace(fakes.CLEAN, vlan=7)
        self.host.settings[vf] = dirty
        self.assertEqual((), self.another().recover().cleaned)
        self.assertEqual(dirty, self.host.settings[vf])


class ShowTest(fakes.HostTest):
    def test_one_that_a_container_took_from_the_host_is_shown(self):
        self.plugger.plug(asked(namespace=None))
        self.host.change(
            "eth1", namespace="box", namespace_id=self.host.namespace_id("box")
        )
        (found,) = self.plugger.show()
        self.assertEqual(
            (State.PLUGGED, "box"), (found.state, found.namespace)
        )
        self.host.hide("eth1")
        (found,) = self.plugger.show()
        self.assertEqual(State.ABSENT, found.state)
