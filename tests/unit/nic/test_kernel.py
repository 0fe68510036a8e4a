# SPDX-License-Identifier: Apache-2.0

import contextlib
import errno
import socket
import unittest
from unittest import mock

from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import errors
from sriov_rt.nic import kernel
from sriov_rt.nic import vfs
from sriov_rt.nic.families import Families
from sriov_rt.nic.model import VfId
from tests.unit.host import trees
from tests.unit.kernel.vf_messages import encoded
from tests.unit.kernel.vf_messages import message
from tests.unit.nic import fakes


class NetlinkTest(unittest.TestCase):
    def setUp(self):
        self.route = mock.Mock()
        self.route.link.return_value = [message(encoded(0, fakes.FRESH))]
        self.refused = None
        patch = mock.patch.object(
            kernel.rtnetlink, "conversation", self.conversation
        )
        patch.start()
        self.addCleanup(patch.stop)
        patch = mock.patch.object(socket, "if_nametoindex", return_value=4)
        self.index = patch.start()
        self.addCleanup(patch.stop)
        self.netlink = kernel.Kernel()

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

    @mock.patch.object(errors, "is_net_admin", lambda: False)
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


class HostTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.kernel = kernel.Kernel(str(self.tree.path))
        self.netlink = mock.Mock()
        for verb in ("flags", "read"):
            patch = mock.patch.object(
                self.kernel, verb, getattr(self.netlink, verb)
            )
            patch.start()
            self.addCleanup(patch.stop)

    def flags(self, text):
        self.tree.write(
            f"sys/bus/pci/devices/{VF.address}/net/eno1v0/flags", text
        )

    def test_sysfs_tells_what_there_is(self):
        self.assertEqual(("eno1",), self.kernel.pfs())
        self.assertEqual(VF, self.kernel.pf("eno1").vfs[0])
        self.assertEqual(VF, self.kernel.locate("eno1v0"))

    def test_netlink_is_asked_only_if_an_interface_takes_all(self):
        self.flags("0x1003\n")
        self.assertIs(False, self.kernel.device(VF).promisc)
        self.netlink.flags.assert_not_called()
        # Something on top, such as a bridge, needs it: nobody set it.
        self.flags("0x1103\n")
        self.netlink.flags.return_value = (False, False)
        self.assertIs(False, self.kernel.device(VF).promisc)

    def test_verbs_of_this_host(self):
        found = vfs.Vfs(self.kernel, Families.installed())
        self.netlink.read.return_value = dict.fromkeys(range(4), fakes.FRESH)
        state = found.observe(VF)
        self.assertEqual("i40e", state.family)
        self.assertEqual("eno1v0", state.netdev)
        self.assertEqual("sriov-rt instance 7c", state.alias)
