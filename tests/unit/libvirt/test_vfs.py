# SPDX-License-Identifier: Apache-2.0

"""VFs of libvirt's domains: whose they are, before and after."""

import errno
import unittest

from sriov_rt.guest.passthrough import PassedThrough
from sriov_rt.libvirt import vfs
from sriov_rt.nic import errors
from sriov_rt.nic.tenancy import Holder
from sriov_rt.nic.tenancy import Kind
from sriov_rt.nic.tenancy import State
from sriov_rt.nic.use import Act
from sriov_rt.nic.use import Use
from tests.unit.nic import fakes

VF, OTHER = "0000:01:10.0", "0000:01:10.1"
DEVICES = (PassedThrough(VF, managed=True), PassedThrough(OTHER, managed=True))


class VfsTest(unittest.TestCase):
    def setUp(self):
        self.kernel = fakes.FakeKernel("ixgbe")
        self.users = {}
        self.vfs = fakes.vfs(self.kernel, lambda _: self.users, Kind.DOMAIN)
        self.tenancies = self.kernel.tenancies

    def prepare(self, domain="rt", devices=DEVICES[:1]):
        return vfs.prepare(self.vfs, devices, domain)

    def release(self, domain="rt", devices=DEVICES[:1]):
        return vfs.release(self.vfs, devices, domain)

    def holder(self, address=VF):
        return self.tenancies.get(address).of(Kind.DOMAIN)

    def refused(self, call, *args, **named):
        with self.assertRaises(errors.NicError) as caught:
            call(*args, **named)
        return str(caught.exception)

    def test_a_domain_has_its_vf_from_prepare_to_release(self):
        self.kernel.change(0, vlan=7)
        self.assertEqual((VF,), self.prepare())
        self.assertEqual(0, self.kernel.settings[0].vlan)
        self.assertEqual(
            Holder(Kind.DOMAIN, "rt", state=State.IN_USE), self.holder()
        )
        self.kernel.bind(fakes.vf_id(0), "vfio-pci")
        self.kernel.change(0, vlan=9)
        self.assertEqual((VF,), self.release())
        self.assertIsNone(self.holder())
        self.assertEqual("ixgbevf", self.kernel.devices[0].driver)
        self.assertEqual(0, self.kernel.settings[0].vlan)

    def test_a_gpu_beside_a_vf_is_left_to_libvirt(self):
        gpu = PassedThrough("0000:3b:00.0", managed=True)
        devices = (gpu, *DEVICES[:1])
        self.assertEqual((VF,), self.prepare(devices=devices))
        self.assertEqual((VF,), self.release(devices=devices))

    def test_nothing_is_touched_while_another_has_the_vf(self):
        self.kernel.change(0, vlan=7)
        refused = fakes.refused_while_another_holds
        refused(self, self.kernel, VF, self.prepare)
        self.prepare()
        refused(self, self.kernel, VF, self.release)
        self.release()

        def clean():
            vfs.clean(self.vfs, DEVICES[:1])

        self.kernel.change(0, vlan=7)
        refused(self, self.kernel, VF, clean)

    def test_a_clean_vf_with_somebody_on_it_is_not_given(self):
        device = self.kernel.devices[0].netdev
        for use, clause in (
            (Use(ports=("port p1 of web",)), "port p1"),
            (Use(on=("ipvlan ipvl0 in aa",)), "ipvl0"),
            (Use(on=("br0 on e0",)), "br0"),
            (Use(unseen=True), "cannot be seen"),
            (Use(addressed=device), "address"),
            (Use(guest="qemu web", driver="vfio-pci"), "qemu web"),
        ):
            with self.subTest(use):
                self.users = {VF: use}
                self.assertIn(clause, self.refused(self.prepare))
                self.assertIsNone(self.holder())
                self.assertEqual([], self.kernel.writes + self.kernel.binds)

    def test_a_vf_of_another_manager_is_neither_given_nor_taken_back(self):
        for kind in (Kind.POD, Kind.VMI):
            for state in State:
                holder = Holder(kind, "x", "team/web-0", state, "dirty")
                self.tenancies.assign(VF, holder)
                with self.subTest(holder):
                    said = self.refused(self.prepare)
                    self.assertIn(f"{kind} team/web-0", said)
                    # libvirt calls it after a failed start, too.
                    self.release()
                    self.assertEqual((holder,), self.tenancies.get(VF).holders)
                self.tenancies.release(VF, kind)
        self.assertEqual([], self.kernel.writes + self.kernel.binds)

    def test_a_mac_that_another_vf_has_in_its_vlan_is_refused(self):
        mac = "52:54:00:20:00:01"
        self.kernel.change(1, mac=mac, vlan=7)
        devices = [PassedThrough(VF, True, mac, 7)]
        self.assertIn(
            f"enp1s0/0: mac: enp1s0/1 has {mac} already; give it a MAC of",
            self.refused(self.prepare, devices=devices),
        )
        self.assertIsNone(self.holder())
        self.assertEqual([], self.kernel.writes)
        other_vlan = [PassedThrough(VF, True, mac, 8)]
        self.assertEqual((VF,), self.prepare(devices=other_vlan))

    def test_the_port_of_its_instance_is_beside_it(self):
        port = Holder(Kind.PORT, "p1", state=State.IN_USE)
        self.tenancies.assign(VF, port)
        self.prepare()
        self.release()
        self.assertEqual((port,), self.tenancies.get(VF).holders)
        self.tenancies.assign(VF, port.quarantined("dirty"))
        self.assertIn("Neutron port p1: dirty", self.refused(self.prepare))

    def test_one_that_cannot_be_cleaned_is_quarantined_and_the_other_is(self):
        self.prepare(devices=DEVICES)
        self.kernel.change(0, vlan=7)
        self.kernel.change(1, vlan=7)
        self.kernel.fail["vlan"] = [errno.EIO] * 9
        self.refused(self.release, devices=DEVICES[:1])
        self.assertTrue(self.holder().is_quarantined)
        self.kernel.fail.clear()
        self.release(devices=DEVICES)
        self.assertIsNone(self.holder())
        self.assertIsNone(self.holder(OTHER))

    def test_the_release_of_one_domain_leaves_anothers_vf(self):
        self.prepare()
        self.kernel.change(0, vlan=7)
        self.release("web")
        self.assertEqual(7, self.kernel.settings[0].vlan)
        self.assertEqual("rt", self.holder().id)

    def test_a_kill_at_any_write_leaves_no_vf_that_passes_for_clean(self):
        pod = fakes.vfs(self.kernel, lambda _: {}, Kind.POD)
        died = 0
        for act in (self.prepare, self.release):
            for number in range(1, 99):
                if act == self.release:
                    self.prepare()
                self.kernel.change(0, vlan=7, spoofchk=False)
                if not fakes.killed_at(self.kernel, number, act):
                    break
                died += 1
                if self.holder():
                    with self.assertRaises(errors.VfInUse):
                        pod.check(fakes.vf_id(0), Act.HAND_OUT)
                else:
                    clean = self.kernel.settings[0].vlan == 0
                    self.assertEqual(act == self.release, clean, number)
                self.release()
                self.assertIsNone(self.holder())
            self.release()
        self.assertGreater(died, 10)

    def test_who_names_no_domain_asks_as_well(self):
        self.users = {VF: Use(on=("br0 on e0",))}
        self.assertIn("br0", self.refused(vfs.clean, self.vfs, DEVICES))
