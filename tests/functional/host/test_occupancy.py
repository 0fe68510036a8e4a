# SPDX-License-Identifier: Apache-2.0

"""Threads of this machine that are pinned, seen and named in its /proc."""

import dataclasses
import os
import subprocess
import sys
import time
import unittest

from sriov_rt.facts import CpuSet
from sriov_rt.host import occupancy
from sriov_rt.host.root import Root
from tests.functional import pinned
from tests.unit import builders

#: It pins itself to a CPU, gives itself a name, says so, and spins.
PROGRAM = r"""
import ctypes, os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
ctypes.CDLL(None).prctl(15, b"pmd-\xff) R 1")
print(flush=True)
while True:
    pass
"""

#: Seconds within which a thread that is ready runs on a loaded machine.
RUNS_S = 60


@unittest.skipUnless(
    len(os.sched_getaffinity(0)) > 1, "a CPU is to be left for the host"
)
class ThisMachineTest(unittest.TestCase):
    """Two looks at a machine whose last CPU is for guests."""

    def setUp(self):
        super().setUp()
        self.enterContext(pinned.alone())
        self.cpu = max(os.sched_getaffinity(0))
        whole = builders.realtime_host()
        online = CpuSet(os.sched_getaffinity(0))
        cpus = dataclasses.replace(
            whole.cpus, online=online, isolated=CpuSet()
        )
        compute = dataclasses.replace(
            whole.compute, dedicated=CpuSet((self.cpu,))
        )
        self.given = cpus, compute, whole.irqs
        self.occupancy = occupancy.Occupancy(Root())

    def look(self):
        found = self.occupancy.observe(*self.given)
        self.assertEqual(0, found.unread)
        return {
            each.thread: each
            for each in found.occupants
            if each.kind == "thread"
        }

    def spinning(self):
        """Return a program that spins on the CPU."""
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(self.cpu)],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait, 60)
        self.addCleanup(program.kill)
        program.stdout.readline()
        return program

    def share(self, program):
        """Return a program's share, once it has one.

        Others may have the CPU for as long as the first observation takes.
        """
        share, deadline = 0, time.monotonic() + RUNS_S
        while not share and time.monotonic() < deadline:
            time.sleep(occupancy.FIRST_LOOK_S)
            share = self.look()[program.pid].share
        return share

    def test_a_busy_thread_is_named_and_gone(self):
        program = self.spinning()
        # The first observation takes two looks.
        row = self.look()[program.pid]
        self.assertEqual(("pinned", "pmd-\ufffd) R 1"), (row.state, row.name))
        self.assertEqual(CpuSet((self.cpu,)), row.cpus)
        self.assertGreater(self.share(program), 0)
        program.kill()
        program.wait(60)
        self.assertIn(program.pid, self.look())
        self.assertNotIn(program.pid, self.look())

    def test_a_thread_that_moves_away(self):
        program = self.spinning()
        self.assertIn(program.pid, self.look())
        others = os.sched_getaffinity(0) - {self.cpu}
        os.sched_setaffinity(program.pid, others)
        self.look()
        self.assertNotIn(program.pid, self.look())
