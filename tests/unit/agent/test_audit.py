# SPDX-License-Identifier: Apache-2.0

"""The agent's audit: real processes of this machine stand for QEMU's."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from sriov_rt import documents
from sriov_rt.agent import audit
from sriov_rt.agent.audit import Audit
from sriov_rt.codec import Unknown
from sriov_rt.facts import HeldVf
from sriov_rt.facts import LostPort
from sriov_rt.facts import QuarantinedPort
from sriov_rt.facts.guests import Drift
from sriov_rt.guest import thread_plan
from sriov_rt.host import reserved_devices
from sriov_rt.host.reserved_devices import ReservedDevice
from sriov_rt.host.root import Root
from tests.unit import builders
from tests.unit.agent import fakes
from tests.unit.host import trees

UUID = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"

STATUS = """<domstatus state='running' reason='{reason}' pid='{pid}'>
  <vcpus>
    <vcpu id='0' pid='{pid}'/>
  </vcpus>
  <domain type='qemu' id='1'>
    <name>instance-00000001</name>
    <uuid>{uuid}</uuid>
    <metadata>
      <sriov_rt:guest class="bare" version="1" realtime="yes"
       xmlns:sriov_rt="https://docs.openstack.org/sriov-rt/guest/1.0"/>
    </metadata>
    <memory>65536</memory>
    <currentMemory>65536</currentMemory>
    {memory}
    <vcpu>1</vcpu>
    <cputune>
      <vcpupin vcpu='0' cpuset='{cpu}'/>
      {sched}
    </cputune>
    <os><type arch='x86_64'>hvm</type></os>
    <devices>{devices}</devices>
  </domain>
</domstatus>
"""
LOCKED = "<memoryBacking><locked/></memoryBacking>"
VIRTIO = "<disk device='disk'><target dev='vdb' bus='virtio'/></disk>"
FIFO = "<vcpusched vcpus='0' scheduler='fifo' priority='1'/>"


class ProcessTestCase(unittest.TestCase):
    """Root is this machine's /proc, below status files of our own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        for driver in ("qemu", "lxc"):
            (self.path / "run/libvirt" / driver).mkdir(parents=True)
        for name in ("proc", "sys"):
            (self.path / name).symlink_to(f"/{name}")
        self.cpus = sorted(os.sched_getaffinity(0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()", UUID],
            stdin=subprocess.PIPE,
        )
        self.addCleanup(self._end)
        os.sched_setaffinity(self.process.pid, self.cpus[:1])

    def _end(self):
        self.process.communicate()

    def codes(self, sched="", devices="", reason="booted", memory=""):
        text = STATUS.format(
            reason=reason,
            memory=memory,
            pid=self.process.pid,
            uuid=UUID,
            cpu=self.cpus[0],
            sched=sched,
            devices=devices,
        )
        (self.path / "run/libvirt/qemu/a.xml").write_text(text)
        facts = builders.realtime_host()
        found = audit.observe(Machine(str(self.path)), facts)
        return {each.code for each in found}


class RealProcessTest(ProcessTestCase):
    """What the audit says of a process that others meddle with."""

    def test_a_guest_as_promised(self):
        self.assertEqual(set(), self.codes())

    def test_one_that_was_moved(self):
        if len(self.cpus) < 2:
            self.skipTest("a machine with one CPU moves nothing")
        os.sched_setaffinity(self.process.pid, self.cpus[:2])
        self.assertEqual({"guest_thread_moved"}, self.codes())

    def test_one_that_is_scheduled_otherwise(self):
        self.assertIn("guest_thread_rescheduled", self.codes(sched=FIFO))

    def test_one_with_a_device_that_its_class_forbids(self):
        self.assertEqual({"guest_device_forbidden"}, self.codes("", VIRTIO))

    def test_one_whose_memory_is_not_locked(self):
        found = self.codes(memory=LOCKED)
        self.assertEqual({"guest_memory_unlocked"}, found)

    def test_one_that_libvirt_has_not_started_yet(self):
        found = self.codes(FIFO, VIRTIO, "starting up")
        self.assertEqual(set(), found)

    def test_a_host_whose_guests_cannot_be_read(self):
        target = self.path / "run/libvirt/qemu"
        target.rmdir()
        target.symlink_to("qemu")
        facts = builders.realtime_host()
        found = audit.observe(Root(str(self.path)), facts)
        self.assertIsInstance(found, Unknown)


CONTAINER = """<domstatus state='running' reason='booted' pid='{pid}'>
  <domain type='lxc' id='1'>
    <name>instance-00000002</name>
    <uuid>{uuid}</uuid>
    <vcpu cpuset='{cpu}'>1</vcpu>
    <os><type>exe</type></os>
  </domain>
</domstatus>
"""


class ContainerTest(ProcessTestCase):
    """A child of a process that has the name of libvirt's keeper."""

    def setUp(self):
        super().setUp()
        keeper = self.path / "libvirt_lxc"
        # Named by its file, as the kernel names it.
        keeper.symlink_to(sys.executable)
        self.keeper = subprocess.Popen(
            [
                str(keeper),
                "-c",
                "import os, sys, subprocess\n"
                "child = subprocess.Popen([sys.executable, '-c', "
                "'import sys; sys.stdin.read()'])\n"
                "print(child.pid, flush=True)\n"
                "child.wait()",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.keeper.communicate)
        self.child = int(self.keeper.stdout.readline())
        os.sched_setaffinity(self.child, self.cpus[:1])
        (self.path / "run/libvirt/lxc/a.xml").write_text(
            CONTAINER.format(pid=self.keeper.pid, uuid=UUID, cpu=self.cpus[0])
        )
        self.root = Machine(str(self.path))

    def codes(self):
        found = audit.observe(self.root, builders.realtime_host())
        return [(each.code, each.subject) for each in found]

    def test_what_runs_in_it_is_kept_to_its_pcpus(self):
        self.assertEqual([], self.codes())
        if len(self.cpus) < 2:
            self.skipTest("a machine with one CPU moves nothing")
        os.sched_setaffinity(self.child, self.cpus[:2])
        self.assertEqual([("guest_thread_moved", "process")], self.codes())
        guest = thread_plan.find(self.root, UUID)
        steps = thread_plan.plan(thread_plan.observe(self.root, guest))
        thread_plan.apply(self.root, guest, steps)
        self.assertEqual([], self.codes())


class PodsTest(ProcessTestCase):
    STATE = (
        '{"policyName":"static","defaultCpuSet":"0-1","entries":{"uid":'
        '{"app":"1-2"}},"checksum":1}'
    )

    def found(self, text, directory="/var/lib/kubelet"):
        place = self.path / directory.lstrip("/")
        place.mkdir(parents=True)
        (place / "cpu_manager_state").write_text(text)
        return audit.observe(
            Machine(str(self.path)), builders.realtime_host(), directory
        )

    def test_a_pod_on_pcpus_of_nova(self):
        dedicated, beyond = self.found(self.STATE, "/var/lib/k0s/kubelet")
        self.assertEqual(
            ("uid", "pod_cpus_dedicated", "app"),
            (dedicated.instance, dedicated.code, dedicated.subject),
        )
        self.assertEqual("pod_cpus_not_isolated", beyond.code)

    def test_a_state_that_cannot_be_read(self):
        (found,) = self.found("{")
        self.assertEqual("pod_cpus_unknown", found.code)
        self.assertIn("/var/lib/kubelet/cpu_manager_state", found.message)


class QuarantineTest(unittest.TestCase):
    def drifts(self, ports, held=()):
        host = builders.realtime_host()
        vifs = dataclasses.replace(host.vifs, quarantined=ports, holders=held)
        return list(audit.quarantined(dataclasses.replace(host, vifs=vifs)))

    def test_each_quarantined_port_is_a_drift_of_its_instance(self):
        port = QuarantinedPort("p1", UUID, "enp1s0", None, "it is away")
        held = (
            HeldVf("0000:01:10.1", "e0", "pod", "pod a/b", "in use", ""),
            HeldVf("0000:01:10.2", "e0", "pod", "pod a/c", "quarantined", "x"),
        )
        (found, of_pod) = self.drifts((port,), held)
        self.assertEqual(
            ("", "vf_quarantined", "0000:01:10.2"),
            (of_pod.instance, of_pod.code, of_pod.subject),
        )
        self.assertIn("'sriov-rt vf reset 0000:01:10.2'", of_pod.message)
        self.assertEqual(
            (UUID, "port_quarantined", "p1"),
            (found.instance, found.code, found.subject),
        )
        self.assertIn("it is away", found.message)
        self.assertIn("sriov-rt vif unplug p1", found.remedy)

    def test_where_ports_are_unknown_there_is_no_drift(self):
        unknown = Unknown("why")
        self.assertEqual([], self.drifts(unknown, unknown))


class LostTest(unittest.TestCase):
    def drifts(self, ports):
        host = builders.realtime_host()
        vifs = dataclasses.replace(host.vifs, lost=ports)
        return list(audit.lost(dataclasses.replace(host, vifs=vifs)))

    def test_each_has_its_remedy(self):
        container, guest = self.drifts(
            (
                LostPort("p1", UUID, "eth1", of_guest=False),
                LostPort("p2", UUID, "tap1", of_guest=True),
            )
        )
        self.assertEqual(
            (UUID, "port_lost", "p1"),
            (container.instance, container.code, container.subject),
        )
        self.assertIn("start sriov-rt-restore", container.remedy)
        self.assertEqual("port_lost_by_guest", guest.code)
        self.assertIn(f"hard-reboot instance {UUID}", guest.remedy)

    def test_where_they_are_unknown_there_is_no_drift(self):
        self.assertEqual([], self.drifts(Unknown("why")))


class ReservedDevicesTest(trees.TreeTest):
    NOW = 1_800_000_000.0

    def drifts(self):
        return list(audit.reserved(self.tree.root, self.NOW))

    def test_each_device_that_stays_reserved_is_a_drift_of_no_instance(self):
        device = ReservedDevice("0000:41:00.0", "device_lost", "a; b", "b")
        record = reserved_devices.Record(self.NOW, (device,))
        self.tree.write(
            reserved_devices.PATH,
            documents.dump(record, reserved_devices.SCHEMA),
        )
        self.assertEqual(
            [Drift("", "device_lost", "0000:41:00.0", "a; b", "b", 0.0)],
            self.drifts(),
        )

    def test_a_host_that_cleans_none_has_no_drift(self):
        self.assertEqual([], self.drifts())

    def test_a_record_that_cannot_be_read_is_a_drift(self):
        self.tree.write(reserved_devices.PATH, "{")
        (found,) = self.drifts()
        self.assertEqual("devices_unknown", found.code)


class Machine(Root):
    """A root whose /proc and /sys are this machine's."""

    def locate(self, relative, *, last_link=True):
        if relative.startswith(("proc/", "sys/")) or relative == "proc":
            return pathlib.Path("/") / relative
        return super().locate(relative, last_link=last_link)


class AuditTest(unittest.TestCase):
    def setUp(self):
        self.drifts = [Drift(UUID, "code", "vcpu 0", "it is; mend", "mend", 0)]
        self.sent = []
        self.changes = []
        self.now = 100.0
        self.facts = builders.realtime_host()
        self.audit = Audit(
            lambda facts: self.drifts,
            60.0,
            self.sent.append,
            lambda: self.changes.append(1),
            fakes.Crash(),
            lambda: self.now,
        )
        self.audit.complete(self.facts)

    def found(self):
        self.audit.audit(self.facts)
        return self.audit.complete(self.facts).audit.drifts

    def test_before_the_first_one_nothing_is_known(self):
        found = self.audit.complete(self.facts).audit
        self.assertIsInstance(found.drifts, Unknown)

    def test_a_drift_keeps_its_time_and_is_sent_once(self):
        with self.assertLogs("sriov_rt.agent.audit") as logged:
            (first,) = self.found()
        self.now = 200.0
        (second,) = self.found()
        self.assertEqual((100.0, 100.0), (first.since, second.since))
        (line,) = logged.output
        self.assertIn(f"instance={UUID} host=rt-1 [code] it is; mend", line)
        (sent,) = self.sent
        self.assertEqual("sriov_rt.guest.drift", sent.event)
        payload = sent.payload()
        self.assertEqual("1.0", payload["version"])
        self.assertEqual(100.0, payload["found"][0]["since"])
        self.assertEqual(1, len(self.changes))

    def test_a_drift_of_no_instance_is_logged_as_the_hosts(self):
        self.drifts = [Drift("", "code", "card", "it is; mend", "mend", 0)]
        with self.assertLogs("sriov_rt.agent.audit", "INFO") as logged:
            self.found()
            self.drifts = []
            self.found()
        first, second = logged.output
        self.assertIn("host drifted: host=rt-1 [code] it is; mend", first)
        self.assertIn("host is as promised again: host=rt-1 [code]", second)

    def test_what_is_mended_is_sent_too(self):
        with self.assertLogs("sriov_rt.agent.audit", "INFO"):
            self.found()
            self.drifts = []
            self.assertEqual((), self.found())
        self.assertEqual(1, len(self.sent[1].payload()["mended"]))

    def test_while_guests_cannot_be_read_nothing_counts_as_mended(self):
        with self.assertLogs("sriov_rt.agent.audit"):
            self.found()
        self.drifts = Unknown("why")
        self.assertEqual(Unknown("why"), self.found())
        self.assertEqual(1, len(self.sent))
        self.drifts = [Drift(UUID, "code", "vcpu 0", "it is; mend", "mend", 0)]
        self.now = 300.0
        self.assertEqual(100.0, self.found()[0].since)
