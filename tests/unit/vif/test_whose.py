# SPDX-License-Identifier: Apache-2.0

"""Ports and VFs of others: pods, VMIs, domains, and what was done by hand."""

import dataclasses
import threading
from unittest import mock

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.nic import errors as nic_errors
from sriov_rt.nic import use
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind as Holding
from sriov_rt.nic.tenancy import State as Held
from sriov_rt.nic.use import Act
from sriov_rt.vif import errors
from sriov_rt.vif import tenants
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

VF = "0000:01:10.0"
HOLDINGS = (Holding.POD, Holding.VMI, Holding.DOMAIN, Holding.PORT)
KINDS = (Kind.VF, Kind.MACVLAN, Kind.IPVLAN)


def held(kind, state=Held.IN_USE, reason=""):
    return Holder(kind, "c1/net1", "team/web-0", state, reason)


class WhoseTest(fakes.HostTest):
    def plugs(self, kind, **fields):
        return self.plugger.plug(asked(kind, parent="enp1s0v0", **fields))

    def refused(self, kind, **fields):
        with self.assertRaises(kernel_errors.LinkError) as caught:
            self.plugs(kind, **fields)
        return str(caught.exception)

    def hold(self, *args):
        self.vfs.tenancies.assign(VF, held(*args))


class TakenTest(WhoseTest):
    def test_no_port_on_a_vf_that_somebody_holds_or_left_dirty(self):
        for holding in HOLDINGS:
            for state in Held:
                self.hold(holding, state, "a macvlan is on it")
                before = self.host.state()
                for kind in KINDS:
                    with self.subTest(holding, state=state, kind=kind):
                        said = self.refused(kind)
                        self.assertIn(f"{holding} team/web-0", said)
                        if state is Held.QUARANTINED:
                            self.assertIn(f"'sriov-rt vf reset {VF}'", said)
                self.assertEqual(before, self.host.state())
                self.vfs.tenancies.release(VF, holding)
        self.plugs(Kind.VF)

    def test_a_damaged_file_keeps_it_from_everybody(self):
        self.hold(Holding.POD)
        (self.vfs.tenancies.directory / VF).write_text("x")
        for kind in KINDS:
            self.assertIn("somebody unknown", self.refused(kind))

    def test_a_pool_has_another(self):
        self.hold(Holding.POD)
        for number, kind in enumerate((Kind.VF, Kind.MACVLAN)):
            port = fakes.port(number)
            found = self.plugger.plug(
                asked(kind, port=port, name=f"p{number}")
            )
            self.assertNotEqual(VF, found.vf)

    def test_a_pod_that_was_quicker_keeps_the_vf(self):
        def locked(*args):
            # It has had the lock, and has gone on.
            patched.stop()
            self.hold(Holding.POD)
            return self.vfs.tenancies.locked(*args)

        patched = mock.patch.object(self.vfs.tenancies, "locked", locked)
        patched.start()
        self.assertIn("pod team/web-0", self.refused(Kind.VF))
        self.assertEqual((), self.plugger.show())

    def test_a_plug_holds_the_vf_until_it_is_written_down(self):
        tried = []

        def meanwhile(call):
            if call.startswith("move"):
                thread = threading.Thread(target=another)
                thread.start()
                thread.join()

        def another():
            try:
                with self.vfs.tenancies.locked(VF, 0.0):
                    tried.append("taken")
            except nic_errors.Locked:
                tried.append("locked")

        tick = self.host.clock.tick
        self.host.clock.tick = lambda call: (meanwhile(call), tick(call))
        self.plugs(Kind.VF)
        self.assertEqual(["locked"], tried)

    def test_a_plug_that_was_killed_is_seen_by_others(self):
        for kind in KINDS:
            self.host.clock.set(12)
            with self.assertRaises(fakes.Killed):
                self.plugs(kind)
            self.host.clock.set(None)
            found = tenants.uses_among(
                self.vfs.list(), Records(self.directory).every(), self.links
            )
            why = use.why_not(found[VF], Act.HAND_OUT)
            self.assertIn(PORT, str(why), kind)
            self.another().recover()

    def test_recover_leaves_a_pods_vf_alone(self):
        """Between sriov-cni's VLAN and the move of its interface."""
        vf = self.host.vf(0)
        set_ = dataclasses.replace(fakes.CLEAN, vlan=100)
        for holding in HOLDINGS:
            for state in Held:
                self.hold(holding, state)
                self.host.settings[vf] = set_
                self.assertEqual((), self.another().recover().cleaned)
                self.assertEqual(100, self.host.settings[vf].vlan)
                self.vfs.tenancies.release(VF, holding)
        self.assertEqual(("enp1s0v0",), self.another().recover().cleaned)

    def test_recover_waits_for_nobody_who_gives_a_vf_out(self):
        self.host.settings[self.host.vf(0)] = dataclasses.replace(
            fakes.CLEAN, vlan=100
        )
        done = []
        with self.vfs.tenancies.locked(VF):
            thread = threading.Thread(
                target=lambda: done.append(self.another().recover().cleaned)
            )
            thread.start()
            thread.join()
        self.assertEqual([()], done)


class FirstTest(WhoseTest):
    """The first port of a parent, and of a VF."""

    def hide_one(self):
        self.host.add(
            "mv0",
            namespace="box2",
            kind="macvlan",
            mode="bridge",
            parent=self.host.named("enp1s0v0").index,
        )
        self.host.hide("mv0")

    def test_what_is_hidden_on_it_keeps_every_first_port_off(self):
        self.hide_one()
        before = self.host.state()
        for kind in KINDS:
            for vlan in (0, 5):
                with self.subTest(kind=kind, vlan=vlan):
                    said = self.refused(kind, vlan=vlan)
                    self.assertIn("something that cannot be seen", said)
        self.assertEqual(before, self.host.state())
        self.assertEqual((), self.pending())

    def test_what_a_look_finds_on_it_keeps_every_first_port_off(self):
        index = self.host.named("enp1s0v0").index
        self.host.add(
            "mv0",
            namespace="box2",
            kind="macvlan",
            mode="bridge",
            parent=index,
        )
        for kind in (Kind.MACVLAN, Kind.VF):
            for vlan in (0, 5):
                self.assertIn("mv0", self.refused(kind, vlan=vlan))
        self.assertEqual((), self.pending())

    def test_a_pool_has_another_for_them(self):
        self.hide_one()
        for number, kind in enumerate((Kind.MACVLAN, Kind.VF, Kind.VF)):
            port = fakes.port(number)
            words = asked(kind, port=port, name=port[:8])
            if number < 2:
                self.assertNotEqual(VF, self.plugger.plug(words).vf)
                continue
            with self.assertRaises(kernel_errors.ParentTaken) as caught:
                self.plugger.plug(words)
            self.assertIn("cannot be seen", str(caught.exception))

    def test_an_address_keeps_it_from_being_handed_out_whole(self):
        link = self.host.named("enp1s0v0")
        self.host.addresses[link.index] = ["192.0.2.1/24"]
        self.assertIn("has an address", self.refused(Kind.VF))

    def test_its_driver_is_bound_again_once(self):
        for number in (1, 2):
            self.plugger.plug(
                asked(
                    port=fakes.port(number),
                    parent="enp1s0v0",
                    name=f"p{number}",
                )
            )
        self.assertEqual([self.host.vf(0)], self.vfs.renewed)
        for number in (1, 2):
            self.plugger.unplug(fakes.port(number))
        self.plugs(Kind.MACVLAN)
        self.assertEqual([self.host.vf(0)], self.vfs.renewed)

    def test_it_keeps_what_the_operator_chose_for_it(self):
        self.host.change("enp1s0v0", mtu=9000, up=True)
        self.plugs(Kind.MACVLAN)
        link = self.host.named("enp1s0v0")
        self.assertEqual((9000, True), (link.mtu, link.up))

    def test_what_is_somebodys_is_not_bound_again(self):
        link = self.host.named("enp1s0v0")
        self.host.addresses[link.index] = ["192.0.2.1/24"]
        self.plugs(Kind.MACVLAN)
        self.plugger.unplug(PORT)
        self.host.addresses.clear()
        self.host.change("enp1s0v0", alias="the operator's")
        self.plugs(Kind.MACVLAN)
        self.assertEqual([], self.vfs.renewed)

    def test_a_whole_vf_is_bound_again_each_time(self):
        for _ in range(2):
            resets = self.vfs.resets
            old = self.host.named("enp1s0v0").index
            self.plugs(Kind.VF)
            self.assertEqual(resets + 1, self.vfs.resets)
            self.assertNotIn(old, self.host.links)
            self.plugger.unplug(PORT)


class DriftTest(WhoseTest):
    def drift(self, **settings):
        vf = self.host.vf(0)
        now = self.host.settings[vf]
        self.host.settings[vf] = dataclasses.replace(now, **settings)

    def test_a_vlan_that_was_changed_keeps_every_further_port_off(self):
        self.plugs(Kind.MACVLAN, vlan=100)
        self.drift(vlan=200)
        (shown,) = self.plugger.show()
        self.assertIs(State.DRIFTED, shown.state)
        self.assertIn("its vlan is 200 and not 100", shown.reason)
        self.assertIn("'ip link set enp1s0 vf 0 vlan 100'", shown.reason)
        for vlan in (100, 200):
            said = self.refused(
                Kind.MACVLAN, port=OTHER, name="eth2", vlan=vlan
            )
            self.assertIn("its vlan is 200 and not 100", said)
        self.drift(vlan=100)
        self.assertIs(State.PLUGGED, self.plugger.show()[0].state)
        self.plugs(Kind.MACVLAN, port=OTHER, name="eth2", vlan=100)

    def test_mac_trust_and_spoofchk_likewise(self):
        for kind in (Kind.VF, Kind.IPVLAN):
            self.plugs(kind)
            for name, value in (
                ("mac", "02:66:66:66:66:66"),
                ("trust", True),
                ("spoofchk", False),
            ):
                before = getattr(self.host.settings[self.host.vf(0)], name)
                self.drift(**{name: value})
                (shown,) = self.plugger.show()
                with self.subTest(name, kind=kind):
                    self.assertIs(State.DRIFTED, shown.state)
                    self.assertIn(f"its {name} is {value}", shown.reason)
                    self.refused(kind, port=OTHER, name="eth2")
                self.drift(**{name: before})
            self.plugger.unplug(PORT)

    def test_trust_that_a_later_port_needed_is_no_drift(self):
        self.host.settings[self.host.vf(0)] = dataclasses.replace(
            fakes.CLEAN, mac="02:00:00:00:00:aa"
        )
        self.plugs(Kind.IPVLAN, mode="l2")
        self.plugger.unplug(PORT)
        self.plugs(Kind.MACVLAN)
        self.plugs(Kind.MACVLAN, port=OTHER, name="eth2")
        self.plugger.unplug(OTHER)
        self.assertIs(State.PLUGGED, self.plugger.show()[0].state)

    def test_a_port_that_has_drifted_is_unplugged_as_any(self):
        for kind in KINDS:
            self.plugs(kind, vlan=100)
            self.drift(vlan=200)
            self.assertTrue(self.plugger.unplug(PORT))
            self.assertEqual(fakes.CLEAN, self.host.settings[self.host.vf(0)])
            self.plugs(kind)
            self.assertIs(State.PLUGGED, self.plugger.show()[0].state)
            self.plugger.unplug(PORT)


class MadeAgainTest(WhoseTest):
    """sriov_numvfs 0 and 3 by hand, under ports."""

    def remake(self, namespace=None):
        vf = self.host.vf(0)
        settings = dict(self.host.settings)
        self.host.vanish(vf)
        self.host.settings = {vf: fakes.CLEAN, **settings}
        self.host.inodes[VF] = 777
        self.host.add("new0", device=VF, namespace=namespace)

    def test_the_new_vf_of_the_address_stays_where_it_is(self):
        self.plugs(Kind.VF, vlan=100)
        self.remake("box2")
        self.host.settings[self.host.vf(0)] = dataclasses.replace(
            fakes.CLEAN, vlan=7
        )
        before = self.host.state()
        self.assertEqual((), self.plugger.recover().failed)
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertEqual(before, self.host.state())
        self.assertEqual((), self.plugger.show())

    def test_a_port_of_the_old_one_keeps_nobody_off_the_new(self):
        self.plugs(Kind.VF)
        self.remake()
        found = self.plugger.plug(
            asked(Kind.VF, port=OTHER, parent="new0", name="eth2")
        )
        self.assertEqual(VF, found.vf)
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertIsNotNone(self.host.named("eth2", "box"))

    def test_plugged_again_it_gets_a_vf_of_its_own(self):
        self.plugs(Kind.VF)
        self.remake("box2")
        found = self.plugger.plug(asked(Kind.VF))
        self.assertNotEqual(VF, found.vf)
        self.assertIsNotNone(self.host.named("new0", "box2"))

    def test_a_subinterface_of_the_old_one_is_gone(self):
        self.plugs(Kind.MACVLAN)
        self.remake()
        self.plugger.unplug(PORT)
        self.assertEqual((), self.plugger.show())


class SentenceTest(WhoseTest):
    def test_a_vf_that_was_bound_to_vfio_by_hand(self):
        self.plugs(Kind.VF)
        vf = self.host.vf(0)
        link = self.host.named("eth1", "box")
        self.host.drop(link.index)
        self.vfs.on_vfio.add(vf)
        with self.assertRaises(errors.Quarantined) as caught:
            self.plugger.unplug(PORT)
        said = str(caught.exception)
        self.assertIn("was bound to vfio-pci", said)
        self.assertIn("/sys/bus/pci/drivers/vfio-pci/unbind", said)
        self.assertNotIn("end the container", said)
        self.vfs.on_vfio.clear()
        self.vfs.unbound.add(vf)
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertEqual((), self.plugger.show())

    def test_a_parent_that_was_moved_is_told_with_its_place(self):
        self.plugs(Kind.MACVLAN)
        link = self.host.named("enp1s0v0")
        self.host.links[link.index] = dataclasses.replace(
            link,
            name="taken0",
            namespace="box2",
            namespace_id=self.host.namespace_id("box2"),
        )
        self.host.drop(self.host.named("eth1", "box").index)
        with self.assertRaises(errors.Quarantined) as caught:
            self.plugger.unplug(PORT)
        self.assertIn(
            "its parent enp1s0v0 was moved to box2, where it is taken0; move"
            " it back",
            str(caught.exception),
        )

    def test_a_stray_on_a_vf_of_ours_cuts_off_the_quarantined(self):
        self.plugs(Kind.MACVLAN)
        self.host.add(
            "mv0",
            namespace="box2",
            kind="macvlan",
            mode="bridge",
            parent=self.host.named("enp1s0v0").index,
        )
        self.host.hide("eth1")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        self.assertFalse(self.host.named("enp1s0v0").up)
