# SPDX-License-Identifier: Apache-2.0

"""The audit of a real guest of libvirt's, which others meddle with."""

import subprocess
import time
import unittest

from sriov_rt.agent import audit
from sriov_rt.guest import thread_plan
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.functional.libvirt import daemon
from tests.unit import builders

UUID = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"

DOMAIN = f"""<domain type='qemu'>
  <name>rt</name>
  <uuid>{UUID}</uuid>
  <memory unit='MiB'>32</memory>
  <vcpu>1</vcpu>
  <metadata>
    <sriov_rt:guest class='bare' version='1' realtime='yes'
     xmlns:sriov_rt='https://docs.openstack.org/sriov-rt/guest/1.0'/>
  </metadata>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cputune>
    <vcpupin vcpu='0' cpuset='1'/>
    <emulatorpin cpuset='0'/>
    <vcpusched vcpus='0' scheduler='fifo' priority='1'/>
  </cputune>
  <devices>
    <controller type='usb' model='none'/>
    <controller type='pci' index='0' model='pcie-root'/>
    <controller type='pci' index='1' model='pcie-root-port'/>
    <memballoon model='none'/>
  </devices>
</domain>"""
RNG = """<rng model='virtio'>
  <backend model='random'>/dev/urandom</backend>
</rng>"""

MOVED = ("guest_thread_moved", "vcpu 0")
RESCHEDULED = ("guest_thread_rescheduled", "vcpu 0")


@daemon.needs_qemu
@daemon.needs_root
class AuditTest(unittest.TestCase):
    def setUp(self):
        self.libvirt = daemon.Libvirt()
        self.addCleanup(self.libvirt.close)
        done = self.libvirt.define(DOMAIN)
        self.assertEqual(0, done.returncode, done.stderr)
        done = self.libvirt.virsh("start", "rt")
        self.assertEqual(0, done.returncode, done.stderr)
        self.root = Root(f"/proc/{self.libvirt.process.pid}/root")
        self.guest = thread_plan.find(self.root, UUID)
        (self.vcpu,) = self.guest.vcpu_threads.values()

    def drifts(self):
        """Return code and subject of each drift of this guest.

        Threads of this machine's other programs on CPU 1 have a test of
        their own: there are always some.
        """
        found = audit.observe(
            self.root,
            builders.realtime_host(cpus={"isolated": parse_cpu_list("1")}),
        )
        return {
            (each.code, each.subject)
            for each in found
            if each.code != "guest_cpu_shared"
        }

    def run_program(self, *words):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def test_drifts_are_found_and_threads_are_mended(self):
        self.assertEqual(set(), self.drifts())
        self.run_program("taskset", "-pc", "0", str(self.vcpu))
        self.run_program("chrt", "-o", "-p", "0", str(self.vcpu))
        self.run_program("taskset", "-pc", "0-1", str(self.guest.process))
        moved = {MOVED, RESCHEDULED, ("guest_thread_moved", "emulator")}
        self.assertEqual(moved, self.drifts())

        steps = thread_plan.plan(thread_plan.observe(self.root, self.guest))
        thread_plan.apply(self.root, self.guest, steps)
        self.assertEqual(set(), self.drifts())

        file = self.libvirt.place / "rng.xml"
        file.write_text(RNG)
        done = self.libvirt.virsh("attach-device", "rt", str(file), "--live")
        self.assertEqual(0, done.returncode, done.stderr)
        ((code, device),) = self.drifts()
        self.assertEqual("guest_device_forbidden", code)
        self.assertIn("rng", device)

    def test_another_program_on_a_pcpu_of_the_guest(self):
        busy = subprocess.Popen(
            ["taskset", "-c", "1", "sh", "-c", "while :; do :; done"]
        )
        self.addCleanup(busy.wait)
        self.addCleanup(busy.terminate)
        facts = builders.realtime_host(cpus={"isolated": parse_cpu_list("1")})
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = [
                each
                for each in audit.observe(self.root, facts)
                if f"thread {busy.pid} " in each.message
            ]
            if found:
                break
            time.sleep(0.2)
        (drift,) = found
        self.assertEqual("guest_cpu_shared", drift.code)
