# SPDX-License-Identifier: Apache-2.0

import errno
import os
import pathlib
from unittest import mock

from sriov_rt.nic import affinity
from sriov_rt.nic import errors
from sriov_rt.nic import sysfs
from sriov_rt.nic.model import EswitchMode
from sriov_rt.nic.model import VfId
from sriov_rt.nic.sysfs import Sysfs
from tests.unit.host import trees

VF = VfId("eno1", 0, "0000:3b:02.0")
PF = f"sys/{trees.X710}"
DEVICES = "sys/bus/pci/devices"


class SysfsTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.sysfs = Sysfs(self.root)

    def test_pfs_are_those_that_can_have_vfs(self):
        self.assertEqual(("eno1",), self.sysfs.pfs())

    def test_pf(self):
        self.tree.write(f"{PF}/sriov_drivers_autoprobe", "0\n")
        pf = self.sysfs.pf("eno1")
        self.assertEqual("i40e", pf.driver)
        self.assertEqual(("8086", "1572"), (pf.vendor, pf.product))
        self.assertEqual(10000, pf.speed_mbps)
        self.assertTrue(pf.carrier)
        self.assertEqual(64, pf.total_vfs)
        self.assertEqual([0, 1, 2, 3], [vf.index for vf in pf.vfs])
        self.assertEqual(VF, pf.vfs[0])
        self.assertIs(False, pf.probes)

    def test_representor_is_no_pf(self):
        self.tree.netdev(trees.X710, "eno1_0", phys_port_name="pf0vf0\n")
        self.tree.write(f"{PF}/net/eno1/phys_port_name", "p0\n")
        self.assertEqual(("eno1",), self.sysfs.pfs())
        self.assertEqual(VF, self.sysfs.locate("eno1v0"))
        with self.assertRaises(errors.NotAPf):
            self.sysfs.pf("eno1_0")

    def test_representors_show_switchdev_mode(self):
        self.assertEqual(EswitchMode.LEGACY, self.sysfs.pf("eno1").eswitch)
        self.tree.netdev(trees.X710, "eno1_0", phys_port_name="pf0vf0\n")
        self.assertEqual(EswitchMode.SWITCHDEV, self.sysfs.pf("eno1").eswitch)

    def test_pf_that_is_down(self):
        self.take_down("eno1")
        pf = self.sysfs.pf("eno1")
        self.assertIsNone(pf.speed_mbps)
        self.assertIsNone(pf.carrier)
        self.assertIsNone(pf.probes)

    def test_what_is_no_pf(self):
        for name, kind in (
            ("ens2f0", errors.NotAPf),
            ("eno1v0", errors.NotAPf),
            ("lo", errors.NotAPf),
            ("eth7", errors.NoSuchDevice),
            ("../eno1", errors.BadName),
        ):
            with self.subTest(name=name), self.assertRaises(kind):
                self.sysfs.pf(name)

    def test_garbled_pf(self):
        self.tree.write(f"{PF}/vendor", "intel\n")
        with self.assertRaises(errors.BadState) as caught:
            self.sysfs.pf("eno1")
        self.assertIn("vendor is no PCI id", str(caught.exception))

    def test_garbled_number_of_vfs(self):
        self.tree.write(f"{PF}/sriov_totalvfs", "many\n")
        with self.assertRaises(errors.BadState) as caught:
            self.sysfs.pfs()
        self.assertIn("sriov_totalvfs: Invalid", str(caught.exception))

    def test_unreadable_driver(self):
        self.tree.remove(f"{PF}/driver")
        self.tree.write(f"{PF}/driver", "no link\n")
        with self.assertRaises(errors.BadState) as caught:
            self.sysfs.pf("eno1")
        self.assertIn("/driver: Invalid argument", str(caught.exception))

    def test_locate(self):
        self.assertEqual(VF, self.sysfs.locate("0000:3b:02.0"))
        self.assertEqual(VF, self.sysfs.locate("eno1v0"))

    def test_a_vf_is_one_whether_its_pf_has_an_interface_or_not(self):
        self.assertIs(True, self.sysfs.is_vf("0000:3b:02.0"))
        self.assertIs(False, self.sysfs.is_vf("0000:3b:00.0"))
        self.assertIs(False, self.sysfs.is_vf("0000:99:02.0"))

    def test_what_is_no_vf(self):
        for name, kind in (
            ("eno1", errors.NotAVf),
            ("eth0", errors.NotAVf),
            ("0000:3b:00.0", errors.NotAVf),
            ("0000:3b:07.0", errors.NoSuchDevice),
            ("eth7", errors.NoSuchDevice),
        ):
            with self.subTest(name=name), self.assertRaises(kind):
                self.sysfs.locate(name)

    def test_pf_without_an_interface_here(self):
        self.tree.remove(f"{PF}/net")
        with self.assertRaises(errors.NotAVf) as caught:
            self.sysfs.locate("0000:3b:02.0")
        self.assertIn("0000:3b:00.0 has no interface", str(caught.exception))

    def test_device(self):
        inner = f"{DEVICES}/{VF.address}/net/eno1v0"
        for name, text in (
            ("address", "52:54:00:12:34:56"),
            ("addr_assign_type", "1"),
            ("mtu", "1500"),
            ("flags", "0x1303"),
            ("upper_mv0/ifindex", "9"),
        ):
            self.tree.write(f"{inner}/{name}", f"{text}\n")
        self.tree.write(f"{DEVICES}/{VF.address}/numa_node", "0\n")
        found = self.sysfs.device(VF)
        self.assertEqual("iavf", found.driver)
        self.assertEqual("eno1v0", found.netdev)
        self.assertEqual("sriov-rt instance 7c", found.alias)
        self.assertEqual("52:54:00:12:34:56", found.mac)
        self.assertEqual(1, found.address_type)
        self.assertEqual(0, found.numa_node)
        self.assertTrue(found.promisc and found.allmulti and found.up)
        self.assertEqual(("mv0",), found.uppers)
        self.assertFalse(found.elsewhere)

    def test_device_without_an_interface(self):
        found = self.sysfs.device(VfId("eno1", 2, "0000:3b:02.2"))
        self.assertEqual("vfio-pci", found.driver)
        self.assertEqual(42, found.iommu_group)
        self.assertIsNone(found.netdev)
        self.assertIsNone(found.promisc)
        self.assertFalse(found.elsewhere)

    def test_interface_in_another_namespace(self):
        found = self.sysfs.device(VfId("eno1", 3, "0000:3b:02.3"))
        self.assertTrue(found.elsewhere)
        self.assertIsNone(found.netdev)

    def test_device_that_is_gone(self):
        with self.assertRaises(errors.NoSuchDevice):
            self.sysfs.device(VfId("eno1", 9, "0000:3b:03.1"))


class WriteTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.device = f"{DEVICES}/{VF.address}"
        for name in ("driver_override", "reset"):
            self.tree.write(f"{self.device}/{name}")
        self.tree.write("sys/bus/pci/drivers_probe")
        for driver in ("iavf", "vfio-pci"):
            self.tree.write(f"sys/bus/pci/drivers/{driver}/bind")
            self.tree.write(f"sys/bus/pci/d/{driver}/unbind")
        self.written = []
        write = os.write

        def note(descriptor, data):
            path = pathlib.Path(f"/proc/self/fd/{descriptor}").readlink()
            relative = os.path.relpath(path, self.tree.path.resolve())
            self.written.append((relative, data.decode()))
            return write(descriptor, data)

        patch = mock.patch.object(sysfs.os, "write", note)
        patch.start()
        self.addCleanup(patch.stop)

    def device_file(self, name):
        place = trees.X710.rpartition("/")[0]
        return f"sys/{place}/{VF.address}/{name}"

    def test_bind_to_guests(self):
        Sysfs(self.root).bind(VF, "vfio-pci")
        self.assertEqual(
            [
                ("sys/bus/pci/d/iavf/unbind", f"{VF.address}\n"),
                (self.device_file("driver_override"), "vfio-pci\n"),
                ("sys/bus/pci/drivers/vfio-pci/bind", f"{VF.address}\n"),
            ],
            self.written,
        )

    def test_bind_to_the_hosts_driver_leaves_no_override(self):
        Sysfs(self.root).bind(VF, "iavf")
        self.assertEqual(
            (self.device_file("driver_override"), "\n"), self.written[-1]
        )
        self.assertEqual(4, len(self.written))

    def test_driver_that_the_kernel_chooses(self):
        self.tree.remove(self.device_file("driver"))
        Sysfs(self.root).bind(VF, None)
        self.assertEqual(
            [
                (self.device_file("driver_override"), "\n"),
                ("sys/bus/pci/drivers_probe", f"{VF.address}\n"),
                (self.device_file("driver_override"), "\n"),
            ],
            self.written,
        )

    def test_driver_that_there_is_not(self):
        with self.assertRaises(errors.DriverMissing) as caught:
            Sysfs(self.root).bind(VF, "igb_uio")
        self.assertIn("modprobe", str(caught.exception))
        self.assertEqual([], self.written)

    def test_function_reset(self):
        Sysfs(self.root).flr(VF)
        self.assertEqual([(self.device_file("reset"), "1\n")], self.written)

    def test_number_of_vfs(self):
        self.tree.write(f"{PF}/sriov_drivers_autoprobe", "1\n")
        Sysfs(self.root).provision("eno1", 4, probe=False)
        self.assertEqual(
            [
                (f"{PF}/sriov_drivers_autoprobe", "0\n"),
                (f"{PF}/sriov_numvfs", "4\n"),
            ],
            self.written,
        )

    def test_vfs_for_which_there_is_no_room(self):
        """It is the room of the PF that lacks, not that of another VF."""

        def refuse(descriptor, data):
            if data == b"64\n":
                raise OSError(errno.ENOSPC, "full")

        self.tree.write(f"{PF}/sriov_drivers_autoprobe", "1\n")
        with (
            mock.patch.object(sysfs.os, "write", refuse),
            self.assertRaises(errors.VfsNotMade) as caught,
        ):
            Sysfs(self.root).provision("eno1", 64, probe=False)
        self.assertIn("eno1: vfs: No space left", str(caught.exception))

    def test_kernels_answer_is_named(self):
        def refuse(descriptor, data):
            raise OSError(errno.EBUSY, "busy")

        with (
            mock.patch.object(sysfs.os, "write", refuse),
            self.assertRaises(errors.VfBusy) as caught,
        ):
            Sysfs(self.root).flr(VF)
        self.assertEqual("eno1/0", caught.exception.device)
        self.tree.remove(self.device_file("reset"))
        with self.assertRaises(errors.NoSuchDevice):
            Sysfs(self.root).flr(VF)

    def test_nothing_is_written_outside_of_the_root(self):
        self.tree.write("../outside")
        self.addCleanup((self.tree.path / "../outside").unlink)
        self.tree.link("sys/leak", str(self.tree.path / "../outside"))
        with self.assertRaises(errors.NotPermitted):
            sysfs.write(self.root, "sys/leak", "1", "x")
        self.assertEqual([], self.written)


class AffinityTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.tree.write(f"{PF}/msi_irqs/40")
        self.tree.write(f"{PF}/msi_irqs/41")
        self.tree.write("proc/irq/40/eno1/x")
        self.tree.write("proc/irq/40/smp_affinity_list", "0-3\n")
        self.tree.write("proc/irq/40/effective_affinity_list", "1\n")
        self.tree.write("proc/irq/41/effective_affinity_list", "2\n")
        self.moves = []
        patch = mock.patch.multiple(
            affinity.os,
            sched_getaffinity=lambda pid: {0, 1, 2},
            sched_setaffinity=lambda pid, cpus: self.moves.append(set(cpus)),
        )
        patch.start()
        self.addCleanup(patch.stop)

    def enter(self):
        with affinity.away_from(self.root, "0000:3b:00.0") as cpus:
            return set(cpus)

    def test_off_the_mailboxs_cpu_and_back(self):
        self.assertEqual({0, 2}, self.enter())
        self.assertEqual([{0, 2}, {0, 1, 2}], self.moves)

    def test_back_after_an_error_too(self):
        with (
            self.assertRaises(ValueError),
            affinity.away_from(self.root, "0000:3b:00.0"),
        ):
            raise ValueError
        self.assertEqual({0, 1, 2}, self.moves[-1])

    def test_any_may_be_the_mailbox_if_none_has_its_name(self):
        self.tree.remove("proc/irq/40/eno1")
        self.assertEqual({0}, self.enter())

    def test_stays_where_there_is_no_other_cpu(self):
        self.tree.write("proc/irq/40/effective_affinity_list", "0-2\n")
        self.assertEqual({0, 1, 2}, self.enter())
        self.assertEqual([], self.moves)

    def test_interrupt_that_fires_nowhere_known(self):
        self.tree.remove("proc/irq/40")
        self.assertEqual({0, 1}, self.enter())

    def test_nothing_known_of_interrupts(self):
        self.tree.remove(f"{PF}/msi_irqs")
        self.assertEqual({0, 1, 2}, self.enter())
