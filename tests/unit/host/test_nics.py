# SPDX-License-Identifier: Apache-2.0

import dataclasses
import errno
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.facts import Nic
from sriov_rt.facts import Vf
from sriov_rt.host import nics
from sriov_rt.host import vfs
from sriov_rt.host.root import Root
from tests.unit.host import trees

ENO1 = "sys/class/net/eno1"
QEMU = "pid 4242 qemu-system-x86 guest=instance-00000001"


class NicsTest(trees.TreeTest):
    def observe(self) -> tuple[Nic, ...]:
        return nics.observe(self.root).nics

    def vf(self, index: int) -> Vf:
        return self.observe()[0].vfs[index]

    def test_intel(self):
        eno1, _ = self.observe()
        self.assertEqual(
            Nic(
                name="eno1",
                address="0000:3b:00.0",
                driver="i40e",
                vendor="8086",
                device="1572",
                numa_node=0,
                speed_mbps=10000,
                carrier=True,
                mac="3c:fd:fe:00:00:01",
                mtu=9000,
                sriov_totalvfs=64,
                sriov_numvfs=4,
                vf_device="154c",
                link="ethernet",
                vfs=(),
            ),
            dataclasses.replace(eno1, vfs=()),
        )

    def test_virtual_functions_and_their_owners(self):
        self.assertEqual(
            (
                Vf(
                    0,
                    "0000:3b:02.0",
                    "iavf",
                    "eno1v0",
                    None,
                    "sriov-rt instance 7c",
                ),
                Vf(1, "0000:3b:02.1", "iavf", "eno1v1", None, None),
                Vf(2, "0000:3b:02.2", "vfio-pci", None, 42, QEMU),
                Vf(3, "0000:3b:02.3", "iavf", None, None, vfs.ELSEWHERE),
            ),
            self.observe()[0].vfs,
        )

    def test_solarflare(self):
        _, ens2f0 = self.observe()
        self.assertEqual("ens2f0", ens2f0.name)
        self.assertEqual(("1924", "0b03"), (ens2f0.vendor, ens2f0.device))
        self.assertIsNone(ens2f0.numa_node)
        self.assertEqual("1b03", ens2f0.vf_device)
        self.assertEqual(0, ens2f0.sriov_totalvfs)
        self.assertIs(False, ens2f0.carrier)
        self.assertEqual((), ens2f0.vfs)
        self.assertEqual(
            Unknown(
                "/sys/class/net/ens2f0/speed: the driver does not know it"
            ),
            ens2f0.speed_mbps,
        )

    def test_interface_that_is_down(self):
        self.take_down("eno1")
        eno1 = self.observe()[0]
        self.assertEqual(
            Unknown(f"/{ENO1}/speed: Invalid argument"), eno1.speed_mbps
        )
        self.assertEqual(
            Unknown(f"/{ENO1}/carrier: Invalid argument"), eno1.carrier
        )
        self.assertEqual("3c:fd:fe:00:00:01", eno1.mac)

    def test_each_fact_is_unknown_on_its_own(self):
        for path, field in (
            (f"{ENO1}/device/vendor", "vendor"),
            (f"{ENO1}/device/device", "device"),
            (f"{ENO1}/device/numa_node", "numa_node"),
            (f"{ENO1}/device/sriov_totalvfs", "sriov_totalvfs"),
            (f"{ENO1}/device/sriov_numvfs", "sriov_numvfs"),
            (f"{ENO1}/device/sriov_vf_device", "vf_device"),
            (f"{ENO1}/speed", "speed_mbps"),
            (f"{ENO1}/carrier", "carrier"),
            (f"{ENO1}/address", "mac"),
            (f"{ENO1}/mtu", "mtu"),
        ):
            whole = self.observe()[0]
            kept = (self.tree.path / path).read_text()
            for text in ("", "garbled!\n", "9" * 40):
                with self.subTest(path=path, text=text[:9]):
                    self.tree.write(path, text)
                    found = self.observe()[0]
                    why = getattr(found, field)
                    self.assertIsInstance(why, Unknown)
                    self.assertTrue(why.reason.startswith(f"/{path}: "), why)
                    self.assertEqual(
                        whole,
                        dataclasses.replace(
                            found, **{field: getattr(whole, field)}
                        ),
                    )
            self.tree.write(path, kept)

    def test_device_without_sriov(self):
        for name in ("sriov_totalvfs", "sriov_numvfs", "sriov_vf_device"):
            self.tree.remove(f"{ENO1}/device/{name}")
        eno1 = self.observe()[0]
        self.assertEqual(0, eno1.sriov_totalvfs)
        self.assertEqual(0, eno1.sriov_numvfs)
        self.assertIsNone(eno1.vf_device)

    def test_kernel_without_numa(self):
        self.tree.remove(f"{ENO1}/device/numa_node")
        self.assertIsNone(self.observe()[0].numa_node)

    def test_device_without_a_driver(self):
        self.tree.remove(f"{ENO1}/device/driver")
        self.assertIsNone(self.observe()[0].driver)

    def test_device_on_another_bus_is_none_of_ours(self):
        self.assertTrue((self.tree.path / "sys/class/net/eth0").is_symlink())
        self.assertEqual(
            ["eno1", "ens2f0"], [nic.name for nic in self.observe()]
        )

    def test_representors_are_no_nics(self):
        # openstack and Kubernetes clusters with mlx5 in switchdev mode.
        for index in range(4):
            name = f"eno1_{index}"
            port = f"pf0vf{index}\n"
            self.tree.netdev(trees.X710, name, phys_port_name=port)
        self.tree.netdev(trees.X710, "eno1_s88", phys_port_name="c1pf0sf88\n")
        self.tree.netdev(trees.X710, "eno1_hpf", phys_port_name="pf0\n")
        self.tree.write(f"{ENO1}/phys_port_name", "p0\n")
        eno1, ens2f0 = self.observe()
        self.assertEqual(("eno1", "ens2f0"), (eno1.name, ens2f0.name))
        self.assertEqual(4, len(eno1.vfs))

    def test_vfs_count_for_the_first_port_of_a_function(self):
        # mlx4 has both ports of a ConnectX-3 on one function.
        self.tree.write(f"{ENO1}/dev_port", "1\n")
        self.tree.netdev(trees.X710, "eno2", dev_port="0\n")
        by_name = {nic.name: nic for nic in self.observe()}
        self.assertEqual(4, len(by_name["eno2"].vfs))
        self.assertEqual((), by_name["eno1"].vfs)

    def test_link_types(self):
        for text, link in (
            ("1\n", "ethernet"),
            ("32\n", "infiniband"),
            ("512\n", "type 512"),
        ):
            with self.subTest(text):
                self.tree.write(f"{ENO1}/type", text)
                self.assertEqual(link, self.observe()[0].link)
        for each in ("phy80211", "wireless"):
            with self.subTest(each):
                self.tree.write(f"{ENO1}/{each}/name", "phy0\n")
                self.assertEqual("wifi", self.observe()[0].link)
                self.tree.remove(f"{ENO1}/{each}")

    def test_link_type_that_cannot_be_read(self):
        self.tree.write(f"{ENO1}/type", "ether\n")
        link = self.observe()[0].link
        self.assertIn(f"/{ENO1}/type: ", link.reason)

    def test_virtio(self):
        self.tree.pci_device(
            "devices/pci0000:00/0000:00:03.0",
            vendor="0x1af4",
            device="0x1041",
            driver="virtio-pci",
        )
        self.virtio("devices/pci0000:00/0000:00:03.0", "virtio0", "ens3")
        found = {nic.name: nic for nic in self.observe()}["ens3"]
        self.assertEqual("0000:00:03.0", found.address)
        self.assertEqual(("1af4", "1041"), (found.vendor, found.device))
        self.assertEqual("virtio-pci", found.driver)
        self.assertEqual((0, ()), (found.sriov_totalvfs, found.vfs))

    def test_vf_whose_interface_is_one_level_below(self):
        self.tree.remove("sys/class/net/eno1v1")
        device = f"sys/{trees.X710.rpartition('/')[0]}/0000:3b:02.1"
        self.tree.remove(f"{device}/net")
        self.virtio(device.removeprefix("sys/"), "virtio4", "eth4")
        self.assertEqual("eth4", self.vf(1).netdev)
        self.assertEqual(
            ["eno1", "ens2f0"], [nic.name for nic in self.observe()]
        )

    def virtio(self, device: str, virtio: str, name: str) -> None:
        """Add a virtio device with an interface to a PCI function."""
        self.tree.netdev(f"{device}/{virtio}", name, ifalias="")

    def test_bonding_masters_is_no_interface(self):
        self.tree.write("sys/class/net/bonding_masters", "bond0\n")
        self.assertEqual(2, len(self.observe()))

    def test_no_sysfs(self):
        self.tree.remove("sys/class/net")
        self.assertEqual(
            Unknown("/sys/class/net: No such file or directory"),
            self.observe(),
        )

    def test_vf_without_a_driver_is_nobodys(self):
        self.tree.remove("sys/bus/pci/devices/0000:3b:02.3/driver")
        self.tree.remove("sys/bus/pci/devices/0000:3b:02.3/net")
        self.assertEqual(
            Vf(3, "0000:3b:02.3", None, None, None, None), self.vf(3)
        )

    def test_alias_unreadable(self):
        path = "sys/class/net/eno1v0/ifalias"
        self.tree.make_unreadable(path)
        self.assertEqual(Unknown(f"/{path}: Is a directory"), self.vf(0).owner)
        self.assertEqual("eno1v0", self.vf(0).netdev)

    def test_vfio_device_that_nobody_holds(self):
        self.tree.remove("proc/4242/fd/30")
        self.assertIsNone(self.vf(2).owner)

    def test_drivers_that_give_a_vf_to_a_guest(self):
        for driver in ("vfio-pci", "mlx5_vfio_pci", "hisi-acc-vfio-pci"):
            self.assertTrue(vfs.is_vfio(driver), driver)
        for driver in (None, "iavf", "vfio", "vfio-pci-core-x", Unknown("x")):
            self.assertFalse(vfs.is_vfio(driver), driver)

    def test_a_variant_driver_s_vf_has_an_owner(self):
        device = "sys/bus/pci/devices/0000:3b:02.2"
        self.tree.remove(f"{device}/driver")
        self.tree.link(f"{device}/driver", "../bus/pci/d/mlx5_vfio_pci")
        vf = self.vf(2)
        self.assertEqual(("mlx5_vfio_pci", QEMU), (vf.driver, vf.owner))

    def test_vfio_device_held_through_iommufd(self):
        self.tree.remove("proc/4242/fd/30")
        self.tree.link("proc/4242/fd/30", "/dev/vfio/devices/vfio3")
        device = "sys/bus/pci/devices/0000:3b:02.2"
        self.tree.write(f"{device}/vfio-dev/vfio3/dev", "511:3\n")
        self.assertEqual(QEMU, self.vf(2).owner)

    def test_devices_of_iommufd_that_cannot_be_listed(self):
        """Somebody may hold it by one of them."""
        self.tree.remove("proc/4242/fd/30")
        path = "sys/bus/pci/devices/0000:3b:02.2/vfio-dev"
        self.tree.write(path, "no directory")
        self.assertIsInstance(self.vf(2).owner, Unknown)

    def test_holder_that_is_not_qemu(self):
        self.tree.write("proc/4242/comm", "dpdk-testpmd\n")
        self.tree.write("proc/4242/cmdline", "dpdk-testpmd\0-a\0")
        self.assertEqual("pid 4242 dpdk-testpmd", self.vf(2).owner)

    def test_guest_named_in_the_short_form(self):
        self.tree.write("proc/4242/cmdline", "qemu\0-name\0a,,b,process=x\0")
        self.assertEqual(
            "pid 4242 qemu-system-x86 guest=a,b", self.vf(2).owner
        )

    def test_holder_whose_name_cannot_be_read(self):
        self.tree.remove("proc/4242/comm")
        self.tree.write("proc/4242/cmdline", b"\xff\0")
        self.assertEqual("pid 4242", self.vf(2).owner)

    def test_files_of_a_process_that_may_not_be_seen(self):
        listed = Root.list_dir

        def list_dir(root, relative):
            if relative == "proc/4242/fd":
                return Unknown(f"/{relative}: Permission denied")
            return listed(root, relative)

        with mock.patch.object(Root, "list_dir", list_dir):
            owner = self.vf(2).owner
        self.assertEqual(Unknown("/proc/4242/fd: Permission denied"), owner)

    def test_a_file_of_a_process_that_may_not_be_read(self):
        self.tree.remove("proc/4242/fd/30")
        # No link, which root may read.
        self.tree.write("proc/4242/fd/30", "")
        self.assertIsInstance(self.vf(2).owner, Unknown)

    def test_process_that_ended_meanwhile(self):
        self.tree.link("proc/77", "gone")
        self.assertEqual(QEMU, self.vf(2).owner)

    def test_processes_are_not_looked_through_without_need(self):
        self.tree.remove("sys/bus/pci/devices/0000:3b:02.2/driver")
        self.assertEqual(0, self.looks_at_processes())

    def test_processes_are_looked_through_once(self):
        for index in range(4, 9):
            self.tree.vf(
                trees.X710, index, f"0000:3b:03.{index % 8}", driver="vfio-pci"
            )
        self.assertEqual(1, self.looks_at_processes())

    def looks_at_processes(self) -> int:
        """Return how often the host's processes are listed."""
        listed = Root.list_dir
        with mock.patch.object(
            Root, "list_dir", autospec=True, side_effect=listed
        ) as list_dir:
            self.observe()
        asked = [call.args[1] for call in list_dir.call_args_list]
        return asked.count("proc")

    def test_iommu_group_garbled(self):
        path = "sys/bus/pci/devices/0000:3b:02.2/iommu_group"
        self.tree.remove(path)
        self.tree.link(path, "../groups/x")
        self.assertIn(f"/{path}: ", self.vf(2).iommu_group.reason)

    def test_virtfn_that_leads_to_no_pci_device(self):
        path = f"{ENO1}/device/virtfn0"
        self.tree.remove(path)
        self.tree.link(path, "../virtio2")
        self.assertIn(f"/{path}: ", self.observe()[0].vfs.reason)

    def test_device_that_is_no_link(self):
        self.tree.write("sys/class/net/bad/device")
        self.assertEqual(
            Unknown("/sys/class/net/bad/device: Invalid argument"),
            self.observe(),
        )

    def test_whether_it_is_a_vf_cannot_be_told(self):
        self.tree.link(f"{ENO1}/device/physfn", "physfn")
        self.assertEqual(
            Unknown(
                f"/{ENO1}/device/physfn: Too many levels of symbolic links"
            ),
            self.observe(),
        )

    def test_interface_of_a_vf_cannot_be_told(self):
        path = "sys/bus/pci/devices/0000:3b:02.3/net"
        self.tree.remove(path)
        self.tree.write(path)
        wanted = Unknown(f"/{path}: Not a directory")
        self.assertEqual(wanted, self.vf(3).netdev)
        self.assertEqual(wanted, self.vf(3).owner)

    def test_interface_left_over_from_a_driver_is_nobodys(self):
        self.tree.remove("sys/bus/pci/devices/0000:3b:02.3/driver")
        self.assertIsNone(self.vf(3).owner)

    def test_virtfn_that_is_no_link(self):
        path = f"{ENO1}/device/virtfn0"
        self.tree.remove(path)
        self.tree.write(path)
        self.assertEqual(
            Unknown(f"/{path}: Invalid argument"), self.observe()[0].vfs
        )

    def test_vfs_taken_away_meanwhile(self):
        read_link = Root.read_link

        def gone(root, relative):
            if relative.endswith("virtfn0"):
                return None
            return read_link(root, relative)

        with mock.patch.object(Root, "read_link", gone):
            indices = [vf.index for vf in self.observe()[0].vfs]
        self.assertEqual([1, 2, 3], indices)

    def test_device_that_cannot_be_listed(self):
        list_dir = Root.list_dir

        def fail(root, relative):
            if relative == f"{ENO1}/device":
                return Unknown(f"/{relative}: Input/output error")
            return list_dir(root, relative)

        with mock.patch.object(Root, "list_dir", fail):
            eno1 = self.observe()[0]
        self.assertEqual(
            Unknown(f"/{ENO1}/device: Input/output error"), eno1.vfs
        )
        self.assertEqual("i40e", eno1.driver)

    def test_holders_without_procfs(self):
        self.tree.remove("proc")
        self.assertEqual(
            Unknown("/proc: No such file or directory"), self.vf(2).owner
        )

    def test_descriptor_that_is_no_link(self):
        self.tree.write("proc/4242/fd/3")
        self.assertEqual(QEMU, self.vf(2).owner)

    def test_read_error_is_kept(self):
        self.fail_reading(f"{ENO1}/device/sriov_numvfs", errno.EIO)
        self.assertEqual(
            Unknown(f"/{ENO1}/device/sriov_numvfs: Input/output error"),
            self.observe()[0].sriov_numvfs,
        )
