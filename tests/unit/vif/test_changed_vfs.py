# SPDX-License-Identifier: Apache-2.0

"""VFs that somebody has changed behind who has them."""

import dataclasses
import pathlib
import unittest

from sriov_rt.agent import audit
from sriov_rt.host.root import BOOT_ID
from sriov_rt.nic.provision import Amount
from sriov_rt.nic.provision import Mode
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind as Holding
from sriov_rt.vif import changed_vfs
from sriov_rt.vif.model import Kind
from sriov_rt.vif.records import Records
from tests.unit.host import trees
from tests.unit.nic import fakes as nic_fakes
from tests.unit.vif import fakes
from tests.unit.vif.fakes import OTHER
from tests.unit.vif.fakes import asked

VF = "0000:01:10.0"


class ChangedVfsTest(fakes.HostTest):
    def found(self, *amounts):
        records = Records(self.directory).every()
        return [*changed_vfs.find(self.vfs.list(), records, amounts)]

    def change(self, **settings):
        vf = self.host.vf(0)
        self.host.settings[vf] = dataclasses.replace(
            self.host.settings[vf], **settings
        )

    def plugs(self, kind, **fields):
        return self.plugger.plug(asked(kind, parent="enp1s0v0", **fields))


class PortTest(ChangedVfsTest):
    def test_each_port_names_the_command_that_sets_its_vf_back(self):
        port = self.plugs(Kind.VF, vlan=7)
        self.assertEqual([], self.found())
        self.change(mac="02:66:66:66:66:66", vlan=8, spoofchk=False)
        ((instance, why),) = self.found()
        self.assertEqual(port.owner, instance)
        self.assertEqual("port_vf_changed", why.code)
        self.assertIn("its mac is 02:66:66:66:66:66", why.message)
        self.assertIn(
            f"'ip link set enp1s0 vf 0 mac {port.mac} vlan 7 spoofchk on'",
            why.remedy,
        )
        (shown,) = self.plugger.show()
        self.assertIn(f"mac {port.mac} vlan 7 spoofchk on'", shown.reason)

    def test_each_port_on_a_shared_parent_has_its_own(self):
        self.plugs(Kind.MACVLAN, vlan=7)
        self.plugs(Kind.MACVLAN, port=OTHER, name="eth2", vlan=7)
        self.change(vlan=8)
        self.assertEqual(
            {fakes.PORT, OTHER},
            {why.fields["port"] for _, why in self.found()},
        )

    def test_one_that_is_being_plugged_is_not_judged(self):
        self.plugs(Kind.MACVLAN)
        self.change(trust=True)
        self.host.clock.set(6)
        with self.assertRaises(fakes.Killed):
            self.plugger.unplug(fakes.PORT)
        self.host.clock.set(None)
        self.assertEqual([], self.found())

    def test_one_that_gets_a_second_port_just_now_is_not_judged(self):
        self.plugs(Kind.MACVLAN)
        self.change(trust=True)
        self.assertTrue(self.found())
        self.change(trust=False)
        self.host.clock.set(4)
        with self.assertRaises(fakes.Killed):
            self.plugs(Kind.MACVLAN, port=OTHER, name="eth2")
        self.host.clock.set(None)
        self.change(trust=True)
        self.assertEqual([], self.found())

    def test_of_a_vf_that_was_made_again_nothing_is_said(self):
        self.plugs(Kind.VF)
        self.change(trust=True)
        (record,) = Records(self.directory).all()
        record = dataclasses.replace(record, inode=4711)
        found = changed_vfs.find(self.vfs.list(), [record], ())
        self.assertEqual([], [*found])


class HostsOwnTest(unittest.TestCase):
    """VFs by ``[nic] vf_macs``."""

    AMOUNT = Amount("enp1s0", 2, Mode.HOST, "02:00:5e:00:00:00")

    def setUp(self):
        self.kernel = nic_fakes.FakeKernel("igb", vfs=2)
        for index in range(2):
            mac = self.AMOUNT.mac_of(index)
            self.kernel.change_device(index, mac=mac)

    def found(self, amount=AMOUNT):
        states = nic_fakes.vfs(self.kernel).list()
        return [why for _, why in changed_vfs.find(states, (), (amount,))]

    def test_one_whose_mac_somebody_has_changed(self):
        self.assertEqual([], self.found())
        self.kernel.change_device(1, mac="02:66:66:66:66:66")
        (why,) = self.found()
        self.assertEqual("vf_mac_changed", why.code)
        self.assertIn("has MAC 02:66:66:66:66:66", why.message)
        self.assertIn("'sriov-rt vf provision'", why.remedy)
        self.assertIn(
            "'ip link set enp1s0v1 address 02:00:5e:00:00:01'", why.remedy
        )
        plain = dataclasses.replace(self.AMOUNT, mac=None)
        self.assertEqual([], self.found(plain))

    def test_one_that_somebody_else_has_or_that_is_elsewhere(self):
        self.kernel.change_device(0, mac="02:66:66:66:66:66")
        self.kernel.change_device(1, mac=None, netdev=None)
        self.kernel.tenancies.assign(VF, Holder(Holding.POD, "c1"))
        self.assertEqual([], self.found())


class OfHostTest(trees.TreeTest):
    def test_a_copy_of_a_host_has_none(self):
        self.tree.write("etc/sriov_rt/sriov-rt.conf", "[nic]\nvfs = :\n")
        self.assertEqual((), changed_vfs.of_host(self.root))

    def test_a_configuration_that_cannot_be_read_is_said(self):
        boot = pathlib.Path("/", BOOT_ID).read_text()
        self.tree.write(BOOT_ID, boot)
        self.assertEqual((), changed_vfs.of_host(self.root))
        self.tree.write("etc/sriov_rt/sriov-rt.conf", "[nic]\nvfs = :\n")
        (found,) = audit.changed(self.root, changed_vfs.of_host)
        self.assertEqual("vfs_unknown", found.code)
        self.assertIn("[nic] vfs", found.message)
