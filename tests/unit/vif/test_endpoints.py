# SPDX-License-Identifier: Apache-2.0

"""One accelerated instance of a network on a NIC."""

import dataclasses
import threading
import time

from sriov_rt.parse.errors import ParseError
from sriov_rt.vif import errors
from sriov_rt.vif import vif_facts
from sriov_rt.vif.alias import Alias
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.model import Kind
from sriov_rt.vif.records import Records
from tests.unit.vif import fakes
from tests.unit.vif.fakes import NETWORK

ANOTHER = "a2f2e1d0-1111-4222-8333-444455556666"


class EndpointTest(fakes.HostTest):
    """A host with two PFs of three VFs on physnet1."""

    parents = ("physnet1:pf:enp1s0", "physnet1:pf:enp2s0", "physnet2:bond0")

    def setUp(self):
        super().setUp()
        self.host.add_pf("enp2s0")

    def want(self, number, **fields):
        return fakes.asked(
            port=fakes.port(number),
            **{
                "owner": f"guest-{number}",
                "name": f"eth{number}",
                "network": NETWORK,
                "onload": True,
                **fields,
            },
        )

    def plug(self, number, **fields):
        return self.plugger.plug(self.want(number, **fields))

    def refused(self, number, **fields):
        before = self.host.state()
        with self.assertRaises(errors.SpreadNeeded) as caught:
            self.plug(number, **fields)
        self.assertEqual(before, self.host.state())
        self.assertEqual((), self.pending())
        return str(caught.exception)

    def nics(self):
        found = vif_facts.accelerated(Records(self.directory).all())
        return [(each.nic, each.instance) for each in found]


class SpreadTest(EndpointTest):
    def test_a_nic_has_one_instance_of_a_network(self):
        first = self.plug(1)
        self.assertEqual((True, NETWORK), (first.accelerated, first.network))
        self.assertEqual("enp1s0v0", first.parent)
        # enp1s0v1 is as idle, and of the same NIC.
        self.assertEqual("enp2s0v0", self.plug(2).parent)
        text = self.refused(3)
        for each in (
            "physnet1: onload_same_host",
            "enp1s0: it has one",
            "enp2s0: it has one",
        ):
            self.assertIn(each, text)
        self.assertEqual(
            [("enp1s0", "guest-1"), ("enp2s0", "guest-2")], self.nics()
        )

    def test_another_network_has_its_own(self):
        self.plug(1)
        self.assertEqual("enp1s0v1", self.plug(2, network=ANOTHER).parent)

    def test_plain_ports_are_no_bodys_concern(self):
        self.plug(1, parent="enp1s0v0")
        self.plug(2, onload=False, parent="enp1s0v0")
        self.plug(3, onload=False, network=None, parent="enp1s0v1")
        self.assertEqual([("enp1s0", "guest-1")], self.nics())

    def test_ports_of_one_instance_may_share(self):
        self.plug(1, parent="enp1s0v0")
        self.plug(2, owner="guest-1", parent="enp1s0v0")

    def test_kinds_are_alike(self):
        self.plug(1, kind=Kind.VF, parent="enp1s0v0")
        self.assertEqual([("enp1s0", "guest-1")], self.nics())
        for kind in (Kind.MACVLAN, Kind.IPVLAN, Kind.VF):
            self.refused(2, kind=kind, parent="enp1s0v1")

    def test_a_parent_that_is_no_vf_is_its_own_nic(self):
        fields = {"physical_network": "physnet2"}
        self.plug(1, **fields)
        self.assertIn("bond0: onload_same_host", self.refused(2, **fields))

    def test_the_place_is_free_again_when_it_goes(self):
        self.plug(1, parent="enp1s0v0")
        self.plugger.unplug(fakes.port(1))
        self.assertEqual("enp1s0v0", self.plug(2).parent)

    def test_a_lost_lock_loses_nobody(self):
        self.plug(1, parent="enp1s0v0")
        (self.directory / "lock").unlink()
        self.plugger = self.another()
        self.refused(2, parent="enp1s0v1")

    def test_what_is_there_is_told_as_it_is(self):
        made = self.plug(1)
        self.assertEqual(made, self.plug(1))
        self.assertEqual((made,), self.plugger.show())

    def test_an_alias_on_nothing_of_the_host_counts_for_nobody(self):
        self.host.add(
            "eth9",
            namespace="box",
            kind="macvlan",
            mode="bridge",
            alias=str(Alias(fakes.port(9), "evil", network=NETWORK)),
        )
        self.assertEqual([], self.nics())

    def test_other_reasons_are_told_too(self):
        self.plug(1, parent="enp1s0v0")
        for index in range(3):
            self.host.change(f"enp2s0v{index}", alias="uplink of the host")
            self.plug(
                10 + index, kind=Kind.IPVLAN, onload=False,
                parent=f"enp2s0v{index}",
            )  # fmt: skip
        with self.assertRaises(errors.SpreadNeeded) as caught:
            self.plug(2)
        said = str(caught.exception)
        self.assertIn("enp1s0: it has one", said)
        self.assertIn("ipvlan eth10 and macvlan exclude each other", said)

    def test_it_is_on_a_nic_that_onload_can_use(self):
        self.plugger = self.another(onload_nics=lambda: {"enp2s0", "eth9"})
        self.assertEqual("enp2s0v0", self.plug(1).parent)
        with self.assertRaises(errors.SpreadNeeded) as caught:
            self.plug(2)
        said = str(caught.exception)
        self.assertIn("enp1s0: Onload cannot use it", said)
        self.assertIn("enp2s0: it has one", said)
        # For a plain one they are all alike.
        self.assertEqual("enp1s0v0", self.plug(3, onload=False).parent)

    def test_where_there_is_none_the_scheduler_was_to_know(self):
        self.plugger = self.another(onload_nics=lambda: {"eth9"})
        self.assertEqual("enp1s0v0", self.plug(1).parent)

    def test_nics_are_looked_for_only_if_need_be(self):
        def fail():
            raise AssertionError("nobody asked for Onload")

        self.plugger = self.another(onload_nics=fail)
        self.plug(1, onload=False)

    def test_a_network_is_needed(self):
        for network in (None, "mine", NETWORK.upper()):
            with self.assertRaises(ParseError):
                self.plug(1, network=network)


class UnacceleratedTest(EndpointTest):
    def setUp(self):
        super().setUp()
        self.plugger = self.another(unaccelerated=True)

    def test_a_second_one_is_plugged_as_a_plain_one(self):
        self.assertTrue(self.plug(1).accelerated)
        self.assertTrue(self.plug(2).accelerated)
        third = self.plug(3)
        self.assertEqual((False, None), (third.accelerated, third.network))
        self.assertEqual(2, len(self.nics()))
        alias = self.host.named("eth3", "box").alias
        self.assertEqual(f"sriov-rt:{fakes.port(3)}:guest-3", alias)
        self.assertIn(third, self.plugger.show())

    def test_one_that_fell_back_is_plugged_again_as_it_was_requested(self):
        self.plug(1)
        self.plug(2)
        third = self.plug(3)
        self.assertEqual(third, self.plug(3))
        # Nova's next start: another process, which has the records alone.
        self.plugger = self.another(unaccelerated=True)
        self.assertEqual(third, self.plug(3))
        self.assertEqual(third, self.plug(3, onload=False))
        self.assertIn(third, self.plugger.show())

    def test_the_record_has_what_was_requested_and_what_became_of_it(self):
        for number in (1, 2, 3):
            self.plug(number)
        record = Records(self.directory).get(fakes.port(3))
        requested = record.request
        self.assertEqual(
            (True, NETWORK, None),
            (requested.onload, requested.network, requested.parent),
        )
        self.assertEqual((False, None), (record.accelerated, record.network))

    def test_a_plain_one_may_be_on_any_nic(self):
        self.plugger = self.another(
            unaccelerated=True, onload_nics=lambda: {"enp2s0"}
        )
        self.assertTrue(self.plug(1).accelerated)
        second = self.plug(2)
        self.assertEqual(
            (False, "enp1s0v0"), (second.accelerated, second.parent)
        )

    def test_the_plan_says_which_it_is(self):
        said = "accelerated on network"
        self.plug(1, parent="enp1s0v0")
        for parent, expected in (("enp1s0v1", False), ("enp2s0v0", True)):
            plan = self.plugger.plan(self.want(2, parent=parent))
            self.assertEqual(expected, said in "\n".join(plan.lines()))

    def test_what_keeps_a_plain_one_off_is_an_error_still(self):
        self.plug(1, parent="enp1s0v0")
        with self.assertRaises(errors.NoParent):
            self.plug(2, mtu=9000)

    def test_it_is_plain_for_another_instance_and_for_nothing_else(self):
        self.plugger = self.another(
            unaccelerated=True, onload_nics=lambda: {"enp2s0"}
        )
        for index in range(3):
            self.host.change(f"enp2s0v{index}", alias="uplink of the host")
            self.plug(
                10 + index, kind=Kind.IPVLAN, onload=False,
                parent=f"enp2s0v{index}",
            )  # fmt: skip
        with self.assertRaises(errors.NoParent) as caught:
            self.plug(1)
        self.assertIn("Onload cannot use it", str(caught.exception))


class ParallelTest(EndpointTest):
    def test_the_choice_is_one_at_a_time(self):
        with Locks(self.directory, 0.2).network(NETWORK):
            with self.assertRaises(errors.Busy):
                self.plug(1)
            self.assertFalse(self.plug(2, onload=False).accelerated)
            self.assertTrue(self.plug(3, network=ANOTHER).accelerated)

    def test_two_vfs_of_a_nic_are_not_won_by_two(self):
        seen, start = [], threading.Barrier(6)
        create = self.links.create
        # Time for another to look while this one is not there yet.
        self.links.create = lambda what: (time.sleep(0.02), create(what))[1]

        def plug(number):
            parent = f"enp1s0v{number % 3}"
            start.wait()
            try:
                seen.append(
                    self.another(wait_s=30).plug(
                        dataclasses.replace(self.want(number), parent=parent)
                    )
                )
            except errors.SpreadNeeded as error:
                seen.append(error)

        threads = [
            threading.Thread(target=plug, args=(number,))
            for number in range(6)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        refused = [e for e in seen if isinstance(e, errors.SpreadNeeded)]
        self.assertEqual((6, 5), (len(seen), len(refused)))
        self.assertEqual(1, len(self.nics()))
