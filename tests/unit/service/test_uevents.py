# SPDX-License-Identifier: Apache-2.0

import errno
import socket
import threading
import unittest

from sriov_rt.service import uevents
from tests.unit.agent import fakes

VF_ADDED = (
    b"add@/devices/pci0000:00/0000:00:04.0/0000:01:10.0\0ACTION=add\0"
    b"DEVPATH=/devices/pci0000:00/0000:00:04.0/0000:01:10.0\0"
    b"SUBSYSTEM=pci\0PCI_ID=8086:10CA\0SEQNUM=4711\0"
)


class FakeSocket:
    """Gives what a test put in; then times out."""

    def __init__(self, *given):
        self.given = list(given)
        self.closed = False

    def recvfrom(self, size):
        if not self.given:
            raise TimeoutError
        each = self.given.pop(0)
        if isinstance(each, Exception):
            raise each
        return each

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.closed = True


class SubsystemTest(unittest.TestCase):
    def test_it_is_read_from_the_event(self):
        self.assertEqual("pci", uevents.subsystem(VF_ADDED))

    def test_garbled_events_have_none(self):
        for message in (b"", b"\0", b"add@/x", b"SUBSYSTEM=net", b"\xff" * 9):
            with self.subTest(message):
                self.assertIsNone(uevents.subsystem(message))


class ReceiveTest(unittest.TestCase):
    def _receive(self, *given):
        return uevents.receive(FakeSocket(*given))

    def test_a_device_of_ours_is_an_event(self):
        self.assertTrue(self._receive((VF_ADDED, (0, 1))))

    def test_a_cpu_that_goes_offline_is_an_event(self):
        offline = (
            b"offline@/devices/system/cpu/cpu3\0ACTION=offline\0"
            b"DEVPATH=/devices/system/cpu/cpu3\0SUBSYSTEM=cpu\0SEQNUM=9\0"
        )
        self.assertTrue(self._receive((offline, (0, 1))))

    def test_other_devices_are_none(self):
        other = VF_ADDED.replace(b"SUBSYSTEM=pci", b"SUBSYSTEM=block")
        self.assertFalse(self._receive((other, (0, 1))))

    def test_only_the_kernel_is_believed(self):
        self.assertFalse(self._receive((VF_ADDED, (4242, 1))))

    def test_silence_is_no_event(self):
        self.assertFalse(self._receive())

    def test_lost_events_count_as_one(self):
        self.assertTrue(self._receive(OSError(errno.ENOBUFS, "lost")))

    def test_a_broken_socket_is_an_error(self):
        with self.assertRaises(OSError):
            self._receive(OSError(errno.EBADF, "closed"))


class UeventsTest(unittest.TestCase):
    def test_events_are_told_until_it_is_stopped(self):
        told = threading.Event()
        fake = FakeSocket((VF_ADDED, (0, 1)))
        events = uevents.Uevents(told.set, lambda: fake)
        events.start()
        self.assertTrue(told.wait(5))
        events.stop()
        fakes.wait_for(lambda: fake.closed)

    def test_without_a_socket_the_operator_is_told_what_is_lost(self):
        def opener():
            raise PermissionError(errno.EPERM, "not permitted")

        events = uevents.Uevents(lambda: None, opener)
        with self.assertLogs("sriov_rt.service.uevents", "WARNING") as logs:
            events.start()
            fakes.wait_for(lambda: logs.output)
        self.assertIn("Allow AF_NETLINK", logs.output[0])

    def test_the_kernel_gives_a_socket(self):
        try:
            opened = uevents.open_socket()
        except OSError as error:
            self.skipTest(f"no uevents here: {error}")
        with opened:
            self.assertEqual(socket.AF_NETLINK, opened.family)
            self.assertEqual(uevents.KERNEL_GROUP, opened.getsockname()[1])
