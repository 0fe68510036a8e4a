# SPDX-License-Identifier: Apache-2.0

import unittest
from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from sriov_rt.kernel.link import Link
from sriov_rt.request.words import VifKind
from sriov_rt.vif import host_offer
from sriov_rt.vif import parents
from sriov_rt.vif.host_offer import MAX_NETWORKS
from sriov_rt.vif.host_offer import Offer
from sriov_rt.vif.settings import Pools
from sriov_rt.vif.view import View
from tests.unit.nic import fakes as nic_fakes

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=70),
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.text(max_size=70), each, max_size=4)
    ),
    max_leaves=12,
)


def link(name, namespace=None):
    """Return an interface of the host."""
    return Link(
        name=name,
        index=hash(name) % 1000 + 1,
        namespace=namespace,
        kind="",
        mode=None,
        parent=None,
        mac="02:00:00:00:00:01",
        mtu=1500,
        up=True,
        carrier=True,
        alias="",
    )


class FakeLinks:
    """The links of a host, and nothing in other namespaces."""

    def __init__(self, links):
        self.links = links

    def all(self):
        return self.links


class Fixed:
    """VFs that were read before."""

    def __init__(self, states):
        self.list = lambda: states

    def of(self, interface):
        found = (x for x in self.list() if x.netdev == interface)
        return next(found, None)


class ParentsTest(unittest.TestCase):
    def setUp(self):
        self.kernel = nic_fakes.FakeKernel("igb", vfs=4)

    def offer(self, *items, links=(), virt_type="lxc"):
        """Return the offer of a host with enp1s0 and its four VFs."""
        vfs = nic_fakes.vfs(self.kernel).list()
        names = [vf.netdev for vf in vfs if vf.netdev]
        kernel = FakeLinks(list(map(link, (*names, *links))))
        view = View(kernel, Fixed(vfs))
        return parents.offer(view, Pools.parse(items), virt_type)

    def test_interfaces_that_are_there_count(self):
        self.assertEqual(
            {"physnet1": 2, "physnet2": 1},
            self.offer(
                "physnet1:enp1s0v0",
                "physnet1:enp1s0v1",
                "physnet1:enp1s0v9",
                "physnet2:eno1",
                links=["eno1"],
            ).parents,
        )

    def test_a_pf_counts_by_its_vfs_that_are_here(self):
        self.kernel.change_device(3, netdev=None, elsewhere=True)
        found = self.offer("physnet1:pf:enp1s0")
        self.assertEqual(({"physnet1": 3},) * 2, (found.parents, found.vfs))

    def test_a_vf_that_is_named_is_not_counted_with_its_pf(self):
        self.assertEqual(
            {"physnet1": 3, "physnet2": 1},
            self.offer("physnet1:pf:enp1s0", "physnet2:enp1s0v2").parents,
        )

    def test_a_network_without_any_is_not_offered(self):
        self.assertEqual({}, self.offer("physnet1:enp9s0v0").parents)

    def test_vfs_are_counted_apart_and_alone_tag(self):
        found = self.offer(
            "physnet1:enp1s0v0", "physnet1:eno1", "physnet2:eno2",
            links=["eno1", "eno2"],
        )  # fmt: skip
        self.assertEqual({"physnet1": 2, "physnet2": 1}, found.parents)
        self.assertEqual({"physnet1": 1}, found.vfs)
        for network, kind, vlan, expected in (
            ("physnet1", VifKind.MACVLAN, 0, True),
            ("physnet1", VifKind.MACVLAN, 17, True),
            ("physnet1", VifKind.VF, 0, True),
            ("physnet2", VifKind.MACVLAN, 0, True),
            ("physnet2", VifKind.IPVLAN, 0, True),
            ("physnet2", VifKind.MACVLAN, 17, False),
            ("physnet2", VifKind.VF, 0, False),
            ("physnet3", VifKind.MACVLAN, 0, False),
        ):
            with self.subTest(network=network, kind=kind, vlan=vlan):
                self.assertEqual(expected, found.carries(network, kind, vlan))

    def test_a_virtual_machine_has_macvlan_alone(self):
        found = self.offer("physnet1:pf:enp1s0", virt_type="kvm")
        self.assertTrue(found.carries("physnet1", VifKind.MACVLAN, 17))
        for kind in (VifKind.IPVLAN, VifKind.VF):
            self.assertFalse(found.carries("physnet1", kind, 0))


class RefusalTest(unittest.TestCase):
    def test_only_ports_of_servers_are_ours(self):
        port = {"device_owner": "compute:nova", "binding:vnic_type": "normal"}
        self.assertIsNone(host_offer.refusal(port))
        self.assertIsNone(host_offer.refusal({"device_owner": "compute:"}))
        for changes, expected in (
            ({"device_owner": "network:dhcp"}, "network:dhcp"),
            ({"device_owner": "network:router_interface"}, "router"),
            ({"device_owner": "baremetal:none"}, "baremetal"),
            ({"device_owner": "trunk:subport"}, "trunk:subport"),
            ({"device_owner": ""}, "unset"),
            ({"device_owner": None}, "unset"),
            ({"binding:vnic_type": "direct"}, "PCI device"),
            ({"qos_policy_id": "q"}, "QoS policy"),
            ({"qos_network_policy_id": "q"}, "QoS policy"),
            ({"trunk_details": {"trunk_id": "t", "sub_ports": []}}, "trunk"),
        ):
            with self.subTest(changes):
                why = host_offer.refusal({**port, **changes})
                self.assertIn(expected, why)


class CarriedTest(unittest.TestCase):
    """Ports as Neutron's API shows them; tests/functional binds them."""

    OFFER = Offer({"physnet1": 2}, {"physnet1": 1}, frozenset(VifKind))
    PORT: ClassVar = {"device_owner": "compute:nova"}

    def carried(self, network):
        """Return what becomes of a macvlan on a network."""
        return self.OFFER.carried(self.PORT, network, VifKind.MACVLAN)

    def segment(self, physical, vlan):
        """Return a segment of a network."""
        return {
            "provider:physical_network": physical,
            "provider:segmentation_id": vlan,
        }

    def test_a_network_of_one_segment(self):
        found = self.carried(self.segment("physnet1", 7))
        self.assertEqual(("physnet1", 7), found)
        found = self.carried(self.segment("physnet1", None))
        self.assertEqual(("physnet1", 0), found)
        self.assertIsNone(self.carried(self.segment("physnet2", 7)))

    def test_the_first_of_several_that_is_carried(self):
        segments = [
            self.segment(None, 4001),
            self.segment("physnet2", 6),
            self.segment("physnet1", 7),
        ]
        found = self.carried({"segments": segments})
        self.assertEqual(("physnet1", 7), found)

    def test_a_network_that_a_user_sees(self):
        self.assertIsNone(self.carried({"id": "n"}))

    def test_a_port_that_is_none_of_ours(self):
        port = {**self.PORT, "qos_policy_id": "p"}
        network = self.segment("physnet1", 7)
        self.assertIsNone(self.OFFER.carried(port, network, VifKind.MACVLAN))


class OfferTest(unittest.TestCase):
    def test_what_is_reported_is_understood(self):
        offer = Offer(
            {"physnet1": 3, "physnet2": 1},
            {"physnet1": 2},
            frozenset({VifKind.MACVLAN, VifKind.IPVLAN}),
        )
        reported = offer.to_configurations()
        self.assertEqual(
            {
                "parents": {"physnet1": 3, "physnet2": 1},
                "vfs": {"physnet1": 2},
                "kinds": ["ipvlan", "macvlan"],
            },
            reported,
        )
        self.assertEqual(offer, Offer.from_configurations(reported))

    def test_networks_without_parents_are_not_offered(self):
        offer = Offer.from_configurations(
            {"parents": {"physnet1": 0, "physnet2": 2}, "kinds": ["vf"]}
        )
        self.assertEqual({"physnet2": 2}, offer.parents)

    def test_what_is_out_of_the_form_is_passed_over(self):
        offer = Offer.from_configurations(
            {
                "parents": {
                    "a": True,
                    "b": "3",
                    "c d": 1,
                    "e:f": 1,
                    "": 1,
                    "g" * 65: 1,
                    "h": -1,
                    "i": 10**9,
                    "physnet1": 2,
                },
                "kinds": ["vf", "teleport", 7],
            }
        )
        self.assertEqual(
            Offer({"physnet1": 2}, {}, frozenset({VifKind.VF})), offer
        )

    def test_a_flood_of_networks_is_none(self):
        many = {f"physnet{each}": 1 for each in range(MAX_NETWORKS + 1)}
        offer = Offer.from_configurations({"parents": many, "kinds": []})
        self.assertEqual({}, offer.parents)

    @given(PLAIN)
    def test_any_report_is_an_offer(self, reported):
        offer = Offer.from_configurations(reported)
        again = Offer.from_configurations(offer.to_configurations())
        self.assertEqual(offer, again)

    @given(PLAIN, PLAIN)
    def test_any_parents_and_kinds_are_an_offer(self, parents, kinds):
        offer = Offer.from_configurations({"parents": parents, "kinds": kinds})
        self.assertTrue(all(count > 0 for count in offer.parents.values()))
