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


import contextlib
import errno
import socket
import struct
import unittest
from unittest import mock

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from sriov_rt import rtnetlink
from sriov_rt.nic import errors
from sriov_rt.nic import kernel
from sriov_rt.nic import vfinfo
from sriov_rt.nic import vfs
from sriov_rt.nic.families import Families
from sriov_rt.nic.model import LinkState
from sriov_rt.nic.model import VfId
from sriov_rt.nic.model import VfSettings
from sriov_rt.nic.model import VlanProtocol
from tests.unit.host import trees
from tests.unit.nic import fakes

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


def sent(*infos):
    """Return the bytes of a link with VFs."""
    link = ifinfmsg()
    link["index"] = 4
    if infos:
        link["attrs"] = [("IFLA_VFINFO_LIST", {"attrs": list(infos)})]
    with rtnetlink.conversation():
        link.encode()
    return bytes(link.data)


def message(*infos):
    """Return a link with VFs as it is received."""
    received = ifinfmsg(sent(*infos))
    received.decode()
    return received


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

    def test_link_without_vfs(self):
        self.assertEqual({}, vfinfo.decode(message()))

    def test_info_without_a_mac_is_passed_over(self):
        info = ("IFLA_VF_INFO", {"attrs": []})
        self.assertEqual({}, vfinfo.decode(message(info)))


class RtnetlinkTest(unittest.TestCase):
    def setUp(self):
        self.route = mock.Mock()
        self.route.link.return_value = [message(encoded(0, SETTINGS))]
        self.refused = None
        patch = mock.patch.object(
            kernel.rtnetlink, "conversation", self.conversation
        )
        patch.start()
        self.addCleanup(patch.stop)
        patch = mock.patch.object(socket, "if_nametoindex", return_value=4)
        self.index = patch.start()
        self.addCleanup(patch.stop)
        self.netlink = kernel.Rtnetlink()

    @contextlib.contextmanager
    def conversation(self):
        if self.refused is not None:
            raise self.refused
        yield self.route

    def test_read_leaves_the_counters_out(self):
        self.assertEqual([0], list(self.netlink.read("enp1s0")))
        self.route.link.assert_called_once_with("get", index=4, ext_mask=9)

    def test_all_vfs_by_one_request(self):
        vfs = {index: VfSettings(vlan=index) for index in (1, 2)}
        self.netlink.write("enp1s0", vfs)
        (call,) = self.route.link.call_args_list
        self.assertEqual(("set",), call.args)
        infos = call.kwargs["IFLA_VFINFO_LIST"]["attrs"]
        self.assertEqual([encoded(1, vfs[1]), encoded(2, vfs[2])], infos)

    def test_interface(self):
        self.netlink.set_netdev(
            "enp1s0v0", VfSettings(mtu=9000, promisc=False, allmulti=True)
        )
        self.route.link.assert_called_with(
            "set", index=4, flags=0x200, change=0x300, mtu=9000
        )
        self.netlink.set_netdev("enp1s0v0", VfSettings(promisc=True))
        self.route.link.assert_called_with(
            "set", index=4, flags=0x100, change=0x100
        )

    def test_errors_name_what_they_are_about(self):
        self.refused = OSError(errno.EPERM, "Not for you")
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
        self.route.link.return_value = []
        with self.assertRaises(errors.BadState):
            self.netlink.read("enp1s0")


VF = VfId("eno1", 0, "0000:3b:02.0")


class MachineTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(kernel, "Rtnetlink")
        self.netlink = patch.start().return_value
        self.addCleanup(patch.stop)
        patch = mock.patch.object(kernel, "sysfs")
        self.drivers = patch.start()
        self.addCleanup(patch.stop)
        self.machine = kernel.Machine(str(self.tree.path))

    def flags(self, text):
        self.tree.write(
            f"sys/bus/pci/devices/{VF.address}/net/eno1v0/flags", text
        )

    def test_sysfs_tells_what_there_is(self):
        self.assertEqual(("eno1",), self.machine.pfs())
        self.assertEqual(VF, self.machine.pf("eno1").vfs[0])
        self.assertEqual(VF, self.machine.locate("eno1v0"))

    def test_netlink_is_asked_only_if_an_interface_takes_all(self):
        self.flags("0x1003\n")
        self.assertIs(False, self.machine.device(VF).promisc)
        self.netlink.flags.assert_not_called()
        # Something on top, such as a bridge, needs it: nobody set it.
        self.flags("0x1103\n")
        self.netlink.flags.return_value = (False, False)
        self.assertIs(False, self.machine.device(VF).promisc)

    def test_a_mark_ends_with_the_vf(self):
        self.assertFalse(self.machine.has_mark(VF))
        for _ in range(2):
            self.machine.mark_filters(VF)
            self.assertTrue(self.machine.has_mark(VF))
        device = self.tree.path / f"sys/bus/pci/devices/{VF.address}"
        # Its VFs are made again: the directory is another one.
        device.rename(device.with_name("before"))
        self.assertFalse(self.machine.has_mark(VF))
        self.machine.mark_filters(VF)
        self.assertFalse(self.machine.has_mark(VF))
        device.mkdir()
        self.assertFalse(self.machine.has_mark(VF))

    def test_a_mark_that_cannot_be_written(self):
        self.tree.write("run/sriov-rt", "no directory")
        with self.assertRaises(errors.NotMarked) as caught:
            self.machine.mark_filters(VF)
        self.assertIn("filters/0000:3b:02.0 cannot", str(caught.exception))

    def test_settings_go_over_netlink(self):
        wanted = {0: VfSettings(vlan=3)}
        self.netlink.read.return_value = {0: fakes.FRESH}
        self.assertEqual({0: fakes.FRESH}, self.machine.read("eno1"))
        self.machine.write("eno1", wanted)
        self.netlink.write.assert_called_once_with("eno1", wanted)
        self.machine.set_netdev("eno1v0", wanted[0])
        self.netlink.set_netdev.assert_called_once_with("eno1v0", wanted[0])
        self.machine.rename("eth0", "eno1v0")
        self.netlink.rename.assert_called_once_with("eth0", "eno1v0")

    def test_drivers_are_bound_through_sysfs(self):
        self.machine.bind(VF, "iavf")
        self.machine.flr(VF)
        self.machine.provision("eno1", 4, probe=True)
        for verb, words in (
            (self.drivers.bind, (VF, "iavf")),
            (self.drivers.flr, (VF,)),
            (self.drivers.provision, ("eno1", 4)),
        ):
            self.assertEqual(words, verb.call_args.args[1:])

    def test_verbs_of_this_host(self):
        found = vfs.Vfs(self.machine, Families.installed())
        self.netlink.read.return_value = dict.fromkeys(range(4), fakes.FRESH)
        state = found.observe(VF)
        self.assertEqual("i40e", state.family)
        self.assertEqual("eno1v0", state.netdev)
        self.assertEqual("sriov-rt instance 7c", state.alias)
