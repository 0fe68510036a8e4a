# SPDX-License-Identifier: Apache-2.0

"""Ports on a host of memory: made, found, removed, left alone."""

import contextlib
import dataclasses
import errno
import os
from concurrent import futures
from unittest import mock

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.tc import Limits
from sriov_rt.vif import errors
from sriov_rt.vif import host
from sriov_rt.vif import plugger
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.model import Kind
from sriov_rt.vif.model import State
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import PORT
from tests.unit.vif.fakes import asked

MAC = "02:00:5e:10:00:01"


class PlugTest(fakes.HostTest):
    def test_a_macvlan(self):
        found = self.plugger.plug(
            asked(
                mac=MAC,
                vlan=100,
                mtu=1400,
                addresses=("192.0.2.1/24",),
                limits=Limits(1000),
            )
        )
        link = self.host.named("eth1", "box")
        self.assertEqual(
            ("macvlan", "bridge", MAC, 1400, True, f"sriov-rt:{PORT}:me"),
            (
                link.kind,
                link.mode,
                link.mac,
                link.mtu,
                link.up,
                link.alias,
            ),
        )
        self.assertEqual({link.index: ["192.0.2.1/24"]}, self.host.addresses)
        self.assertEqual({link.index: Limits(1000)}, self.host.limits)
        self.assertEqual(["eth1"], self.host.announced)
        vf = self.host.vf(0)
        self.assertEqual(100, self.host.settings[vf].vlan)
        self.assertEqual(
            ("enp1s0v0", "0000:01:10.0", 100, "box"),
            (found.parent, found.vf, found.vlan, found.namespace),
        )
        self.assertEqual((found,), self.plugger.show())

    def test_what_it_offers(self):
        found = self.plugger.offer("kvm")
        self.assertEqual({"physnet1": 3, "physnet2": 1}, found.parents)
        self.assertEqual({"physnet1": 3}, found.vfs)
        self.assertEqual({"macvlan"}, found.kinds)

    def test_a_whole_vf(self):
        self.host.settings[self.host.vf(0)] = dataclasses.replace(
            fakes.CLEAN, trust=True, vlan=7
        )
        found = self.plugger.plug(asked(Kind.VF, vlan=100))
        link = self.host.named("eth1", "box")
        self.assertEqual("0000:01:10.0", link.device)
        self.assertEqual(f"sriov-rt:{PORT}:me:enp1s0v0", link.alias)
        settings = self.host.settings[self.host.vf(0)]
        self.assertEqual((100, False), (settings.vlan, settings.trust))
        self.assertEqual(link.mac, settings.mac)
        self.assertTrue(link.mac.startswith("02:"))
        self.assertEqual(
            ("enp1s0", "0000:01:10.0", None),
            (found.parent, found.vf, found.mode),
        )
        self.assertEqual((found,), self.plugger.show())
        self.assertTrue(self.plugger.unplug(PORT))
        back = self.host.named("enp1s0v0")
        self.assertEqual(("", False), (back.alias, back.up))
        self.assertNotEqual(link.mac, back.mac)
        self.assertEqual(fakes.CLEAN, self.host.settings[self.host.vf(0)])

    def test_a_vf_without_a_mac_keeps_the_one_of_its_port(self):
        macs = set()
        for _ in range(2):
            macs.add(self.plugger.plug(asked(Kind.VF)).mac)
            self.plugger.unplug(PORT)
        other = self.plugger.plug(asked(Kind.VF, port=OTHER)).mac
        self.assertEqual(1, len(macs))
        self.assertNotIn(other, macs)

    def test_a_macvtap_has_a_tap(self):
        found = self.plugger.plug(asked(Kind.MACVTAP, namespace=None))
        link = self.host.named("eth1")
        self.assertEqual(f"/dev/tap{link.index}", found.tap)

    def test_a_passthru_gets_its_mac_when_it_is_there(self):
        found = self.plugger.plug(asked(mode="passthru", mac=MAC))
        self.assertEqual(MAC, found.mac)

    def test_the_same_port_again_is_what_is_there(self):
        first = self.plugger.plug(asked())
        before = self.host.state()
        self.assertEqual(first, self.plugger.plug(asked()))
        self.assertEqual(first, self.plugger.plug(asked(parent="enp1s0v0")))
        self.assertEqual(before, self.host.state())

    def test_one_of_the_host_is_where_it_was_moved_to(self):
        first = self.plugger.plug(asked(namespace=None))
        link = self.host.named("eth1")
        self.host.links[link.index] = dataclasses.replace(
            link, namespace="box", namespace_id=self.host.namespace_id("box")
        )
        before = self.host.state()
        again = self.plugger.plug(asked(namespace=None))
        self.assertEqual("box", again.namespace)
        self.assertEqual(first.mac, again.mac)
        self.assertEqual(before, self.host.state())

    def test_the_same_port_in_another_namespace(self):
        for kind in (Kind.MACVLAN, Kind.VF):
            self.plugger.plug(asked(kind))
            self.plugger.plug(asked(kind, namespace="box2"))
            self.assertIsNone(self.host.named("eth1", "box"))
            self.assertIsNotNone(self.host.named("eth1", "box2"))
            self.assertTrue(self.plugger.unplug(PORT))

    def test_mtu_and_rates_are_changed_in_place(self):
        self.plugger.plug(asked())
        self.plugger.plug(asked(mtu=1400, limits=Limits(1000)))
        link = self.host.named("eth1", "box")
        self.assertEqual(1400, link.mtu)
        self.assertEqual({link.index: Limits(1000)}, self.host.limits)

    def test_the_same_port_as_something_else(self):
        self.plugger.plug(asked())
        for want in (
            asked(Kind.MACVTAP),
            asked(mode="private"),
            asked(owner="you"),
            asked(name="eth2"),
            asked(mac="02:00:5e:10:00:09"),
            asked(vlan=9),
            asked(addresses=("192.0.2.9/24",)),
            asked(onload=True, network=fakes.NETWORK),
            asked(physical_network="physnet2"),
        ):
            with self.assertRaises(errors.AlreadyPlugged):
                self.plugger.plug(want)
        with self.assertRaises(errors.AlreadyPlugged):
            self.plugger.plan(asked())

    def test_a_plan_touches_nothing(self):
        before = self.host.state()
        plan = self.plugger.plan(
            asked(vlan=5, mac=MAC, addresses=("192.0.2.1/24",))
        )
        self.assertEqual(
            [
                "set of enp1s0/0: vlan 5",
                "make macvlan bridge eth1 on enp1s0v0 in box",
                f"alias sriov-rt:{PORT}:me",
                f"MAC {MAC}",
                "address 192.0.2.1/24",
                "set eth1 up and announce it",
            ],
            list(plan.lines()),
        )
        self.assertEqual(before, self.host.state())
        self.assertEqual(0, self.host.clock.count)
        self.assertFalse(self.directory.exists())

    def test_a_name_that_another_has(self):
        self.host.add("eth1", namespace="box")
        with self.assertRaises(kernel_errors.NameTaken):
            self.plugger.plug(asked())
        self.plugger.plug(asked(name="eth2"))
        with self.assertRaises(errors.NotOurs) as caught:
            self.plugger.plug(asked(port=OTHER, name="eth2"))
        self.assertIn(PORT, str(caught.exception))

    def test_a_full_disk_touches_nothing(self):
        before = self.host.state()
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with (
            mock.patch("os.write", side_effect=full),
            self.assertRaises(errors.RecordsFull) as caught,
        ):
            self.plugger.plug(asked(vlan=5))
        self.assertIn("nothing was changed", str(caught.exception))
        self.assertEqual(before, self.host.state())
        self.assertEqual((), self.pending())

    def test_a_full_disk_keeps_nobody_from_unplugging(self):
        before = self.host.state()
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for kind in (Kind.MACVLAN, Kind.VF):
            self.plugger.plug(asked(kind, vlan=5))
            with (
                mock.patch("os.write", side_effect=full),
                self.assertLogs("sriov_rt.vif", "WARNING"),
            ):
                self.assertTrue(self.plugger.unplug(PORT))
        self.host.change("enp1s0v0", up=True)
        self.assertEqual(before, self.host.state())

    def test_a_record_that_is_not_written_undoes_its_plug(self):
        before = self.host.state()
        stuck = OSError(errno.EROFS, os.strerror(errno.EROFS))
        broken = errors.RecordsBroken(str(self.directory), detail="read-only")
        with (
            mock.patch("os.unlink", side_effect=stuck),
            mock.patch.object(fakes.FakeRecords, "put", side_effect=broken),
            self.assertLogs("sriov_rt.vif", "WARNING"),
            self.assertRaises(errors.RecordsBroken),
        ):
            self.plugger.plug(asked())
        self.assertEqual(before, self.host.state())
        self.assertEqual((PORT,), self.another().recover().undone)

    def test_no_carrier_is_no_error(self):
        self.host.carrier = False
        with self.assertLogs("sriov_rt.vif", "WARNING") as logs:
            self.plugger.plug(asked())
        self.assertIn("no carrier", logs.output[0])
        self.assertEqual([], self.host.announced)

    def test_a_vf_that_carried_macvlans_is_no_tenants_own(self):
        self.vfs.keeps_filters = True
        marked = []
        create = self.links.create
        self.links.create = lambda what: (
            marked.append(self.vfs.marks.copy()),
            create(what),
        )[1]
        self.plugger.plug(asked(parent="enp1s0v0"))
        # Noted before the macvlan is there, not after.
        self.assertEqual([{self.host.vf(0)}], marked)
        self.plugger.unplug(PORT)
        want = asked(Kind.VF, parent="enp1s0v0")
        with self.assertRaises(errors.NoParent) as caught:
            self.plugger.plug(want)
        self.assertIn("VFs are made again", str(caught.exception))
        # It is as good a parent as before, and another VF is whole.
        self.plugger.plug(asked(port=OTHER, parent="enp1s0v0"))
        found = self.plugger.plug(asked(Kind.VF, name="eth7"))
        self.assertEqual(self.host.vf(1).address, found.vf)
        self.plugger.plug(
            asked(Kind.IPVLAN, port=fakes.port(9), parent="enp1s0v2",
                  name="eth8")
        )  # fmt: skip
        self.assertEqual({self.host.vf(0)}, self.vfs.marks)

    def test_many_at_once_get_all_the_parents_there_are(self):
        wants = [
            asked(port=fakes.port(number), name=f"e{number}", mode="passthru")
            for number in range(6)
        ]
        self.plugger = self.another(wait_s=30)

        def plug(want):
            with contextlib.suppress(kernel_errors.LinkError):
                return self.plugger.plug(want).parent
            return None

        with futures.ThreadPoolExecutor(6) as pool:
            parents = list(pool.map(plug, wants))
        self.assertEqual(
            ["enp1s0v0", "enp1s0v1", "enp1s0v2"],
            sorted(each for each in parents if each),
        )
        self.assertEqual((), self.pending())

    def test_a_parent_that_cannot_be_used_is_named_after_all_tries(self):
        # Listed, but gone for whoever uses it; nobody else is at work.
        def gone(what):
            raise kernel_errors.NoSuchLink(what.parent)

        self.links.create = gone
        with self.assertRaises(kernel_errors.NoSuchLink) as caught:
            self.plugger.plug(asked())
        self.assertIn("enp1s0v0: no such interface", str(caught.exception))
        self.assertEqual((), self.pending())


class CheckTest(fakes.HostTest):
    """What a move is refused for before the port leaves where it is."""

    def test_nothing_is_made(self):
        before = self.host.state()
        self.plugger.check(asked(parent="enp1s0v0"))
        self.assertEqual(before, self.host.state())
        self.assertEqual((), self.plugger.show())
        self.assertEqual((), self.pending())

    def test_what_a_plug_is_refused_for(self):
        self.plugger.plug(asked(vlan=9, parent="enp1s0v0"))
        want = asked(port=OTHER, name="eth2", vlan=10, parent="enp1s0v0")
        with self.assertRaises(errors.NoParent) as checked:
            self.plugger.check(want)
        with self.assertRaises(errors.NoParent) as plugged:
            self.plugger.plug(want)
        self.assertEqual(str(plugged.exception), str(checked.exception))

    def test_one_that_is_plugged_already(self):
        self.plugger.plug(asked(Kind.VF, parent="enp1s0v0"))
        self.plugger.check(asked(Kind.VF, parent="enp1s0v0"))

    def test_what_has_gone_meanwhile_is_in_nobodys_way(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        self.host.hide("eth1")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        with self.assertRaises(kernel_errors.ParentTaken):
            self.plugger.check(asked(port=OTHER, parent="enp1s0v0"))
        self.host.end_namespace("hidden")
        self.plugger.check(asked(port=OTHER, parent="enp1s0v0"))


class AwayTest(fakes.HostTest):
    def test_links_of_a_vf_are_set_away_from_its_pfs_cpu(self):
        inside = []

        @contextlib.contextmanager
        def away(vf):
            inside.append(vf)
            calls = len(self.host.clock.calls)
            yield
            done = [each.split()[0] for each in self.host.clock.calls[calls:]]
            self.assertTrue({"create", "delete", "move"} & set(done), done)

        self.plugger = self.another(away=away)
        for kind, network, vf in (
            (Kind.MACVLAN, "physnet1", self.host.vf(0)),
            (Kind.VF, "physnet1", self.host.vf(0)),
            (Kind.MACVLAN, "physnet2", None),
        ):
            self.plugger.plug(asked(kind, physical_network=network))
            self.plugger.unplug(PORT)
            self.assertEqual([vf, vf], inside)
            inside.clear()

    def test_a_pf_that_is_not_there_keeps_nobody_away(self):
        with host.away(self.host.vf(0)), host.away(None):
            pass


class UnplugTest(fakes.HostTest):
    def test_what_is_gone_is_unplugged(self):
        self.assertFalse(self.plugger.unplug(PORT))

    def test_a_lost_lock_file_loses_nothing(self):
        before = self.host.state()
        for kind in Kind:
            self.plugger.plug(asked(kind, vlan=9))
            for each in self.directory.iterdir():
                if each.is_file():
                    each.unlink()
            self.assertTrue(self.another().unplug(PORT))
            self.host.change("enp1s0v0", up=True)
            self.assertEqual(before, self.host.state())

    def test_an_interface_that_is_nowhere_is_quarantined(self):
        for kind in (Kind.MACVLAN, Kind.VF):
            self.setUp()
            before = self.host.state()
            self.plugger.plug(asked(kind, vlan=9, parent="enp1s0v0"))
            taken = self.host.settings[self.host.vf(0)]
            self.host.hide("eth1")
            with self.assertRaises(errors.Quarantined):
                self.plugger.unplug(PORT)
            (found,) = self.plugger.show()
            self.assertEqual(State.QUARANTINED, found.state)
            self.assertEqual(taken, self.host.settings[self.host.vf(0)])
            self.assertEqual((), self.pending())
            with self.assertRaises(kernel_errors.LinkError):
                self.plugger.plug(asked(port=OTHER, parent="enp1s0v0"))
            self.host.end_namespace("hidden")
            self.assertEqual((PORT,), self.another().recover().released)
            self.host.change("enp1s0v0", up=True)
            self.assertEqual(before, self.host.state())

    def test_a_vf_whose_pf_keeps_filters_is_quarantined(self):
        self.plugger.plug(asked(Kind.VF, parent="enp1s0v0"))
        self.vfs.filters_remain = True
        with self.assertRaisesRegex(errors.Quarantined, "keeps its filters"):
            self.plugger.unplug(PORT)
        (found,) = self.plugger.show()
        self.assertEqual(State.QUARANTINED, found.state)
        with self.assertRaises(kernel_errors.LinkError):
            self.plugger.plug(asked(port=OTHER, parent="enp1s0v0"))
        # Its VFs were made again.
        self.vfs.filters_remain = False
        self.assertEqual((PORT,), self.plugger.recover().released)

    def test_a_vf_is_not_gone_because_its_pf_cannot_be_seen(self):
        for kind in (Kind.MACVLAN, Kind.VF):
            with self.subTest(kind):
                self.setUp()
                self.plugger.plug(asked(kind, parent="enp1s0v0"))
                self.host.hide("eth1")
                if kind == Kind.MACVLAN:
                    self.host.hide("enp1s0v0")
                self.host.lost_pfs.add("enp1s0")
                with self.assertRaises(errors.Quarantined):
                    self.plugger.unplug(PORT)
                self.assertEqual((), self.another().recover().released)
                (found,) = self.plugger.show()
                self.assertEqual(State.QUARANTINED, found.state)
                self.host.lost_pfs.clear()
                self.host.end_namespace("hidden")
                self.assertEqual((PORT,), self.another().recover().released)

    def test_as_many_interfaces_as_a_tenant_likes_damage_no_record(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        parent = self.host.named("enp1s0v0").index
        self.host.hide("eth1")
        for number in range(2000):
            self.host.add(
                f"decoy{number:010}",
                namespace="box2",
                kind="macvlan",
                parent=parent,
            )
        with self.assertRaisesRegex(errors.Quarantined, "253 more"):
            self.plugger.unplug(PORT)
        (found,) = self.plugger.show()
        self.assertEqual(State.QUARANTINED, found.state)
        self.assertNotIn("damaged", found.reason)
        self.assertLess(len(found.reason), 1000)

    def test_a_vf_whose_function_is_not_reset_is_quarantined(self):
        self.plugger.plug(asked(Kind.VF, parent="enp1s0v0"))
        self.vfs.function_hangs = True
        with self.assertRaisesRegex(errors.Quarantined, "see dmesg"):
            self.plugger.unplug(PORT)
        (found,) = self.plugger.show()
        self.assertEqual(State.QUARANTINED, found.state)
        with self.assertRaisesRegex(
            kernel_errors.ParentTaken, f"port {PORT} on it is quarantined"
        ):
            self.plugger.plug(asked(port=OTHER, parent="enp1s0v0"))
        self.vfs.function_hangs = False
        self.assertEqual((PORT,), self.plugger.recover().released)

    def test_what_is_quarantined_can_be_forgotten(self):
        self.plugger.plug(asked(parent="enp1s0v0"))
        with self.assertRaises(errors.NotForgotten):
            self.plugger.forget(PORT)
        self.host.hide("eth1")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(PORT)
        self.assertTrue(self.plugger.forget(PORT))
        self.assertFalse(self.plugger.forget(PORT))
        self.assertEqual((), self.plugger.show())

    def test_the_last_child_takes_its_parents_settings_along(self):
        self.parents = ("physnet1:enp1s0v0",)
        self.plugger = self.another()
        self.plugger.plug(asked(vlan=100))
        self.plugger.plug(asked(port=OTHER, name="eth2", vlan=100))
        self.plugger.unplug(PORT)
        vf = self.host.vf(0)
        self.assertEqual(100, self.host.settings[vf].vlan)
        self.plugger.unplug(OTHER)
        self.assertEqual(fakes.CLEAN, self.host.settings[vf])

    def test_the_namespace_went_first(self):
        before = self.host.state()
        self.plugger.plug(asked(vlan=100))
        self.plugger.plug(asked(Kind.VF, port=OTHER, name="eth2"))
        self.host.end_namespace("box")
        # The macvlan went along, and its parent still has its VLAN.
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertTrue(self.plugger.unplug(OTHER))
        self.host.change("enp1s0v1", up=True)
        self.assertEqual(before, self.host.state())

    def test_a_vf_of_no_pool_that_was_a_parent_is_left(self):
        self.parents = ("physnet2:bond0",)
        self.plugger = self.another()
        vf = self.host.vf(0)
        self.host.settings[vf] = dataclasses.replace(fakes.CLEAN, vlan=5)
        before = self.host.state()
        self.plugger.plug(
            asked(physical_network=None, parent="enp1s0v0", vlan=5)
        )
        self.plugger.unplug(PORT)
        self.assertEqual(before, self.host.state())

    def test_a_vf_comes_home_under_its_name(self):
        self.plugger.plug(asked(Kind.VF))
        self.host.add("enp1s0v0")
        self.plugger.unplug(PORT)
        # Another has it meanwhile; it is not left unusable for that.
        self.assertEqual("", self.host.named("srtb3f2e1d0-11").alias)

    def test_a_moved_vf_has_the_mtu_of_its_pf(self):
        self.plugger.plug(asked(Kind.VF, mtu=1300))
        self.plugger.unplug(PORT)
        self.assertEqual(1500, self.host.named("enp1s0v0").mtu)

    def test_a_tenant_may_call_it_what_it_likes(self):
        before = self.host.state()
        for kind in (Kind.MACVLAN, Kind.VF):
            self.plugger.plug(asked(kind))
            link = self.host.named("eth1", "box")
            self.host.links[link.index] = dataclasses.replace(
                link, name="%s é"
            )
            self.host.clock.set(4)
            with self.assertRaises(fakes.Killed):
                self.plugger.unplug(PORT)
            self.host.clock.set(None)
            self.assertEqual((PORT,), self.another().recover().finished)
        self.host.change("enp1s0v0", up=True)
        self.assertEqual(before, self.host.state())

    def test_a_forged_alias_of_another_device_is_not_believed(self):
        whose = str(Alias(PORT, "me", "enp1s0v0"))
        self.host.add("dummy", namespace="box2", alias=whose, device="x")
        self.host.add(
            "up", namespace="box2", kind="macvlan", parent=999, alias=whose
        )
        self.assertEqual((), self.plugger.show())
        before = self.host.state()
        self.assertFalse(self.plugger.unplug(PORT))
        self.assertEqual(before, self.host.state())

    def test_a_forged_alias_keeps_no_vf_from_its_host(self):
        self.plugger.plug(asked(Kind.VF))
        forged = self.host.add(
            "up",
            namespace="box2",
            kind="macvlan",
            mode="bridge",
            parent=self.host.named("enp1s0v2").index,
            alias=str(Alias(PORT, "you", "enp1s0v1")),
        )
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertIsNone(self.host.named("enp1s0v0").namespace)
        # It is somebody's: nobody has asked for it to go.
        self.assertEqual(forged, self.host.links[forged.index])

    def test_a_namespace_that_goes_while_its_port_is_unplugged(self):
        for error in (
            kernel_errors.NoSuchNamespace("box"),
            kernel_errors.NoSuchLink("e"),
        ):
            self.setUp()
            before = self.host.state()
            self.plugger.plug(asked(Kind.VF))
            real = self.links.limit

            def limit(link, limits, real=real, error=error):
                self.links.limit = real
                self.host.end_namespace("box")
                raise error

            self.links.limit = limit
            self.assertTrue(self.plugger.unplug(PORT))
            self.assertEqual((), self.pending())
            self.host.change("enp1s0v0", up=True)
            self.assertEqual(before, self.host.state())

    def test_a_port_that_does_not_stop_moving(self):
        self.plugger.plug(asked(Kind.VF))
        gone = kernel_errors.NoSuchLink("eth1")
        with (
            mock.patch.object(self.links, "limit", side_effect=gone),
            self.assertRaises(kernel_errors.NoSuchLink),
        ):
            self.plugger.unplug(PORT)
        self.assertEqual((PORT,), self.pending())
        self.assertEqual((PORT,), self.another().recover().finished)


class ShowTest(fakes.HostTest):
    def test_ports_by_their_records(self):
        self.assertEqual((), self.plugger.show())
        self.plugger.plug(asked(vlan=3))
        self.plugger.plug(asked(Kind.IPVLAN, port=OTHER, name="eth2"))
        first, second = self.another().show()
        self.assertEqual(
            (PORT, "macvlan", 3), (first.port, first.kind, first.vlan)
        )
        self.assertEqual(
            (OTHER, "ipvlan", "l2"), (second.port, second.kind, second.mode)
        )

    def test_nothing_is_written(self):
        self.plugger.show()
        self.assertFalse(self.directory.exists())

    def test_one_that_is_not_where_it_was_plugged(self):
        self.plugger.plug(asked())
        self.host.drop(self.host.named("eth1", "box").index)
        (found,) = self.plugger.show()
        self.assertEqual((PORT, State.ABSENT), (found.port, found.state))


class ContainerTest(fakes.HostTest):
    """A service in a container that has process ids of its own."""

    def setUp(self):
        super().setUp()
        self.sees = mock.patch.object(
            plugger.container, "sees_host_processes", return_value=False
        )

    def test_a_port_of_a_process_is_refused(self):
        before = self.host.state()
        want = asked(namespace="pid:4242")
        for act in (self.plugger.plug, self.plugger.plan, self.plugger.check):
            with (
                self.sees,
                self.assertRaises(errors.ProcessUnseen) as caught,
            ):
                act(want)
        self.assertEqual(before, self.host.state())
        self.assertIn("pid:4242", str(caught.exception))
        self.assertIn("--pid=host", str(caught.exception))

    def test_a_port_of_a_name_or_of_the_host_is_not(self):
        for port, place in ((PORT, "box"), (OTHER, None)):
            with self.sees:
                found = self.plugger.plug(asked(port=port, namespace=place))
            self.assertEqual(place, found.namespace)
