# SPDX-License-Identifier: Apache-2.0

"""Which parent a port gets, and why none."""

import dataclasses

from sriov_rt.kernel import errors as kernel_errors
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif.model import Kind
from tests.unit.vif import fakes
from tests.unit.vif.fakes import asked

MAC = "02:00:5e:10:00:01"


class ChoiceTest(fakes.HostTest):
    def chosen(self, kind=Kind.MACVLAN, **fields):
        return self.plugger.plan(asked(kind, **fields)).parent

    def refused(self, named, kind=Kind.MACVLAN, **fields):
        with self.assertRaises(named) as caught:
            self.plugger.plan(asked(kind, **fields))
        self.assertIs(named, type(caught.exception))
        return str(caught.exception)

    def child(self, name, parent="enp1s0v0", kind="macvlan", mode="bridge"):
        index = self.host.named(parent).index
        return self.host.add(name, kind=kind, mode=mode, parent=index)

    def set(self, index, **fields):
        vf = self.host.vf(index)
        now = self.host.settings[vf]
        self.host.settings[vf] = dataclasses.replace(now, **fields)

    def only(self, *names):
        self.parents = tuple(f"physnet1:{each}" for each in names)
        self.plugger = self.another()

    def test_the_least_loaded_by_name(self):
        self.assertEqual("enp1s0v0", self.chosen())
        self.child("a0")
        self.assertEqual("enp1s0v1", self.chosen())

    def test_names_sort_as_people_count(self):
        self.only("enp1s0v10", "enp1s0v2")
        self.host.add("enp1s0v10")
        self.assertEqual("enp1s0v2", self.chosen())

    def _rename(self, name, new):
        link = self.host.named(name)
        self.host.links[link.index] = dataclasses.replace(link, name=new)

    def test_a_vf_is_a_member_whatever_its_interface_is_called(self):
        self.only("enp1s0v1")
        self._rename("enp1s0v1", "eth7")
        self.assertEqual("eth7", self.chosen())
        # Its name was given to another, which is in no pool by that.
        self._rename("enp1s0v2", "enp1s0v1")
        self.assertEqual("eth7", self.chosen())
        self.assertEqual("eth7", self.plugger.plug(asked()).parent)

    def test_the_numa_node_comes_before_the_load(self):
        self.host.nodes["0000:01:10.2"] = 1
        self.child("a0", "enp1s0v2")
        self.assertEqual("enp1s0v2", self.chosen(numa_node=1))
        self.assertEqual("enp1s0v0", self.chosen(numa_node=0))

    def test_a_parent_that_is_down_is_set_up(self):
        self.only("enp1s0v0")
        for up in (True, False):
            self.host.change("enp1s0v0", up=up)
            text = "\n".join(self.plugger.plan(asked()).lines())
            self.assertEqual(not up, "set enp1s0v0 up" in text)

    def test_one_without_carrier_comes_last(self):
        self.host.change("enp1s0v0", carrier=False)
        self.assertEqual("enp1s0v1", self.chosen())

    def test_a_parent_carries_one_vlan(self):
        self.child("a0")
        self.child("a1", "enp1s0v1")
        self.set(0, vlan=100)
        self.assertEqual("enp1s0v0", self.chosen(vlan=100, parent="enp1s0v0"))
        text = self.refused(errors.NoParent, vlan=7, parent="enp1s0v0")
        self.assertIn("its VLAN is 100, and 7 is requested", text)
        self.assertEqual("enp1s0v2", self.chosen(vlan=7))

    def test_what_is_no_vf_tags_nothing(self):
        text = self.refused(
            errors.NoParent, physical_network="physnet2", vlan=7
        )
        self.assertIn("no VF that could tag", text)
        self.assertEqual("bond0", self.chosen(physical_network="physnet2"))

    def test_macvlan_and_ipvlan_never_share(self):
        self.only("enp1s0v0")
        for child, kinds in (
            ("macvlan", (Kind.IPVLAN,)),
            ("macvtap", (Kind.IPVLAN,)),
            ("ipvlan", (Kind.MACVLAN, Kind.MACVTAP)),
        ):
            mode = "l2" if child == "ipvlan" else "bridge"
            link = self.child("a0", kind=child, mode=mode)
            for kind in kinds:
                with self.subTest(child=child, kind=kind):
                    text = self.refused(kernel_errors.ParentTaken, kind)
                    self.assertIn("exclude each other", text)
            self.host.drop(link.index)

    def test_ipvlans_of_a_parent_have_one_mode(self):
        self.only("enp1s0v0")
        self.child("a0", kind="ipvlan", mode="l3")
        text = self.refused(kernel_errors.ParentTaken, Kind.IPVLAN)
        self.assertIn("its ipvlans are l3", text)
        self.assertEqual("enp1s0v0", self.chosen(Kind.IPVLAN, mode="l3"))

    def test_passthru_has_its_parent_to_itself(self):
        self.only("enp1s0v0")
        link = self.child("a0")
        self.refused(kernel_errors.ParentTaken, mode="passthru")
        self.host.drop(link.index)
        self.assertEqual("enp1s0v0", self.chosen(mode="passthru"))
        self.child("a1", mode="passthru")
        # It may be somebody else's, which 'vif show' does not list.
        text = self.refused(kernel_errors.ParentTaken)
        self.assertIn("a1 has it to itself", text)
        self.assertIn("'ip -d link'", text)

    def test_filters_are_counted_before_the_nic_drops(self):
        self.only("enp1s0v0")
        for number in range(3):
            self.assertEqual("enp1s0v0", self.chosen())
            self.child(f"a{number}")
        text = self.refused(errors.BudgetExceeded)
        self.assertIn("3 of them", text)
        self.host.budget = None
        self.assertEqual("enp1s0v0", self.chosen())

    def test_ipvlans_need_no_filter(self):
        self.only("enp1s0v0")
        for number in range(9):
            self.child(f"a{number}", kind="ipvlan", mode="l2")
        self.assertEqual("enp1s0v0", self.chosen(Kind.IPVLAN))

    def test_an_mtu_is_its_parents_at_most(self):
        text = self.refused(errors.NoParent, mtu=9000, parent="enp1s0v0")
        self.assertIn("its MTU is 1500, and 9000 is requested", text)
        self.host.change("enp1s0v2", mtu=9000)
        self.assertEqual("enp1s0v2", self.chosen(mtu=9000))

    def test_a_vf_with_an_administrative_mac_is_trusted(self):
        self.only("enp1s0v0")
        self.set(0, mac=MAC)
        plan = self.plugger.plan(asked())
        self.assertTrue(plan.settings.trust)
        self.assertIsNone(plan.settings.mac)
        self.assertIn("trust on", "\n".join(plan.lines()))
        for want in (
            asked(Kind.IPVLAN),
            asked(mode="passthru"),
        ):
            self.assertIsNone(self.plugger.plan(want).settings)
        self.assertTrue(
            self.plugger.plan(asked(mode="passthru", mac=MAC)).settings.trust
        )

    def test_or_refused(self):
        self.only("enp1s0v0")
        self.set(0, mac=MAC)
        self.plugger = self.another(allow_trust=False)
        self.refused(errors.TrustNeeded)
        self.set(0, trust=True)
        self.assertEqual("enp1s0v0", self.chosen())

    def test_a_vf_of_no_pool_is_not_trusted_by_us(self):
        self.only("bond0")
        self.set(0, mac=MAC)
        self.refused(
            errors.TrustNeeded, physical_network=None, parent="enp1s0v0"
        )

    def test_a_second_child_changes_nothing_for_the_first(self):
        self.child("a0")
        self.set(0, vlan=100)
        plan = self.plugger.plan(asked(vlan=100, parent="enp1s0v0"))
        self.assertIsNone(plan.settings)

    def test_a_second_child_gets_the_trust_that_its_mac_needs(self):
        self.only("enp1s0v0")
        self.child("a0")
        self.set(0, mac=MAC, vlan=100, spoofchk=False)
        settings = self.plugger.plan(asked(vlan=100)).settings
        # And nothing else, which would hurt the first.
        self.assertEqual(VfSettings(trust=True), settings)
        self.set(0, trust=True)
        self.assertIsNone(self.plugger.plan(asked(vlan=100)).settings)

    def test_the_first_child_finds_its_parent_clean(self):
        self.only("enp1s0v0")
        self.set(0, vlan=100, trust=True, spoofchk=False, max_tx_rate=50)
        settings = self.plugger.plan(asked()).settings
        self.assertEqual(
            (0, False, True, 0),
            (
                settings.vlan,
                settings.trust,
                settings.spoofchk,
                settings.max_tx_rate,
            ),
        )

    def test_a_whole_vf_is_one_that_nothing_uses(self):
        self.child("a0")
        # A tenant can have left any alias.
        self.host.change("enp1s0v1", alias="uplink of the host")
        self.assertEqual("enp1s0v1", self.chosen(Kind.VF))
        self.refused(kernel_errors.ParentTaken, Kind.VF, parent="enp1s0v0")
        self.refused(
            errors.NoParent, Kind.VF, physical_network=None, parent="bond0"
        )

    def test_a_ports_vf_is_no_parent(self):
        self.only("enp1s0v0")
        self.plugger.plug(
            asked(Kind.VF, port=fakes.OTHER, namespace=None, name="e0")
        )
        link = self.host.named("e0")
        renamed = dataclasses.replace(link, name="enp1s0v0")
        self.host.links[link.index] = renamed
        self.assertIn(fakes.OTHER, self.refused(kernel_errors.ParentTaken))

    def test_a_vf_with_a_quarantined_port_is_handed_out_to_nobody(self):
        self.only("enp1s0v0")
        self.plugger.plug(asked(Kind.MACVLAN))
        self.host.hide("eth1")
        with self.assertRaises(errors.Quarantined):
            self.plugger.unplug(fakes.PORT)
        text = self.refused(
            kernel_errors.ParentTaken, Kind.VF, port=fakes.OTHER
        )
        self.assertIn(f"port {fakes.PORT} on it is quarantined", text)

    def test_a_guest_takes_thirty_two_vfs(self):
        self.host.add_pf("enp2s0", vfs=32)
        self.only("pf:enp1s0", "pf:enp2s0")
        for number in range(32):
            self.plugger.plug(
                asked(
                    Kind.VF,
                    port=fakes.port(number),
                    name=f"e{number}",
                    parent=f"enp2s0v{number}",
                )
            )
        text = self.refused(errors.TooManyVfs, Kind.VF)
        self.assertIn("32 VFs", text)
        self.assertEqual("enp1s0v0", self.chosen(Kind.VF, owner="you"))
        self.assertEqual("enp1s0v0", self.chosen(Kind.MACVLAN))

    def test_all_reasons_are_told(self):
        self.child("a0", kind="ipvlan", mode="l2")
        self.child("a1", "enp1s0v1", mode="passthru")
        for number in range(3):
            self.child(f"b{number}", "enp1s0v2")
        text = self.refused(errors.NoParent)
        self.assertIn("enp1s0v0: ipvlan a0 and macvlan exclude", text)
        self.assertIn("enp1s0v1: a1 has it to itself", text)
        self.assertIn("enp1s0v2: 3 of them", text)

    def test_reasons_of_one_kind_keep_their_name(self):
        for index in range(3):
            self.child(f"a{index}", f"enp1s0v{index}", "ipvlan", "l2")
        self.refused(kernel_errors.ParentTaken)

    def test_a_network_without_parents(self):
        text = self.refused(errors.NoParent, physical_network="physnet9")
        self.assertIn("physnet9", text)
        self.only("eth77")
        self.assertIn("no interface", self.refused(errors.NoParent))

    def test_a_parent_is_of_its_network(self):
        with self.assertRaises(ParseError):
            self.plugger.plan(asked(parent="bond0"))
        self.refused(kernel_errors.NoSuchLink, parent="eth77")

    def test_a_vf_that_is_named_itself_is_not_of_its_pfs_pool(self):
        self.parents = ("physnet1:pf:enp1s0", "physnet2:enp1s0v0")
        self.plugger = self.another()
        self.assertEqual("enp1s0v1", self.chosen())
        self.assertEqual("enp1s0v0", self.chosen(physical_network="physnet2"))
