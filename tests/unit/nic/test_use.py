# SPDX-License-Identifier: Apache-2.0

"""The judge of use: its truth table, and the observation that it judges."""

import dataclasses
import itertools
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import use
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.tenancy import Tenancy
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use

#: A use in which one fact is so, by the fact.
ONE = {
    "nothing": Use(driver="iavf"),
    "whole": Use(whole="port p1 of web"),
    "port": Use(ports=("port p1 of web",)),
    "quarantined": Use(quarantined=("port p1 of web (quarantined: x)",)),
    "pod": Use(holders=("pod team/web-0 has it (in use)",)),
    "of guest": Use(guests=("VMI realtime/rt has it (preparing)",)),
    "kept": Use(kept=("it is quarantined for pod team/web-0: x",)),
    "drifted": Use(drifted=("its vlan is 200 and not 100",)),
    "guest": Use(driver="vfio-pci", guest="instance i1"),
    "guest?": Use(driver="vfio-pci", guest=Unknown("not root")),
    "on vfio": Use(driver="vfio-pci"),
    "elsewhere": Use(driver="iavf", elsewhere=True),
    "bare": Use(driver="iavf", bare=True),
    "on it": Use(on=("macvlan mv0 in red",)),
    "unseen": Use(unseen=True),
    "up": Use(up="enp1s0v0"),
    "address": Use(addressed="enp1s0v0"),
    "MAC": Use(mac="52:54:00:00:00:01"),
}

#: Which acts a fact forbids (x) and does not (.).
TABLE = """
fact         set bind reset provision hand_out share clean
nothing       .    .     .       .        .      .     .
whole         x    x     x       x        x      x     x
port          x    x     x       x        x      .     x
quarantined   x    x     x       x        x      x     x
pod           x    x     x       x        x      x     x
of_guest      .    x     .       x        x      x     x
kept          x    x     .       x        x      x     x
drifted       .    .     .       .        x      x     .
guest         .    x     x       x        x      x     x
guest?        .    x     x       x        x      x     x
on_vfio       .    .     .       .        .      .     x
elsewhere     x    x     x       x        x      x     x
bare          .    .     .       .        x      x     x
on_it         x    x     x       x        x      .     x
unseen        x    x     x       x        x      x     x
up            .    .     .       x        .      .     .
address       .    .     .       x        x      .     .
MAC           .    .     .       .        .      .     x
"""


class TableTest(unittest.TestCase):
    def test_each_fact_and_act(self):
        head, *rows = TABLE.strip().splitlines()
        acts = [Act(each.replace("_", " ")) for each in head.split()[1:]]
        self.assertEqual(set(Act), set(acts))
        seen = []
        for row in rows:
            name, *marks = row.split()
            fact = name.replace("_", " ")
            seen.append(fact)
            for act, mark in zip(acts, marks, strict=True):
                with self.subTest(fact=fact, act=act):
                    found = use.why_not(ONE[fact], act)
                    self.assertEqual(mark == "x", bool(found), found)
        self.assertEqual(list(ONE), seen)

    def test_each_row_of_the_rules_is_one_fact_of_the_table(self):
        for rule in use.RULES:
            with self.subTest(rule.fact):
                self.assertTrue(any(map(rule.clauses, ONE.values())))

    def test_it_names_everybody(self):
        found = use.why_not(
            dataclasses.replace(
                ONE["port"], quarantined=("port p2 of db",), on=("br0",)
            ),
            Act.RESET,
        )
        self.assertEqual(("port p1 of web", "port p2 of db", "br0"), found)


#: Which acts of somebody else's a holder forbids, by its state.
HOLDERS = """
holder          state        set bind reset provision hand_out share clean
pod             preparing     x    x     x       x        x      x     x
pod             in_use        x    x     x       x        x      x     x
pod             leaving       x    x     x       x        x      x     x
pod             quarantined   x    x     .       x        x      x     x
VMI             preparing     .    x     .       x        x      x     x
VMI             in_use        .    x     .       x        x      x     x
VMI             leaving       .    x     .       x        x      x     x
VMI             quarantined   x    x     .       x        x      x     x
libvirt_domain  preparing     .    x     .       x        x      x     x
libvirt_domain  in_use        .    x     .       x        x      x     x
libvirt_domain  leaving       .    x     .       x        x      x     x
libvirt_domain  quarantined   x    x     .       x        x      x     x
Neutron_port    preparing     .    x     .       x        x      x     x
Neutron_port    in_use        .    x     .       x        x      x     x
Neutron_port    leaving       .    x     .       x        x      x     x
Neutron_port    quarantined   x    x     .       x        x      x     x
somebody_unknown quarantined  x    x     .       x        x      x     x
"""


class HoldersTest(unittest.TestCase):
    def state(self, *holders, **fields) -> VfState:
        return VfState(
            id=VfId("enp1s0", 0, "0000:01:10.0"),
            family="i40e",
            driver="iavf",
            netdev="enp1s0v0",
            alias="",
            iommu_group=None,
            numa_node=None,
            settings=VfSettings(vlan=200),
            mac_budget=None,
            device=VfDevice("iavf", netdev="enp1s0v0"),
            tenancy=Tenancy("0000:01:10.0", 1, holders, **fields),
        )

    def test_each_holder_state_and_act(self):
        head, *rows = HOLDERS.strip().splitlines()
        acts = [Act(each.replace("_", " ")) for each in head.split()[2:]]
        seen = set()
        for row in rows:
            kind, state, *marks = row.split()
            holder = Holder(
                Kind(kind.replace("_", " ")),
                "h1",
                "team/web-0",
                State(state.replace("_", " ")),
            )
            seen.add((holder.kind, holder.state))
            for act, mark in zip(acts, marks, strict=True):
                with self.subTest(holder=holder, act=act):
                    found = use.why_not(use.of(self.state(holder)), act)
                    self.assertEqual(mark == "x", bool(found), found)
                    self.assertTrue(all("team/web-0" in f for f in found))
                    own = use.of(self.state(holder), holder.kind)
                    self.assertEqual((), use.why_not(own, act))
        held = set(Kind) - {Kind.UNKNOWN, Kind.WHOLE, Kind.PARENT}
        expected = set(itertools.product(held, State))
        expected.add((Kind.UNKNOWN, State.QUARANTINED))
        self.assertEqual(expected, seen)

    def test_who_is_asked_for_says_what_ends_it(self):
        for kind in (Kind.POD, Kind.VMI, Kind.DOMAIN, Kind.PORT):
            holder = Holder(kind, "h1").quarantined("it is dirty")
            (found,) = use.why_not(use.of(self.state(holder)), Act.HAND_OUT)
            self.assertIn(f"quarantined for {kind} h1: it is dirty", found)
            self.assertIn("'sriov-rt vf reset 0000:01:10.0'", found)


class ObservationTest(unittest.TestCase):
    def use(self, device=None, mac=NO_MAC, **fields) -> Use:
        device = device or VfDevice("iavf", netdev="enp1s0v0")
        state = VfState(
            id=VfId("enp1s0", 0, "0000:01:10.0"),
            family="i40e",
            driver=device.driver,
            netdev=device.netdev,
            alias="sriov-rt:p1:web",
            iommu_group=None,
            numa_node=None,
            settings=VfSettings(mac=mac),
            mac_budget=None,
            device=device,
        )
        return use.shown(state, **fields)

    def test_an_idle_vf(self):
        self.assertEqual(Use(driver="iavf"), self.use())

    def test_an_alias_proves_nothing(self):
        for act in Act:
            self.assertEqual((), use.why_not(self.use(), act))

    def test_what_the_vf_itself_shows(self):
        found = self.use(
            VfDevice("iavf", netdev="e0", up=True, uppers=("br0", "mv0")),
            mac="52:54:00:00:00:01",
            addressed=True,
        )
        self.assertEqual(("br0, mv0 on e0",), found.on)
        self.assertEqual(("e0", "e0"), (found.up, found.addressed))
        self.assertEqual("52:54:00:00:00:01", found.mac)

    def test_a_vf_without_an_interface(self):
        for device, elsewhere, bare in (
            (VfDevice("iavf"), False, True),
            (VfDevice("iavf", elsewhere=True), True, False),
            (VfDevice("vfio-pci"), False, False),
            (VfDevice(None), False, False),
        ):
            with self.subTest(device=device):
                found = self.use(device)
                self.assertEqual(
                    (elsewhere, bare), (found.elsewhere, found.bare)
                )
