# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The judge of use: its truth table, and the observation that it judges."""

import dataclasses
import unittest

from sriov_rt.codec import Unknown
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import use
from sriov_rt.nic.model import NO_MAC
from sriov_rt.nic.model import VfDevice
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfState
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use

#: A use in which one fact is so, by the fact.
ONE = {
    "nothing": Use(driver="iavf"),
    "whole": Use(whole="port p1 of web"),
    "port": Use(ports=("port p1 of web",)),
    "quarantined": Use(quarantined=("port p1 of web (quarantined: x)",)),
    "guest": Use(driver="vfio-pci", guest="instance i1"),
    "guest?": Use(driver="vfio-pci", guest=Unknown("not root")),
    "kept": Use(driver="vfio-pci"),
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
guest         .    x     x       x        x      x     x
guest?        .    x     x       x        x      x     x
kept          .    .     .       .        .      .     x
elsewhere     x    x     x       x        x      x     x
bare          .    .     .       .        x      x     x
on_it         x    x     x       x        x      .     x
unseen        x    x     x       x        x      .     x
up            .    .     .       x        .      .     .
address       .    .     .       x        .      .     .
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
        return use.of(state, **fields)

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
