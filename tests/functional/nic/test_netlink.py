# SPDX-License-Identifier: Apache-2.0

"""Requests on links of the machine's kernel, in namespaces of their own."""

import os
import pathlib
import threading
import unittest
from concurrent import futures
from typing import Any

import pyroute2

from sriov_rt.kernel.vf import VfSettings
from sriov_rt.nic import errors
from sriov_rt.nic.kernel import Kernel
from tests.testbed.isolation import leave
from tests.testbed.isolation import wire


def descriptors():
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def nameless():
    """Return the descriptor of a namespace that nothing else holds."""

    def make():
        leave()
        path = "/proc/thread-self/ns/net"
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    with futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


class RtnetlinkTest(unittest.TestCase):
    def run(self, result: Any = None) -> Any:
        """Run in a thread, which takes its namespaces with it."""
        with futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(super().run, result).result()

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("namespaces are made by root")
        leave()
        wire("vf0", "peer0")
        self.netlink = Kernel()

    def test_flags_and_mtu(self):
        self.assertEqual((False, False), self.netlink.flags("vf0"))
        self.netlink.set_netdev(
            "vf0", VfSettings(mtu=1400, promisc=True, allmulti=True)
        )
        self.assertEqual((True, True), self.netlink.flags("vf0"))
        self.netlink.set_netdev("vf0", VfSettings(promisc=False))
        self.assertEqual((False, True), self.netlink.flags("vf0"))

    def test_rename(self):
        self.netlink.rename("vf0", "vf9")
        self.netlink.flags("vf9")
        with self.assertRaises(errors.NoSuchDevice):
            self.netlink.flags("vf0")
        with self.assertRaises(errors.NameTaken):
            self.netlink.rename("vf9", "peer0")

    def test_refusals_have_the_kernels_words(self):
        with self.assertRaises(errors.RefusedByNic) as caught:
            self.netlink.set_netdev("vf0", VfSettings(mtu=68000))
        self.assertIn("mtu greater than device max", str(caught.exception))

    def test_bounds_of_the_mtu(self):
        self.assertEqual((68, 65535), self.netlink.mtus("vf0"))
        # The loopback's driver sets none.
        self.assertIsNone(self.netlink.mtus("lo"))

    def test_address(self):
        with pyroute2.IPRoute() as route:
            (index,) = route.link_lookup(ifname="vf0")
            # Up, it has one of its own (fe80::).
            route.link("set", index=index, state="down")
            self.assertFalse(self.netlink.addressed("vf0"))
            route.addr("add", index=index, address="192.0.2.1", prefixlen=24)
        self.assertTrue(self.netlink.addressed("vf0"))
        with self.assertRaises(errors.NoSuchDevice):
            self.netlink.addressed("vf9")

    def test_what_is_on_an_interface_is_seen_wherever_it_is(self):
        """In a namespace without a name and without a process, too."""
        self.assertFalse(self.netlink.carries("vf0"))
        self.assertFalse(self.netlink.carries("vf0"))
        hidden = nameless()
        self.addCleanup(os.close, hidden)
        with pyroute2.IPRoute() as route:
            (index,) = route.link_lookup(ifname="vf0")
            route.link(
                "add",
                ifname="mv0",
                kind="macvlan",
                link=index,
                macvlan_mode="bridge",
                net_ns_fd=hidden,
            )
        self.assertTrue(self.netlink.carries("vf0"))
        self.assertFalse(self.netlink.carries("peer0"))
        with self.assertRaises(errors.NoSuchDevice):
            self.netlink.carries("vf9")

    def test_device_without_vfs(self):
        self.assertEqual({}, self.netlink.read("vf0"))
        with self.assertRaises(errors.UnsupportedByNic) as caught:
            self.netlink.write("vf0", {1: VfSettings(vlan=7)})
        self.assertEqual("vf0/1", caught.exception.device)

    def test_threads_leave_no_descriptor(self):
        self.netlink.read("vf0")
        before = descriptors()
        for _ in range(20):
            # It has this thread's namespace: a new thread is its copy.
            thread = threading.Thread(target=self.netlink.read, args=("vf0",))
            thread.start()
            thread.join()
        self.assertEqual(before, descriptors())
