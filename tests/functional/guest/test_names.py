# SPDX-License-Identifier: Apache-2.0

"""The audit of a real guest of libvirt's, which others meddle with."""

import os
import subprocess
import sys
import unittest

from sriov_rt.facts import CpuSet
from sriov_rt.guest import running
from sriov_rt.guest import state
from sriov_rt.guest.domain import parse_domain
from sriov_rt.host import occupancy
from sriov_rt.host import vfio
from sriov_rt.host.root import Root
from tests.testbed import identity
from tests.unit.guest.test_state import DOMAIN
from tests.unit.guest.test_state import UUID

#: Three threads, of which the first two have names that are no UTF-8, and a
#: child that has one, too. It prints their numbers.
PROGRAM = r"""
import ctypes, os, subprocess, sys, tempfile, threading
SET_NAME = 15  # PR_SET_NAME of prctl(2)
libc = ctypes.CDLL(None)
def name(text):
    assert libc.prctl(SET_NAME, text, 0, 0, 0) == 0
def run(text, there):
    name(text)
    there.wait()
    threading.Event().wait()
name(b"init \xff) S 1")
there = threading.Barrier(3)
for text in (b"\xe4\xf6\xfc", b"plain"):
    threading.Thread(target=run, args=(text, there), daemon=True).start()
there.wait()
kept = tempfile.NamedTemporaryFile(prefix=b"caf\xe9")
child = subprocess.Popen(
    ["sleep", "60"], preexec_fn=lambda: name(b"\xff"), stdin=0)
print(*sorted(map(int, os.listdir("/proc/self/task"))), child.pid, flush=True)
sys.stdin.read()
child.kill()
"""


class NamesTest(unittest.TestCase):
    """A process names its threads and its files by any bytes."""

    def setUp(self):
        super().setUp()
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.wait, 60)
        for stream in (process.stdin, process.stdout):
            self.addCleanup(stream.close)
        *self.threads, self.child = map(int, process.stdout.readline().split())
        self.process = process.pid
        self.root = Root()

    def test_each_thread_of_a_guest_is_found(self):
        guest = running.Guest(UUID, self.process, parse_domain(DOMAIN))
        found = state.threads(self.root, guest)
        self.assertEqual(self.threads, [each.thread for each in found])

    def test_each_thread_on_a_pcpu_is_found(self):
        every = CpuSet(range(4096))
        found = {
            each.thread: each.name
            for each in occupancy.on_cpus(
                self.root, {self.process: UUID}, every
            )
            if each.instance == UUID
        }
        self.assertEqual(self.threads, sorted(found))
        self.assertEqual("plain", found[self.threads[2]])
        self.assertEqual("\ufffd\ufffd\ufffd", found[self.threads[1]])

    def test_a_containers_processes_are_its_own(self):
        parent = self.root.read_text(f"proc/{self.process}/status")
        self.assertIn("Name:\tinit \ufffd) S 1\n", parent)
        found = running.below(self.root, {os.getpid(): UUID})
        self.assertLessEqual({self.process, self.child}, found.keys())

    def test_a_file_hides_no_vfio_device(self):
        (name,) = (
            link
            for each in self.root.list_dir(f"proc/{self.process}/fd")
            if "caf"
            in (link := self.root.read_link(f"proc/{self.process}/fd/{each}"))
        )
        self.assertIn("/caf\ufffd", name)
        held = vfio.Holders(self.root).of("sys/bus/pci/devices/none", 0)
        self.assertNotIn("UTF-8", str(held))

    def test_the_test_beds_processes_are_found(self):
        own = identity.ProcessId.of(self.process)
        self.assertTrue(own.alive)
        found = {each.pid for each in identity.family(own)}
        self.assertLessEqual({self.process, self.child}, found)
