# SPDX-License-Identifier: Apache-2.0

import errno
import os
from unittest import mock

from sriov_rt.codec import Unknown
from sriov_rt.devices.rules import Device
from sriov_rt.reason import Reason
from tests.unit.devices import fakes

VFIO = "/dev/vfio"


class ObserveTest(fakes.DevicesTest):
    def observe(self) -> Device:
        found = self.devices.observe(fakes.ADDRESS)
        self.assertIsInstance(found, Device, found)
        return found

    def test_an_idle_device(self):
        self.assertEqual(
            Device(
                address=fakes.ADDRESS,
                identity="8086:10c9",
                is_vf=False,
                vfs=0,
                driver="vfio-pci",
                methods=("flr", "bus"),
                holder=None,
                header=fakes.header(),
                errors={"fatal": 2, "nonfatal": 0},
            ),
            self.observe(),
        )

    def test_what_a_plain_device_does_not_have(self):
        for name in (
            *("driver", "iommu_group", "sriov_numvfs", "reset_method"),
            *("aer_dev_fatal", "aer_dev_nonfatal"),
        ):
            self.tree.remove(f"{fakes.DEVICE}/{name}")
        found = self.observe()
        self.assertEqual(
            (None, (), 0), (found.driver, found.methods, found.vfs)
        )
        self.assertEqual({}, found.errors)

    def test_a_method_of_none_is_none(self):
        self.tree.write(f"{fakes.DEVICE}/reset_method", "\n")
        self.assertEqual((), self.observe().methods)

    def test_a_vf(self):
        self.tree.write(f"{fakes.DEVICE}/physfn/vendor", "0x8086\n")
        self.assertTrue(self.observe().is_vf)

    def test_a_process_holds_its_group_or_itself(self):
        self.tree.write("proc/5151/comm", "qemu-system-x86\n")
        self.tree.link("proc/5151/fd/9", f"{VFIO}/41")
        self.assertEqual("pid 5151 qemu-system-x86", self.observe().holder)
        self.tree.remove("proc/5151/fd/9")
        self.assertIsNone(self.observe().holder)
        self.tree.write(f"{fakes.DEVICE}/vfio-dev/vfio3/dev", "511:3\n")
        self.tree.link("proc/5151/fd/9", f"{VFIO}/devices/vfio3")
        self.assertEqual("pid 5151 qemu-system-x86", self.observe().holder)

    def test_a_process_that_cannot_be_seen_may_hold_it(self):
        self.tree.write("proc/5151/fd", "a file")
        self.assertIsInstance(self.observe().holder, Unknown)

    def test_a_file_of_a_process_that_cannot_be_read_may_be_the_device(self):
        # Not a link, which root may read.
        self.tree.write("proc/5151/fd/9", "")
        self.assertIsInstance(self.observe().holder, Unknown)

    def test_in_a_container_nothing_is_known(self):
        self.sees_processes = False
        self.assertIsInstance(self.observe().holder, Unknown)

    def test_what_cannot_be_read_is_said(self):
        for name, data in (
            ("vendor", "8086\n"),
            ("device", "0x10c9 or so\n"),
            ("sriov_numvfs", "many\n"),
            ("sriov_numvfs", "-1\n"),
            ("config", fakes.header()[:32]),
            ("config", b""),
            ("aer_dev_fatal", "DLP 2\n"),
            ("aer_dev_fatal", "TOTAL_ERR_FATAL many\n"),
            ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL -1\n"),
            ("reset_method", "x" * 10_000),
        ):
            path = self.tree.path / fakes.DEVICE / name
            before = path.read_bytes()
            with self.subTest(name, data=data[:20]):
                self.tree.write(f"{fakes.DEVICE}/{name}", data)
                found = self.devices.observe(fakes.ADDRESS)
                self.assertIsInstance(found, Reason)
                self.assertEqual("device_unreadable", found.code)
                self.assertIn(name, found.message)
            path.write_bytes(before)
        for name in ("vendor", "config"):
            with self.subTest(name):
                self.tree.make_unreadable(f"{fakes.DEVICE}/{name}")
                found = self.devices.observe(fakes.ADDRESS)
                self.assertEqual("device_unreadable", found.code)
                self.tree.remove(f"{fakes.DEVICE}/{name}")

    def test_a_device_that_is_not_there(self):
        found = self.devices.observe("0000:42:00.0")
        self.assertEqual("device_missing", found.code)


class ResetTest(fakes.DevicesTest):
    def test_it_is_written_to_reset(self):
        self.assertIsNone(self.devices.reset(fakes.ADDRESS))
        self.assertTrue(self.was_reset())

    def test_what_the_kernel_refuses_is_the_reason(self):
        for code, clause in (
            (errno.ENOTTY, "Inappropriate ioctl"),
            (errno.EAGAIN, "EAGAIN"),
            (errno.EACCES, "EACCES"),
        ):
            error = OSError(code, os.strerror(code))
            with mock.patch.object(os, "write", side_effect=error):
                found = self.devices.reset(fakes.ADDRESS)
            self.assertEqual("device_not_reset", found.code)
            self.assertIn(clause, found.message)

    def test_a_device_without_the_file(self):
        self.tree.remove(f"{fakes.DEVICE}/reset")
        found = self.devices.reset(fakes.ADDRESS)
        self.assertEqual("device_not_reset", found.code)
