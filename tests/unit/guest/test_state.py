# SPDX-License-Identifier: Apache-2.0

"""What the kernel shows of guests: memory, devices, realtime threads."""

from sriov_rt.facts import CpuSet
from sriov_rt.facts.guests import Schedule
from sriov_rt.guest import running
from sriov_rt.guest import state
from sriov_rt.guest.domain import parse_domain
from tests.unit.host import test_occupancy
from tests.unit.host import trees

UUID = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"
DOMAIN = f"""<domain type='kvm'>
  <name>instance-00000001</name>
  <uuid>{UUID}</uuid>
  <memoryBacking><hugepages/><locked/></memoryBacking>
  <currentMemory unit='KiB'>131072</currentMemory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64'>hvm</type></os>
</domain>
"""
#: Linux 6.1, a QEMU with a VF after munlockall(): what is left is vfio's.
STATUS = """Name:\tqemu-system-x86
VmLck:\t  131328 kB
HugetlbPages:\t  131072 kB
"""
SMAPS = """56019539d000-5601957a4000 r--p 00000000 00:16 10166480 /usr/bin/qemu
Size:               4124 kB
Locked:                0 kB
VmFlags: rd mr mw me {}sd
5601957a4000-560195d3b000 r-xp 00407000 00:16 10166480 /usr/bin/qemu
"""


class MemoryTest(trees.TreeTest):
    def memory(self, smaps):
        self.tree.write("proc/7/status", STATUS)
        self.tree.write("proc/7/smaps", smaps)
        guest = running.Guest(UUID, 7, parse_domain(DOMAIN))
        found = state.observe(self.root, guest).memory
        assert found is not None
        self.assertEqual((131072, 131072), (found.huge, found.size))
        return found

    def test_what_vfio_pins_is_not_locked(self):
        self.assertFalse(self.memory(SMAPS.format("")).locked)

    def test_every_mapping_is_marked_by_mlockall(self):
        self.assertTrue(self.memory(SMAPS.format("lo ")).locked)

    def test_an_unknown_answer_is_no_drift(self):
        self.assertTrue(self.memory("x").locked)
        self.tree.make_unreadable("proc/7/smaps")
        guest = running.Guest(UUID, 7, parse_domain(DOMAIN))
        found = state.observe(self.root, guest).memory
        assert found is not None
        self.assertTrue(found.locked)


VF = """<interface type='hostdev' managed='yes'><source>
<address type='pci' domain='0x0000' bus='0x01' slot='0x10' function='0x{}'/>
</source></interface>"""


class DevicesTest(trees.TreeTest):
    def domain(self, *functions):
        devices = "".join(map(VF.format, functions))
        return DOMAIN.replace(
            "</domain>", f"<devices>{devices}</devices></domain>"
        )

    def devices(self, *functions, configured=None):
        if configured is not None:
            path = "etc/libvirt/qemu/instance-00000001.xml"
            self.tree.write(path, f"<!-- virsh edit -->\n{configured}")
        domain = parse_domain(self.domain(*functions))
        guest = running.Guest(UUID, 7, domain)
        return [
            (each.address, each.attached)
            for each in state.observe(self.root, guest).devices
        ]

    def test_one_that_went_while_it_runs(self):
        there, gone = ("0000:01:10.0", True), ("0000:01:10.2", False)
        self.assertEqual([there], self.devices(0))
        self.assertEqual([there], self.devices(0, configured=self.domain(0)))
        self.assertEqual(
            [there, gone], self.devices(0, configured=self.domain(0, 2))
        )
        self.assertEqual([gone], self.devices(configured=self.domain(2)))

    def test_another_domains_configuration_says_nothing(self):
        other = self.domain(2).replace(UUID, UUID[::-1])
        for configured in (other, "", "<domain ", "<!DOCTYPE x><domain />"):
            with self.subTest(configured[:20]):
                self.assertEqual([], self.devices(configured=configured))


class RealtimeThreadsTest(trees.TreeTest):
    def test_one_behind_a_thread_that_has_ended(self):
        host = test_occupancy.Host(self.tree.path)
        for number, cpus in ((70, "0-3"), (72, "2"), (73, "2")):
            host.thread(number, f"t{number}", cpus, process=70)
        # 71 has ended between the list and its turn.
        (self.tree.path / "proc/70/task/71").mkdir()
        found = list(state.realtime_threads(host.root, CpuSet((2, 3))))
        fifo = Schedule("fifo", 1)
        self.assertEqual(
            [(each, CpuSet((2,)), fifo) for each in ("t72", "t73")],
            [(each.role, each.cpus, each.schedule) for each in found],
        )
