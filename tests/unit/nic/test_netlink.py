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

import errno
import socket
import struct
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from pyroute2.netlink import rtnl
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from sriov_rt.nic import errors
from sriov_rt.nic import netlink
from sriov_rt.nic import vfinfo
from sriov_rt.nic.settings import LinkState
from sriov_rt.nic.settings import VfSettings
from sriov_rt.nic.settings import VlanProtocol

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


def message(*infos):
    """Return a link with VFs as the kernel's bytes have it."""
    sent = ifinfmsg()
    sent["header"]["type"] = rtnl.RTM_NEWLINK
    sent["index"] = 4
    if infos:
        sent["attrs"] = [("IFLA_VFINFO_LIST", {"attrs": list(infos)})]
    sent.encode()
    return bytes(sent.data)


def encoded(index, wanted):
    """Return the attributes of what is to be set."""
    attributes = list(vfinfo.encode(index, wanted))
    return ("IFLA_VF_INFO", {"attrs": attributes})


class EncodingTest(unittest.TestCase):
    def test_what_is_written_reads_back(self):
        received = message(
            encoded(0, SETTINGS), encoded(63, VfSettings(mac=SETTINGS.mac))
        )
        found = vfinfo.decode(received)
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
        sent = message(encoded(3, wanted))
        info = struct.pack("=HHIII", 20, 1, 3, 7, 0) + b"\x88\xa8\0\0"
        self.assertNotIn(info, sent)
        widened = vfinfo.widened(sent)
        self.assertIn(info, widened)
        self.assertEqual(len(sent), len(widened))
        self.assertEqual(
            VlanProtocol.AD, vfinfo.decode(widened)[3].vlan_protocol
        )

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
        found = vfinfo.decode(received)[0]
        self.assertEqual((5, 1), (found.vlan, found.qos))
        self.assertIsNone(found.spoofchk)
        self.assertIsNone(found.trust)
        self.assertIsNone(found.query_rss)
        self.assertIsNone(found.link_state)
        self.assertIsNone(found.vlan_protocol)

    def test_vlan_in_the_older_form(self):
        plain = VfSettings(mac=SETTINGS.mac, vlan=7, qos=3)
        found = vfinfo.decode(message(encoded(5, plain)))[5]
        self.assertEqual((7, 3), (found.vlan, found.qos))

    @settings(derandomize=True, max_examples=300, deadline=None)
    @given(st.data())
    def test_any_bytes_are_vfs_or_none(self, data):
        whole = message(encoded(0, SETTINGS), encoded(1, SETTINGS))
        start = data.draw(st.integers(0, len(whole)))
        garbage = data.draw(st.binary(max_size=40))
        cut = whole[:start] + garbage + whole[start + len(garbage) :]
        for found in vfinfo.decode(cut).values():
            self.assertEqual(17, len(found.mac))
        self.assertLessEqual(len(vfinfo.decode(cut[:start])), 2)

    def test_link_without_vfs(self):
        self.assertEqual({}, vfinfo.decode(message()))

    def test_info_without_a_mac_is_passed_over(self):
        info = ("IFLA_VF_INFO", {"attrs": []})
        self.assertEqual({}, vfinfo.decode(message(info)))


class RtnetlinkTest(unittest.TestCase):
    def setUp(self):
        self.answers = [message(encoded(0, SETTINGS))]
        self.asked = []
        self.error = None
        patch = mock.patch.object(netlink.channel, "ask", self.ask)
        patch.start()
        self.addCleanup(patch.stop)
        patch = mock.patch.object(socket, "if_nametoindex", return_value=4)
        self.index = patch.start()
        self.addCleanup(patch.stop)
        self.netlink = netlink.Rtnetlink()

    def ask(self, request):
        if self.error is not None:
            raise self.error
        asked = ifinfmsg(request)
        asked.decode()
        self.asked.append(asked)
        return self.answers

    def test_read_leaves_the_counters_out(self):
        self.assertEqual([0], list(self.netlink.read("enp1s0")))
        (asked,) = self.asked
        self.assertEqual(rtnl.RTM_GETLINK, asked["header"]["type"])
        self.assertEqual(5, asked["header"]["flags"])
        self.assertEqual(4, asked["index"])
        self.assertEqual(9, asked.get_attr("IFLA_EXT_MASK"))

    def test_all_vfs_by_one_request(self):
        vfs = {index: VfSettings(vlan=index) for index in (1, 2)}
        self.netlink.write("enp1s0", vfs)
        (asked,) = self.asked
        self.assertEqual(rtnl.RTM_SETLINK, asked["header"]["type"])
        infos = asked.get_attr("IFLA_VFINFO_LIST").get_attrs("IFLA_VF_INFO")
        self.assertEqual(
            [(1, 1), (2, 2)],
            [
                (vlan["vf"], vlan["vlan"])
                for info in infos
                for vlan in [info.get_attr("IFLA_VF_VLAN")]
            ],
        )

    def test_requests_are_told_apart(self):
        self.netlink.read("enp1s0")
        self.netlink.read("enp1s0")
        numbers = [each["header"]["sequence_number"] for each in self.asked]
        self.assertEqual(2, len(set(numbers)))

    def test_interface(self):
        self.netlink.set_netdev(
            "enp1s0v0", VfSettings(mtu=9000, promisc=False, allmulti=True)
        )
        (asked,) = self.asked
        self.assertEqual(9000, asked.get_attr("IFLA_MTU"))
        self.assertEqual((0x200, 0x300), (asked["flags"], asked["change"]))
        self.netlink.set_netdev("enp1s0v0", VfSettings(promisc=True))
        self.assertEqual(0x100, self.asked[1]["change"])

    def test_flags(self):
        link = ifinfmsg()
        link["flags"] = 0x1103
        link.encode()
        self.answers = [bytes(link.data)]
        self.assertEqual((True, False), self.netlink.flags("enp1s0v0"))

    def test_rename(self):
        self.netlink.rename("eth0", "enp1s0v0")
        self.assertEqual("enp1s0v0", self.asked[0].get_attr("IFLA_IFNAME"))

    def test_errors_name_what_they_are_about(self):
        self.error = OSError(errno.EPERM, "Not for you")
        with self.assertRaises(errors.NotPermitted) as caught:
            self.netlink.write("enp1s0", {3: VfSettings(vlan=1)})
        self.assertEqual("enp1s0/3", caught.exception.device)
        self.assertIn("Not for you (EPERM)", str(caught.exception))
        with self.assertRaises(errors.NotPermitted) as caught:
            self.netlink.read("enp1s0")
        self.assertEqual("enp1s0", caught.exception.device)

    def test_interface_that_is_gone(self):
        self.index.side_effect = OSError("no interface with this name")
        with self.assertRaises(errors.NoSuchDevice):
            self.netlink.read("enp1s0")

    def test_kernel_that_says_nothing(self):
        self.answers = []
        with self.assertRaises(errors.BadState):
            self.netlink.read("enp1s0")
