# SPDX-License-Identifier: Apache-2.0

import pathlib
import tempfile
import unittest

from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import hwlat
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.measurement import Step
from tests.unit.verify import recorded

STEP = Step("hwlat", 0, threshold_us=10)


class ParseTest(unittest.TestCase):
    def test_recorded(self):
        cpus = hwlat.parse(recorded.read("hwlat-6.1.txt"))
        self.assertEqual(
            [(2, 3, 185904), (3, 3, 421708)],
            [(each.cpu, each.samples, each.max_us) for each in cpus],
        )

    def test_lines_of_other_kernels(self):
        """Before 5.18 without a count, and with the NMIs of a gap."""
        place = b"<...>-9 [003] d.... 452.055944: #1     inner/outer(us):   "
        at = b"    ts:1499801089.066141940"
        for gap, more, worst in (
            (b"12/14", b"", 14),
            (b"11/9", b" count:3", 11),
            (b"1/32", b" count:1 nmi-total:4 nmi-count:1", 32),
        ):
            line = b"".join((place, gap, at, more, b"\n"))
            with self.subTest(line):
                (found,) = hwlat.parse(b"# tracer: hwlat\n" + line)
                self.assertEqual(
                    (3, 1, worst), (found.cpu, found.samples, found.max_us)
                )

    def test_no_gap(self):
        self.assertEqual([], hwlat.parse(b"# tracer: hwlat\n#\n"))

    def test_garbled(self):
        for trace in (b"", b"# tracer: nop\n", b"\xff"):
            with self.subTest(trace), self.assertRaises(OutputInvalid):
                hwlat.parse(trace)


class MaskTest(unittest.TestCase):
    def test_masks(self):
        for cpus, text in (
            ((), "0"),
            ((2, 3), "c"),
            ((31,), "80000000"),
            ((32,), "1,00000000"),
            ((0, 64), "1,00000000,00000001"),
        ):
            self.assertEqual(text, hwlat.mask(CpuSet(cpus)))


class TracefsTest(unittest.TestCase):
    """On a directory in tracefs's place; the VM tests have the real one."""

    def setUp(self):
        super().setUp()
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.tracing = pathlib.Path(place.name)
        (self.tracing / "instances").mkdir()
        (self.tracing / "hwlat_detector").mkdir()
        for name, text in (
            ("available_tracers", "hwlat nop"),
            ("tracing_thresh", "7"),
            ("hwlat_detector/width", "1"),
            ("hwlat_detector/window", "2"),
        ):
            (self.tracing / name).write_text(text)

    def run_it(self):
        return hwlat.measure(
            STEP, CpuSet((2, 3)), self.tracing, lambda elapsed: None
        )

    def test_what_it_set_is_as_it_was_after_a_failure(self):
        # A plain directory has no file "trace", as a tracer's would.
        with self.assertRaises(OSError):
            self.run_it()
        self.assertEqual("7", (self.tracing / "tracing_thresh").read_text())
        self.assertEqual(
            "1", (self.tracing / "hwlat_detector/width").read_text()
        )
