# SPDX-License-Identifier: Apache-2.0

"""Documents are read with suspicion, in bounded time and memory."""

import unittest

from sriov_rt.guest import xml


class CpusetTest(unittest.TestCase):
    def test_as_libvirt_reads_them(self):
        for text, cpus in (
            ("3", {3}),
            ("0-3", {0, 1, 2, 3}),
            ("0-3,^1", {0, 2, 3}),
            ("0-7,^1-2,^4", {0, 3, 5, 6, 7}),
            ("1,3,5", {1, 3, 5}),
            ("4095", {4095}),
            # From left to right: seen with libvirt 9.0.
            ("1-4,^3,6", {1, 2, 4, 6}),
            ("0-3,^1,1", {0, 1, 2, 3}),
            ("^1,0-3", {0, 1, 2, 3}),
        ):
            with self.subTest(text=text):
                self.assertEqual(cpus, xml.cpuset(text))

    def test_no_cpuset(self):
        for text in (
            "",
            "3-1",
            "a",
            "0-",
            "-1",
            "١",
            "1_0",
            "4000000000",
            "0-4000000000",
            "0-99999",
            "9999999",
            "8192",
            "1,^1",
        ):
            with (
                self.subTest(text=text),
                self.assertRaises(xml.DomainRejected),
            ):
                xml.cpuset(text)
