# SPDX-License-Identifier: Apache-2.0

"""Counters of VFs by their owners."""

import dataclasses
import types
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.facts import VfCounters
from sriov_rt.nic import errors
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.vif import vf_counters
from tests.unit.host import trees
from tests.unit.nic import fakes

COUNTED = {
    "rx_packets": 3,
    "rx_bytes": 300,
    "rx_dropped": 1,
    "tx_packets": 2,
    "tx_bytes": 200,
    "tx_dropped": 0,
}
COUNTERS = VfCounters(3, 300, 1, 2, 200, 0)


def record(port, owner, index):
    """Return as much of a record as says whose a VF is."""
    vf = f"0000:01:10.{index}"
    return types.SimpleNamespace(port=port, owner=owner, vf=vf)


class CountersTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.kernel = fakes.FakeKernel("i40e", vfs=3)

    def observe(self, *records):
        return vf_counters.observe(fakes.vfs(self.kernel), records, self.root)

    def test_a_pf_that_counts(self):
        self.kernel.counted = {0: COUNTED}
        first, second, _ = self.observe()
        self.assertEqual(COUNTERS, first.counters)
        self.assertEqual(VfCounters(0, 0, 0, 0, 0, 0), second.counters)

    def test_a_pf_that_counts_nothing(self):
        self.kernel.change_device(0, netdev=None)
        first, _, _ = self.observe()
        self.assertIn("ndo_get_vf_stats", first.counters.reason)

    def test_an_interface_that_counts_itself(self):
        for name, value in COUNTED.items():
            path = f"sys/class/net/enp1s0v0/statistics/{name}"
            self.tree.write(path, f"{value}\n")
        first, second, _ = self.observe()
        self.assertEqual(COUNTERS, first.counters)
        self.assertIn("enp1s0v1", second.counters.reason)

    def test_a_pf_that_does_not_answer(self):
        error = errors.BadState("enp1s0", None, "the kernel says nothing")
        with mock.patch.object(self.kernel, "counters", side_effect=error):
            self.kernel.change_device(0, netdev=None)
            self.assertIsInstance(self.observe()[0].counters, Unknown)

    def test_owners(self):
        self.kernel.tenancies.assign(
            "0000:01:10.2", Holder(Kind.PORT, "port-3")
        )
        found = self.observe(
            record("port-1", "guest", 0),
            record("port-2", "guest", 1),
            record("port-4", "other", 1),
        )
        self.assertEqual(
            [("port-1", "guest"), ("", ""), ("port-3", "")],
            [(each.port, each.instance) for each in found],
        )

    def test_settings_beside_the_record(self):
        address = "0000:01:10.0"
        noted = dataclasses.replace(self.kernel.settings[0], vlan=7, qos=None)
        self.kernel.tenancies.note(address, noted)
        first, second, _ = self.observe()
        self.assertEqual((1, None), (first.differing, second.differing))

    def test_it_stays_bounded(self):
        with mock.patch.object(vf_counters, "MAX_VFS", 2):
            self.assertEqual(2, len(self.observe()))
