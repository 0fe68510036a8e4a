# SPDX-License-Identifier: Apache-2.0

import struct
import unittest

from sriov_rt.kernel import vf
from sriov_rt.kernel.vf import LinkState
from sriov_rt.kernel.vf import VfSettings
from sriov_rt.kernel.vf import VlanProtocol
from tests.unit.kernel.vf_messages import encoded
from tests.unit.kernel.vf_messages import message
from tests.unit.kernel.vf_messages import sent

SETTINGS = VfSettings(
    mac="52:54:00:12:34:56",
    vlan=7,
    qos=3,
    vlan_protocol=VlanProtocol.AD,
    spoofchk=True,
    trust=False,
    link_state=LinkState.DISABLE,
    min_tx_rate=10,
    max_tx_rate=100,
    query_rss=True,
)


class DifferingTest(unittest.TestCase):
    def test_what_is_unknown_or_unasked_is_left_alone(self):
        self.assertEqual(
            VfSettings(vlan=5),
            vf.differing(
                VfSettings(vlan=4, trust=None, mac="00:00:00:00:00:00", qos=0),
                VfSettings(vlan=5, trust=False, qos=0),
            ),
        )


class CountersTest(unittest.TestCase):
    def test_what_a_pf_has_counted(self):
        names = ("RX_PACKETS", "TX_PACKETS", "RX_BYTES", "TX_BYTES")
        values = [
            (f"IFLA_VF_STATS_{name}", number)
            for number, name in enumerate((*names, "RX_DROPPED"), 5)
        ]
        mac = ("IFLA_VF_MAC", {"vf": 3, "mac": SETTINGS.mac})
        info = {"attrs": [mac, ("IFLA_VF_STATS", {"attrs": values})]}
        bare = {"attrs": [("IFLA_VF_MAC", {"vf": 4, "mac": SETTINGS.mac})]}
        link = message(("IFLA_VF_INFO", info), ("IFLA_VF_INFO", bare))
        self.assertEqual(
            {
                3: {
                    "rx_packets": 5,
                    "tx_packets": 6,
                    "rx_bytes": 7,
                    "tx_bytes": 8,
                    "rx_dropped": 9,
                }
            },
            vf.counters(link),
        )
        self.assertEqual({}, vf.counters(message()))


class EncodingTest(unittest.TestCase):
    def test_what_is_written_reads_back(self):
        received = message(
            encoded(0, SETTINGS), encoded(63, VfSettings(mac=SETTINGS.mac))
        )
        found = vf.decode(received)
        self.assertEqual({0, 63}, set(found))
        # The kernel tells a VLAN in both forms, a writer uses one.
        self.assertEqual(VlanProtocol.AD, found[0].vlan_protocol)
        for name in ("mac", "spoofchk", "trust", "link_state", "query_rss"):
            self.assertEqual(
                getattr(SETTINGS, name), getattr(found[0], name), name
            )
        self.assertEqual(10, found[0].min_tx_rate)
        self.assertEqual(100, found[0].max_tx_rate)

    def test_8021ad_is_as_long_as_the_kernel_wants_it(self):
        wanted = VfSettings(
            mac=SETTINGS.mac, vlan=7, vlan_protocol=VlanProtocol.AD
        )
        info = struct.pack("=HHIII", 20, 1, 3, 7, 0) + b"\x88\xa8\0\0"
        self.assertIn(info, sent(encoded(3, wanted)))

    def test_plain_vlan_is_the_attribute_that_all_drivers_take(self):
        info = encoded(1, VfSettings(vlan=7, qos=3, vlan_protocol="802.1q"))
        self.assertEqual(
            [("IFLA_VF_VLAN", {"vf": 1, "vlan": 7, "qos": 3})],
            info[1]["attrs"],
        )

    def test_both_rates_always(self):
        for given_rates in (
            VfSettings(max_tx_rate=100),
            VfSettings(max_tx_rate=100, min_tx_rate=0),
        ):
            ((name, rate),) = encoded(1, given_rates)[1]["attrs"]
            self.assertEqual("IFLA_VF_RATE", name)
            self.assertEqual(
                {"vf": 1, "min_tx_rate": 0, "max_tx_rate": 100}, rate
            )

    def test_nothing_to_set_is_no_attribute(self):
        self.assertEqual([], encoded(1, VfSettings())[1]["attrs"])

    def test_what_a_driver_does_not_report_is_unknown(self):
        unreported = 0xFFFFFFFF
        received = message(
            (
                "IFLA_VF_INFO",
                {
                    "attrs": [
                        ("IFLA_VF_MAC", {"vf": 0, "mac": SETTINGS.mac}),
                        ("IFLA_VF_VLAN", {"vf": 0, "vlan": 5, "qos": 1}),
                        (
                            "IFLA_VF_SPOOFCHK",
                            {"vf": 0, "spoofchk": unreported},
                        ),
                        ("IFLA_VF_TRUST", {"vf": 0, "trust": unreported}),
                        ("IFLA_VF_LINK_STATE", {"vf": 0, "link_state": 9}),
                    ]
                },
            )
        )
        found = vf.decode(received)[0]
        self.assertEqual((5, 1), (found.vlan, found.qos))
        self.assertIsNone(found.spoofchk)
        self.assertIsNone(found.trust)
        self.assertIsNone(found.query_rss)
        self.assertIsNone(found.link_state)
        self.assertIsNone(found.vlan_protocol)

    def test_vlan_in_the_older_form(self):
        plain = VfSettings(mac=SETTINGS.mac, vlan=7, qos=3)
        found = vf.decode(message(encoded(5, plain)))[5]
        self.assertEqual((7, 3), (found.vlan, found.qos))

    def test_link_without_vfs(self):
        self.assertEqual({}, vf.decode(message()))

    def test_info_without_a_mac_is_passed_over(self):
        info = ("IFLA_VF_INFO", {"attrs": []})
        self.assertEqual({}, vf.decode(message(info)))
