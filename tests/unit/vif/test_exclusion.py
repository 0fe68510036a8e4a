# SPDX-License-Identifier: Apache-2.0

"""Each verb waits for whoever holds what it touches, and touches nothing.

No race is run: another holds the lock, and the verb has to be refused.
"""

import contextlib
import dataclasses
import itertools
from unittest import mock

from sriov_rt.kernel import rtnetlink
from sriov_rt.nic.errors import Locked
from sriov_rt.vif.errors import Busy
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from tests.unit.nic import fakes as nic_fakes
from tests.unit.vif import fakes
from tests.unit.vif.fakes import NETWORK
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

PARENT, VF = "enp1s0v0", "0000:01:10.0"
PROBE = f"{rtnetlink.PROBE}0123456789"


class ExclusionTest(fakes.HostTest):
    def setUp(self):
        super().setUp()
        self.plugger = self.another(wait_s=0.01)
        # The wait for a VF is long, and by this clock it takes no time.
        clock = mock.patch.object(
            self.vfs.tenancies, "_clock", nic_fakes.Clock()
        )
        clock.start()
        self.addCleanup(clock.stop)
        self.host.change(PARENT, up=False)

    def held(self, what):
        """Have another process hold a port, a parent, a network or a VF."""
        locks = Locks(self.directory, 0.0)
        return {
            "port": lambda: locks.port(PORT),
            "parent": lambda: locks.parent(PARENT),
            "network": lambda: locks.network(NETWORK),
            "VF": lambda: nic_fakes.locked_by_another(self.vfs.tenancies, VF),
        }[what]()

    def refuses(self, what, act):
        """Check that a verb is refused, and changes nothing on the host."""
        self.host.clock.set(None)
        with self.held(what), self.assertRaises((Busy, Locked)):
            act()
        self.assertEqual([], self.host.clock.calls)

    def test_plug(self):
        for what, kind in itertools.product(
            ("port", "parent", "VF"), (Kind.MACVLAN, Kind.IPVLAN, Kind.VF)
        ):
            with self.subTest(what=what, kind=kind):
                self.refuses(what, lambda: self.plugger.plug(asked(kind)))  # noqa: B023

    def test_plug_of_an_accelerated_port(self):
        request = asked(Kind.IPVLAN, onload=True, network=NETWORK)
        self.refuses("network", lambda: self.plugger.plug(request))

    def test_change_in_place(self):
        self.plugger.plug(asked())
        self.refuses("port", lambda: self.plugger.plug(asked(mtu=1400)))

    def test_unplug(self):
        for kind in (Kind.MACVLAN, Kind.VF):
            with self.subTest(kind=kind):
                self.plugger.plug(asked(kind))
                self.refuses("port", lambda: self.plugger.unplug(PORT))
                self.assertTrue(self.plugger.unplug(PORT))

    def test_unplug_and_who_plugs_on_the_same_parent(self):
        self.plugger.plug(asked())
        with self.held("parent"), self.assertRaises(Busy):
            self.plugger.unplug(PORT)
        self.assertTrue(self.host.named(PARENT).up)
        self.assertEqual((PORT,), self.pending())
        self.assertTrue(self.plugger.unplug(PORT))

    def test_the_last_look_at_a_parent_is_under_its_lock(self):
        """So is what follows from it: it is set down, and its VF reset."""
        self.plugger.plug(asked())
        calls, free = [], []

        def noted(name):
            real = getattr(self.links, name)

            def call(*args, **named):
                calls.append(name)
                with contextlib.suppress(Busy), self.held("parent"):
                    free.append(name)
                return real(*args, **named)

            setattr(self.links, name, call)

        for name in ("idle", "inventory", "configure"):
            noted(name)
        # Something else is on it, so that all of its children are looked for.
        parent = self.host.named(PARENT)
        self.host.add(
            "eth9", kind="macvlan", mode="bridge", parent=parent.index
        )
        self.plugger.unplug(PORT)
        self.host.drop(self.host.named("eth9").index)
        self.plugger.plug(asked())
        self.plugger.unplug(PORT)
        self.assertEqual({"idle", "inventory", "configure"}, {*calls})
        self.assertEqual([], free, "the lock was free meanwhile")
        self.assertFalse(self.host.named(PARENT).up)

    def quarantine(self):
        self.plugger.plug(asked())
        self.host.hide("eth1")
        with (
            self.assertLogs("sriov_rt", "ERROR"),
            contextlib.suppress(Exception),
        ):
            self.plugger.unplug(PORT)
        self.assertFalse(self.host.named(PARENT).up, "it is cut off")

    def test_forget(self):
        self.quarantine()
        for what in ("port", "parent"):
            with self.subTest(what=what):
                self.refuses(what, lambda: self.plugger.forget(PORT))
        self.assertTrue(self.plugger.forget(PORT))

    def test_recheck_leaves_a_port_that_another_works_on(self):
        self.quarantine()
        self.host.end_namespace("hidden")
        for what in ("port", "parent"):
            with self.subTest(what=what), self.held(what):
                self.assertEqual(1, len(self.plugger.recheck()))
        self.assertEqual((), self.plugger.recheck())

    def killed_plug(self):
        self.host.clock.set(8)
        with contextlib.suppress(fakes.Killed):
            self.plugger.plug(asked())
        self.host.clock.set(None)
        self.assertEqual((PORT,), self.pending())

    def test_recover_leaves_a_port_that_another_works_on(self):
        self.killed_plug()
        before = self.host.state()
        with self.held("port"):
            self.assertEqual((PORT,), self.plugger.recover().busy)
        self.assertEqual(before, self.host.state())
        self.assertEqual((PORT,), self.plugger.recover().undone)

    def test_recover_and_who_plugs_on_the_same_parent(self):
        self.killed_plug()
        self.refuses("parent", self.plugger.recover)

    def test_recover_leaves_the_probe_of_who_looks_at_a_parent(self):
        """A killed process has left it, unless somebody has the parent."""
        index = self.host.named(PARENT).index
        self.host.add(
            PROBE, kind="macvlan", mode="passthru", parent=index, up=False
        )
        with self.held("parent"):
            self.plugger.recover()
        self.assertIsNotNone(self.host.named(PROBE))
        self.plugger.recover()
        self.assertIsNone(self.host.named(PROBE))

    def test_the_sweep_leaves_a_vf_that_another_is_about_to_use(self):
        vf = self.host.vf(0)
        self.host.settings[vf] = dataclasses.replace(fakes.CLEAN, vlan=7)
        for what in ("parent", "VF"):
            with self.subTest(what=what), self.held(what):
                self.assertEqual((), self.plugger.recover().cleaned)
                self.assertEqual(7, self.host.settings[vf].vlan)
        self.assertEqual((PARENT,), self.plugger.recover().cleaned)
