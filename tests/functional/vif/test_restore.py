# SPDX-License-Identifier: Apache-2.0

"""Ports whose parent is destroyed and comes back, on this kernel.

A veth stands for the VF, with an inode of its own each time that it is made.
"""

import dataclasses
import os
import pathlib
import shutil

from sriov_rt.kernel.tc import Limits
from sriov_rt.nic.tenancy import Tenancies
from sriov_rt.nic.tenancy import Tenancy
from sriov_rt.vif.model import State
from sriov_rt.vif.restore import Restored
from sriov_rt.vif.restore import Restoring
from tests.functional.vif import test_plugger
from tests.functional.vif.isolated import MAC
from tests.functional.vif.isolated import sh
from tests.functional.vif.isolated import until
from tests.functional.vif.test_plugger import ONE_VF
from tests.functional.vif.test_plugger import PORT
from tests.functional.vif.test_plugger import DressedLinks
from tests.functional.vif.test_plugger import OneVf
from tests.testbed.isolation import wire

OTHER = "192.0.2.2"


class InodeTenancies(Tenancies):
    """Knows vf0 by its index, as a VF by its inode in sysfs."""

    def _inode(self, address):
        try:
            return int(pathlib.Path("/sys/class/net/vf0/ifindex").read_text())
        except FileNotFoundError:
            return None

    def get(self, address):
        return Tenancy(address, self._inode(address) or 0)


class GoingVf(OneVf):
    """The Vfs of a host whose only one is vf0, while that is there."""

    def __init__(self):
        self.tenancies_ = InodeTenancies()

    @property
    def tenancies(self):
        return self.tenancies_

    def list(self, pf=None):
        address = ONE_VF.id.address
        if not self.is_present(address):
            return ()
        tenancy = self.tenancies_.get(address)
        return (dataclasses.replace(ONE_VF, tenancy=tenancy),)

    def of(self, interface):
        found = self.list()
        return found[0] if found and interface == "vf0" else None

    def is_present(self, address):
        return self.tenancies_._inode(address) is not None  # noqa: SLF001


class ReloadTest(test_plugger.PluggerTestCase):
    links_class = DressedLinks
    vfs = GoingVf

    def setUp(self):
        super().setUp()
        if os.geteuid() == 0:
            sh("ip", "addr", "add", f"{OTHER}/24", "dev", "peer0")
            self.request = self.asked(
                mac=MAC,
                mtu=1400,
                addresses=("192.0.2.1/24",),
                limits=Limits(10_000, None),
            )

    def restore(self, plugger=None):
        plugger = plugger or self.another()
        return Restoring(plugger, lambda _: None).run()

    def destroy(self):
        sh("ip", "link", "del", "vf0")

    def make(self):
        wire("vf0", "peer0")
        sh("ip", "addr", "add", f"{OTHER}/24", "dev", "peer0")

    def answers(self) -> bool:
        """Return whether the container gets an answer by its port."""
        words = ("ip", "netns", "exec", "tenant", "ping", "-c1", "-W1", OTHER)
        try:
            return "1 received" in sh(*words)
        except Exception:  # noqa: BLE001
            return False

    def test_a_running_container_gets_its_network_again(self):
        before = self.plugger.plug(self.request)
        until("it answers", self.answers)
        self.assertEqual(Restored(), self.restore())
        self.destroy()
        self.assertFalse(self.answers())
        self.assertEqual(State.ABSENT, self.shown()[0].state)
        ((port, _),) = self.restore().left
        self.assertEqual(PORT, port)
        self.make()
        self.assertEqual(Restored((PORT,)), self.restore())
        (found,) = self.shown()
        self.assertEqual(before, found)
        (link,) = self.ip("link", "show", "eth1")
        self.assertEqual((MAC, 1400), (link["address"], link["mtu"]))
        limits = sh("tc", "-n", "tenant", "class", "show", "dev", "eth1")
        self.assertIn("rate 10Mbit", limits)
        until("it answers again", self.answers)
        # Its manager plugs it as before, and unplugs it.
        self.assertEqual(found, self.plugger.plug(self.request))
        self.assertTrue(self.plugger.unplug(PORT))
        self.assertEqual([], self.ip("link", "show", "type", "macvlan"))
        self.assertEqual(Restored(), self.restore())

    def test_killed_at_each_write(self):
        for at in range(1, test_plugger.MANY):
            self.plugger.plug(self.request)
            self.destroy()
            self.make()
            killed = self._dies(at, self.restore)
            self.another().recover()
            found = self.restore()
            with self.subTest(at):
                self.assertEqual(((), ()), (found.left, found.ended))
                (port,) = self.shown()
                self.assertEqual(
                    (State.PLUGGED, "eth1", MAC),
                    (port.state, port.interface, port.mac),
                )
            self.assertTrue(self.plugger.unplug(PORT))
            if not killed:
                break
        self.assertGreater(at, 5)
        self.assertLess(at, test_plugger.MANY - 1)

    def test_what_a_tenant_has_deleted_or_moved_is_not_lost(self):
        self.plugger.plug(self.request)
        sh("ip", "netns", "add", "other")
        sh("ip", "-n", "tenant", "link", "set", "eth1", "netns", "other")
        self.assertEqual(Restored(), self.restore())
        sh("ip", "-n", "other", "link", "del", "eth1")
        self.assertEqual(Restored(), self.restore())

    def test_records_of_a_backup_are_given_up(self):
        self.plugger.plug(self.request)
        backup = self.directory.with_name("backup")
        shutil.copytree(self.directory, backup)
        self.assertTrue(self.plugger.unplug(PORT))
        # As after a boot: what they name is another one.
        self.destroy()
        self.make()
        shutil.rmtree(self.directory)
        backup.rename(self.directory)
        self.assertEqual(State.ABSENT, self.shown()[0].state)
        self.assertEqual((PORT,), self.another().recover().released)
        self.assertEqual((), self.shown())
        self.assertEqual("eth1", self.another().plug(self.request).interface)

    def test_a_container_that_has_ended_gets_none(self):
        self.plugger.plug(self.request)
        self.destroy()
        sh("ip", "netns", "del", "tenant")
        sh("ip", "netns", "add", "tenant")
        self.make()
        found = self.restore()
        self.assertEqual((), found.restored)
        self.assertEqual([], self.ip("link", "show", "type", "macvlan"))
