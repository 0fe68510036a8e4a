# SPDX-License-Identifier: Apache-2.0

import unittest

import hypothesis
from hypothesis import strategies as st

from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.timerlat import Timerlat
from tests.unit.verify import recorded

WHOLE = recorded.read("timerlat-6.1.txt")


def parse(output):
    return Timerlat(Timerlat.default_step(900)).parse(output)


class TimerlatTest(unittest.TestCase):
    def test_recorded(self):
        _, cpus, _ = parse(WHOLE)
        self.assertEqual([2, 3], [each.cpu for each in cpus])
        self.assertEqual([3029, 3161], [each.samples for each in cpus])
        self.assertEqual([80334, 78611], [each.max_us for each in cpus])
        self.assertEqual((0, 325), cpus[0].histogram[0])
        # The thread's column, and what it says is over.
        self.assertEqual([77, 77], [each.overflows for each in cpus])

    def test_all_above_the_histogram(self):
        _, (cpu,), _ = parse(recorded.read("timerlat-6.1-overflow.txt"))
        self.assertEqual(
            (1954, 70625, ()), (cpu.samples, cpu.max_us, cpu.histogram)
        )

    def test_recorded_on_6_12(self):
        _, cpus, _ = parse(recorded.read("timerlat-6.12.txt"))
        self.assertEqual(
            [(2, 2979, 4932, 19), (3, 2977, 5571, 17)],
            [(x.cpu, x.samples, x.max_us, x.overflows) for x in cpus],
        )

    def test_later_versions(self):
        """They have decimals, a summary of all CPUs, and a last line."""
        rows = (
            "Index   IRQ-002   Thr-002   IRQ-003   Thr-003",
            "0             9         0         9         0",
            "5             1        10         0         9",
            "over:         0         0         1         1",
            "count:       10        10        10        10",
            "min:          0         5         0         5",
            "avg:       0.50      5.00      2.10      9.90",
            "max:          5         5        21        49",
            "ALL:        IRQ       Thr",
            "count:       20        20",
            "min:          0         5",
            "avg:       1.30      7.45",
            "max:         21        49",
            "rtla timerlat hit stop tracing",
        )
        _, cpus, _ = parse("\n".join(rows).encode())
        self.assertEqual(
            [(2, 10, 5, 0), (3, 10, 49, 1)],
            [(x.cpu, x.samples, x.max_us, x.overflows) for x in cpus],
        )

    def test_threads_of_user_space(self):
        """They have a third column, of the return to it."""
        rows = (
            "Index  IRQ-002 Thr-002 Usr-002 IRQ-003 Thr-003 Usr-003",
            "0               9      0      0      9      0      0",
            "5               1     10      9      0      9      0",
            "over:       0      0      1      1      1     10",
            "count:    10     10     10     10     10     10",
            "min:         0      5      5      0      5      8",
            "avg:      0.50   5.00   6.00   2.10   9.90   9.95",
            "max:         5      5     12     21     49     52",
            "ALL:        IRQ       Thr       Usr",
            "count:    20     20     20",
            "min:         0      5      5",
            "avg:      1.30   7.45   7.98",
            "max:        21     49     52",
        )
        _, cpus, _ = parse("\n".join(rows).encode())
        self.assertEqual(
            [(2, 10, 12, 1), (3, 10, 52, 10)],
            [(x.cpu, x.samples, x.max_us, x.overflows) for x in cpus],
        )

    def test_a_stopped_trace_has_no_return_of_its_last_sample(self):
        rows = (
            "Index   IRQ-002   Thr-002   Usr-002",
            "over:         0         1         0",
            "count:        2         2         1",
            "min:          0         5         8",
            "avg:       1.00     37.50      8.00",
            "max:          2        70         8",
            "rtla timerlat hit stop tracing",
        )
        _, (cpu,), _ = parse("\n".join(rows).encode())
        self.assertEqual(70, cpu.max_us)

    def test_garbled(self):
        for output in (
            b"",
            b"Index\n",
            b"Index   IRQ-002   Thr-003\ncount: 1 1\nmax: 1 1\n",
            b"Index   IRQ-002   Usr-002\ncount: 1 1\nmax: 1 1\n",
            b"Index   IRQ-002   Thr-002   Usr-003\ncount: 1 1 1\nmax: 1 1 1\n",
            b"Index   IRQ-002   Thr-002\ncount: 1 1\n",
            b"Index   IRQ-002   Thr-002\ncount: 1 x\nmax: 1 1\n",
            b"Index   IRQ-002   Thr-002\ncount: 1 1\nmax: 1 99999999999\n",
            b"Index   IRQ-002   Thr-002\n0 5 5\ncount: 1 1\nmax: 1 1\n",
            b"x\n" * (200_000),
        ):
            with self.subTest(output[:60]), self.assertRaises(OutputInvalid):
                parse(output)

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.binary(max_size=300))
    def test_anything(self, output):
        with self.assertRaises(OutputInvalid):
            parse(output)

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.integers(0, len(WHOLE) - 40))
    def test_cut_anywhere(self, end):
        with self.assertRaises(OutputInvalid):
            parse(WHOLE[:end])
