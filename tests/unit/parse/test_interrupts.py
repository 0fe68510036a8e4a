# SPDX-License-Identifier: Apache-2.0

import contextlib
import pathlib
import unittest

import hypothesis
from hypothesis import strategies

from sriov_rt.parse import errors
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.parse.interrupts import parse_interrupts

#: CPU 2 is offline.
TEXT = """\
            CPU0       CPU1       CPU3
   1:          9          0          0  IO-APIC   1-edge      i8042
  45:          7          0        123  PCI-MSI-0000:3b:00.0   1-edge      e-1
  46:          7          0
  47:          7          x          3  PCI-MSI
  48:          7          1          2
 LOC:    2000000    3000000    4000000   Local timer interrupts
 ERR:          0
"""


class InterruptsTest(unittest.TestCase):
    def test_counts_by_cpu(self):
        self.assertEqual(
            {
                1: ("i8042", {1: 0, 3: 0}),
                45: ("e-1", {1: 0, 3: 123}),
                48: ("", {1: 1, 3: 2}),
            },
            parse_interrupts(TEXT, CpuSet((1, 2, 3))),
        )

    def test_this_machine(self):
        text = pathlib.Path("/proc/interrupts").read_text()
        for _, counts in parse_interrupts(text, CpuSet((0,))).values():
            self.assertEqual([0], list(counts))

    def test_other_texts_are_refused(self):
        for text in ("", "x\n", "1: 2 3\n"):
            with self.subTest(text), self.assertRaises(errors.ParseError):
                parse_interrupts(text, CpuSet())

    @hypothesis.settings(derandomize=True, deadline=None)
    @hypothesis.given(
        strategies.integers(0, len(TEXT)), strategies.text(max_size=12)
    )
    def test_any_text_is_taken_or_refused(self, place, other):
        with contextlib.suppress(errors.ParseError):
            parse_interrupts(
                TEXT[:place] + other + TEXT[place + 3 :], CpuSet((1, 3))
            )
