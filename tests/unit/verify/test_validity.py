# SPDX-License-Identifier: Apache-2.0

import os
import tempfile
import unittest

from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import validity
from sriov_rt.verify.measurement import CpuLatency
from tests.unit.host import trees

CPUS = CpuSet((2, 3))


def moment(at=0.0, boottime=None, realtime=None, steal=()):
    return validity.Moment(
        monotonic=at,
        boottime=at if boottime is None else boottime,
        realtime=1e9 + (at if realtime is None else realtime),
        steal=dict(steal),
    )


class ClocksTest(unittest.TestCase):
    def found(self, after, before=None):
        return list(validity.clocks(before or moment(), after, CPUS))

    def test_nothing_happened(self):
        self.assertEqual([], self.found(moment(900.0)))

    def test_slewing_is_no_step(self):
        self.assertEqual([], self.found(moment(900.0, realtime=900.4)))

    def test_suspended(self):
        (sentence,) = self.found(moment(900.0, boottime=960.0, realtime=960))
        self.assertEqual("the host was suspended for 60.0 s", sentence)

    def test_clock_step(self):
        (sentence,) = self.found(moment(900.0, realtime=840.0))
        self.assertEqual("the clock was set by -60.0 s", sentence)

    def test_steal_time_of_what_was_measured(self):
        before = moment(steal={0: 1, 2: 5, 3: 5})
        (sentence,) = self.found(moment(9.0, steal={0: 9, 2: 5, 3: 6}), before)
        self.assertIn("from CPU 3 ", sentence)


class SamplesTest(unittest.TestCase):
    def found(self, *cpus, expected=1000):
        return list(validity.samples(cpus, CPUS, expected))

    def test_enough(self):
        self.assertEqual(
            [], self.found(CpuLatency(2, 990, 5), CpuLatency(3, 1000, 5))
        )

    def test_a_stall_is_told(self):
        (sentence,) = self.found(CpuLatency(2, 989, 5), CpuLatency(3, 1000, 5))
        self.assertIn("CPU 2 has 989 of 1000 samples (98.9 %)", sentence)

    def test_a_cpu_is_missing(self):
        self.assertEqual(
            ["CPU 3 was not measured"], self.found(CpuLatency(2, 1000, 5))
        )

    def test_another_cpu(self):
        found = self.found(
            CpuLatency(1, 9, 5), CpuLatency(2, 1000, 5), expected=0
        )
        self.assertIn("CPU 1 was measured in place of another", found)


class ThreadsTest(unittest.TestCase):
    def test_this_process_has_none(self):
        (sentence,) = validity.threads(os.getpid(), CPUS, 95)
        self.assertIn("CPU 2, 3 has no thread under SCHED_FIFO 95", sentence)

    def test_a_process_that_is_gone(self):
        self.assertTrue(validity.threads(2**22 + 1, CPUS, 95))


class StealTest(unittest.TestCase):
    def test_stat(self):
        with tempfile.TemporaryDirectory() as place:
            tree = trees.Tree(place)
            tree.write(
                "proc/stat",
                "cpu  1 2 3 4 5 6 7 99 0 0\n"
                "cpu0 1 2 3 4 5 6 7 8 9 10\n"
                "cpu1 1 2 3\n"
                "cpux 1 2 3 4 5 6 7 8\n"
                "intr 5\n",
            )
            self.assertEqual({0: 8}, validity.now(Root(place)).steal)
