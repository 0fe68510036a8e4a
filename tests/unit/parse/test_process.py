# SPDX-License-Identifier: Apache-2.0

import contextlib
import pathlib
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.parse import errors
from sriov_rt.parse import process

#: Of a vCPU of QEMU: FIFO 1, last on CPU 3.
STAT = (
    "4712 (CPU 0/KVM) S 1 4700 4700 0 -1 4194368 1 0 0 0 5 7 0 0 -2 0 4 0 "
    "900 2000000 3000 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 -1 3 1 1 "
    "0 0 0 0 0 0 0 0 0 0 0\n"
)


class StatTest(unittest.TestCase):
    def test_a_realtime_thread(self):
        found = process.parse_stat(STAT)
        self.assertEqual(
            process.Stat(
                *(4712, "CPU 0/KVM", False, 3, 1, "fifo"),
                parent=1,
                is_bound=False,
                ticks=12,
                started=900,
            ),
            found,
        )

    def test_this_process(self):
        found = process.parse_stat(pathlib.Path("/proc/self/stat").read_text())
        self.assertEqual("other", found.policy)
        self.assertFalse(found.is_kernel)

    def test_a_name_may_look_like_fields(self):
        text = STAT.replace("CPU 0/KVM", "x) R 1 (\n")
        self.assertEqual("x) R 1 (?", process.parse_stat(text).name)

    def test_other_texts_are_refused(self):
        for text in ("", "1 (x) S 1", STAT.replace(" 900", " x"), "1" * 9000):
            with self.subTest(text[:20]), self.assertRaises(errors.ParseError):
                process.parse_stat(text)

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(
        strategies.integers(0, 200), strategies.text(max_size=12)
    )
    def test_any_text_is_taken_or_refused(self, place, other):
        with contextlib.suppress(errors.ParseError):
            process.parse_stat(STAT[:place] + other + STAT[place + 3 :])


class StatusTest(unittest.TestCase):
    def test_fields(self):
        found = process.parse_status(
            "Name:\tqemu\nVmLck:\t    4096 kB\nCpus_allowed_list:\t0-1\n"
        )
        self.assertEqual("0-1", found["Cpus_allowed_list"])
        self.assertEqual(4096, process.kib(found, "VmLck"))

    def test_what_is_not_there_is_nothing(self):
        for value in ({}, {"VmLck": "x kB"}, {"VmLck": "1 MB"}):
            with self.subTest(value):
                self.assertEqual(0, process.kib(value, "VmLck"))


class PlaceTest(unittest.TestCase):
    def test_whom_a_process_belongs_to(self):
        pod = "3b7e1f90-1111-2222-3333-3b7e1f903b7e"
        longest = "ab" * 32
        for path, expected in (
            ("/", process.Place()),
            ("/system.slice/a.service", process.Place("a.service")),
            (
                f"/system.slice/docker-{longest}.scope",
                process.Place("docker-abababababab.scope"),
            ),
            (f"/docker/{longest}", process.Place("abababababab")),
            (
                f"/kubepods/burstable/pod{pod}/{longest}",
                process.Place("abababababab", pod),
            ),
            (
                r"/machine.slice/machine-qemu\x2d1\x2da.scope/libvirt/vcpu0",
                process.Place(r"machine-qemu\x2d1\x2da.scope", is_guest=True),
            ),
            (
                "/machine/qemu-1-a.libvirt-qemu/vcpu0",
                process.Place(is_guest=True),
            ),
            # What root in a container may name so.
            (
                "/docker.slice/a.scope/machine/x.libvirt-qemu",
                process.Place("a.scope"),
            ),
        ):
            for text in (f"0::{path}\n", f"1:name=systemd:{path}\n0::/\n"):
                with self.subTest(text):
                    self.assertEqual(expected, process.parse_place(text))

    def test_any_text(self):
        for text in ("", "x", "0::", ":" * 999, "\x1b/\x1b.service"):
            self.assertTrue(process.parse_place(text).unit.isprintable())
        with self.assertRaises(errors.ParseError):
            process.parse_place("x" * 9000)
