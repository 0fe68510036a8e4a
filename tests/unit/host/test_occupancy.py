# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import re
import socket
import threading
from unittest import mock

from sriov_rt import facts
from sriov_rt import request as requests
from sriov_rt.codec import Unknown
from sriov_rt.facts import CpuSet
from sriov_rt.facts import IrqGroup
from sriov_rt.facts import Occupant
from sriov_rt.host import guest_processes
from sriov_rt.host import occupancy
from sriov_rt.host import ovs
from sriov_rt.host import selected
from sriov_rt.host import table
from sriov_rt.host.observer import Observer
from sriov_rt.host.root import Root
from sriov_rt.parse.cpulist import parse_cpu_list
from tests.unit import builders
from tests.unit.host import trees
from tests.unit.parse.test_process import STAT

KERNEL, BOUND = 0x00200000, 0x04200000
HOUSEKEEPING, DEDICATED = "0-1", "2-3"
POD = "3b7e1f90-1111-2222-3333-3b7e1f903b7e"
REALTIME = {"sriov_rt:realtime": "required", "hw:cpu_policy": "dedicated"}
CONTAINER = "0123456789ab" + "cd" * 26


class Host(trees.Tree):
    """A host of four CPUs, of which two are for guests."""

    def __init__(self, path):
        super().__init__(path)
        self.thread(1, "systemd", HOUSEKEEPING)

    def thread(
        self,
        number,
        name,
        cpus,
        *,
        process=0,
        cpu=2,
        ticks=0,
        flags=0,
        cgroup="/",
        parent=1,
        started=900,
    ):
        """Write a thread; the first one of its process by default."""
        process = process or number
        fields = STAT.split(") ")[1].split()
        fields[1], fields[6], fields[11] = str(parent), str(flags), str(ticks)
        fields[12], fields[19], fields[36] = "0", str(started), str(cpu)
        place = f"proc/{process}/task/{number}"
        stat = f"{number} ({name}) {' '.join(fields)}\n"
        self.write(f"{place}/stat", stat)
        self.write(f"{place}/status", f"Cpus_allowed_list:\t{cpus}\n")
        if process == number:
            self.write(f"proc/{number}/stat", stat)
            self.write(f"proc/{number}/comm", f"{name}\n")
            self.write(f"proc/{number}/cgroup", f"0::{cgroup}\n")

    def interrupts(self, **lines):
        """Write the counts of interrupts on the four CPUs."""
        head = " ".join(f"CPU{cpu}" for cpu in range(4))
        body = "".join(
            f"{irq[1:]}: {counts} PCI-MSI 5-edge      nvme0q{irq[1:]}\n"
            for irq, counts in lines.items()
        )
        self.write("proc/interrupts", f"   {head}\n{body}NMI: 1 1 1 1 x\n")


class OccupancyTest(trees.TreeTest):
    def setUp(self):
        super().setUp()
        self.host = Host(self.tree.path / "small")
        self.facts = builders.realtime_host()
        self.now = 0.0
        self.occupancy = occupancy.Occupancy(
            self.host.root,
            pause=self.wait,
            monotonic=lambda: self.now,
            clock=lambda: 1000.4 + self.now,
        )

    def wait(self, seconds):
        self.now += seconds

    def look(self, seconds=10.0, **irqs):
        self.wait(seconds)
        host = dataclasses.replace(
            self.facts, irqs=dataclasses.replace(self.facts.irqs, **irqs)
        )
        return self.occupancy.observe(host.cpus, host.compute, host.irqs)

    def names(self, **irqs):
        found = self.look(**irqs).occupants
        return [(each.state, each.name) for each in found]

    def test_nobody_is_there(self):
        self.host.thread(2, "kthreadd", HOUSEKEEPING, flags=KERNEL)
        self.host.thread(16, "migration/2", "2", flags=BOUND)
        self.assertEqual(facts.OccupancyFacts(()), self.look())

    def test_a_daemon_is_pinned_there(self):
        unit = "/system.slice/feed.service"
        self.host.thread(70, "feed", "0-1", cgroup=unit)
        for number, cpu in ((71, "2"), (72, "3")):
            self.host.thread(number, f"rx-{cpu}", cpu, process=70, ticks=100)
        found = self.look()
        row = Occupant(
            *("thread", "pinned", "rx-2", CpuSet((2, 3)), "feed"),
            *("feed.service", 71, 2, 0, 1010.0),
        )
        self.assertEqual((row,), found.occupants)
        # Half of a CPU in ten seconds.
        self.host.thread(72, "rx-3", "3", process=70, ticks=600)
        (row,) = self.look().occupants
        self.assertEqual((50, 1010.0), (row.share, row.since))
        # What hardly changes is not published.
        self.host.thread(72, "rx-3", "3", process=70, ticks=1200)
        self.assertEqual((row,), self.look().occupants)

    def test_it_is_gone_after_two_looks(self):
        self.host.thread(71, "feed", "2")
        there = self.look().occupants
        self.assertEqual(1, len(there))
        self.host.remove("proc/71")
        self.assertEqual(there, self.look().occupants)
        self.assertEqual((), self.look().occupants)

    def test_one_look_that_misses_it_changes_nothing(self):
        self.host.thread(71, "feed", "2")
        there = self.look().occupants
        for _ in range(3):
            self.host.remove("proc/71")
            self.assertEqual(there, self.look().occupants)
            # Another thread of the same program.
            self.host.thread(71, "feed", "2")
            self.assertEqual(there, self.look().occupants)

    def test_what_may_run_there_and_does_not(self):
        self.host.thread(71, "top", "0-3", cpu=0)
        self.host.thread(80, "kswapd0", "0-3", cpu=3, flags=KERNEL)
        self.host.thread(81, "kcompactd0", "2-3", cpu=3, flags=KERNEL)
        self.host.thread(82, "irq/26-nvme", "2", cpu=2, flags=KERNEL)
        self.host.thread(83, "scsi_eh_0", "0-3", cpu=3, flags=KERNEL)
        self.host.thread(84, "oom_reaper", "0-3", cpu=0, flags=KERNEL)
        self.assertEqual(
            [("may", "kswapd0"), ("may", "scsi_eh_0"), ("may", "top")],
            sorted(self.names()),
        )
        (others, of_node, _) = self.look().occupants
        self.assertEqual((2, 2), (others.threads, of_node.threads))

    def test_what_is_busy_there(self):
        for ticks in (0, 20):
            self.host.thread(71, "top", "0-3", cpu=3, ticks=ticks)
            self.host.thread(80, "kvm-pit/9", "0-3", ticks=ticks, flags=KERNEL)
            self.host.thread(82, "irq/26-nvme", "2", ticks=ticks, flags=KERNEL)
            found = self.names()
        self.assertEqual(
            {("runs", x) for x in ("irq/26-nvme", "kvm-pit/9", "top")},
            {each for each in found if each[0] == "runs"},
        )

    def test_a_busy_thread_that_is_elsewhere(self):
        for cpu, ticks in ((3, 0), (1, 900)):
            self.host.thread(71, "top", "0-3", cpu=cpu, ticks=ticks)
            self.assertEqual([("may", "top")], self.names())

    def test_an_id_that_another_thread_has_now(self):
        self.host.thread(71, "top", "2", ticks=900)
        self.look()
        self.host.thread(71, "top", "2", ticks=901, started=5000)
        (row,) = self.look().occupants
        # It was never measured: the share that was known stands.
        self.assertEqual(0, row.share)

    def test_cpus_that_are_not_isolated(self):
        cpus = dataclasses.replace(self.facts.cpus, isolated=CpuSet())
        self.facts = dataclasses.replace(self.facts, cpus=cpus)
        self.host.thread(71, "top", "0-3", cpu=3)
        self.host.thread(72, "feed", "3")
        self.assertEqual([("pinned", "feed")], self.names())

    def test_a_host_without_cpus_of_its_own(self):
        compute = dataclasses.replace(
            self.facts.compute, dedicated=CpuSet(range(4))
        )
        self.facts = dataclasses.replace(self.facts, compute=compute)
        self.host.thread(72, "feed", "3")
        self.assertEqual([], self.names())

    def test_guests_are_no_culprits(self):
        place = guest_processes.MACHINES
        self.host.write(
            f"{place}/instance-1.xml",
            "<!-- x -->\n<domstatus state='running' reason='booted' pid='90'>",
        )
        self.host.thread(90, "CPU 0/KVM", "2")
        self.host.write("proc/90/cmdline", "qemu\0-name\0guest=instance-1,x\0")
        self.host.thread(91, "vhost-90", "2", flags=KERNEL, ticks=1)
        scope = r"/machine.slice/machine-qemu\x2d1\x2dx.scope/libvirt/emulator"
        self.host.thread(92, "virtiofsd", "3", cgroup=scope)
        self.host.write(
            f"{guest_processes.CONTAINERS}/box.xml",
            "<domstatus state='running' reason='booted' pid='95'>",
        )
        self.host.thread(95, "libvirt_lxc", "2")
        self.host.thread(96, "init", "2", parent=95)
        self.host.thread(97, "app", "2", parent=96)
        self.assertEqual([], self.names())
        # A libvirtd that was killed leaves its files.
        self.host.write("proc/90/cmdline", "feed\0")
        self.assertIn(("pinned", "CPU 0/KVM"), self.names())

    def test_exclusive_cpus_of_a_pod(self):
        state = {
            "policyName": "static",
            "defaultCpuSet": "0-1,3",
            "entries": {POD: {"app": "2"}},
            "checksum": 1,
        }
        self.host.write("var/lib/kubelet/cpu_manager_state", json.dumps(state))
        slices = f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice"
        self.host.thread(70, "app", "2", cgroup=f"{slices}/cri-x.scope")
        self.assertEqual([], self.names())
        self.host.thread(70, "app", "3", cgroup=f"{slices}/cri-x.scope")
        self.assertEqual([("pinned", "app")], self.names())
        # A container can name a cgroup of its own after a pod.
        nested = f"/system.slice/docker-{CONTAINER}.scope{slices}"
        self.host.thread(71, "box", "2", cgroup=nested)
        self.assertIn(("pinned", "box"), self.names())

    def test_a_container_by_its_name(self):
        cgroup = f"/system.slice/docker-{CONTAINER}.scope"
        self.host.thread(70, "app", "2", cgroup=cgroup)
        (row,) = self.look().occupants
        self.assertEqual("docker-0123456789ab.scope", row.unit)

    def test_names_are_bytes(self):
        self.host.thread(70, "name", "2")
        for path in ("proc/70/comm", "proc/70/task/70/stat"):
            whole = (self.host.path / path).read_bytes()
            odd = whole.replace(b"name", b"x) R 1 (\xe4\x1b")
            self.host.write(path, odd)
        (row,) = self.look().occupants
        self.assertEqual("x) R 1 (\ufffd?", row.name)
        self.assertEqual(row.name, row.process)

    def test_interrupts_that_fire_there(self):
        self.host.interrupts(i45="9 0 5 0", i46="9 0 0 1", i47="9 0 0 1")
        self.look()
        self.host.interrupts(i45="99 0 6 0", i46="99 0 0 1", i47="9 0 0 2")
        managed = IrqGroup(CpuSet((3,)), CpuSet((3,)), (47,), True)
        self.assertEqual(
            [("runs", "45 (nvme0q45)")], self.names(groups=(managed,))
        )
        # At rest, and gone within two looks.
        self.assertEqual(1, len(self.names(groups=(managed,))))
        self.assertEqual([], self.names(groups=(managed,)))

    def test_threads_that_cannot_be_read(self):
        self.host.thread(70, "feed", "2")
        self.host.thread(71, "feed", "3", process=70)
        self.host.make_unreadable("proc/70/task/71/stat")
        self.host.thread(72, "feed", "x", process=70)
        found = self.look()
        self.assertEqual(2, found.unread)
        self.assertEqual("2", "".join(map(str, found.occupants[0].cpus)))

    def test_what_cannot_be_known(self):
        self.host.thread(70, "feed", "2")
        for path in (
            f"{guest_processes.MACHINES}/a.xml",
            "var/lib/kubelet/cpu_manager_state",
        ):
            self.host.write(path, "")
            self.host.make_unreadable(path)
            self.assertIsInstance(self.look().occupants, Unknown)
            self.host.remove(path)
        self.assertEqual(1, len(self.look().occupants))
        self.host.remove("proc/1")
        self.assertIn("hidepid", self.look().occupants.reason)
        with mock.patch.object(
            occupancy.container, "sees_host_processes", return_value=False
        ):
            self.assertIn("hostPID", self.look().occupants.reason)

    def test_facts_stay_small(self):
        for number in range(100, 200):
            self.host.thread(number, f"feed{number}", "2")
        found = self.look()
        self.assertEqual(occupancy.MAX_OCCUPANTS, len(found.occupants))
        self.assertEqual(84, found.more)
        shown = table.occupancy(
            dataclasses.replace(self.facts, occupancy=found)
        )
        self.assertEqual("and 84 more", shown[-1])

    def test_the_table(self):
        self.host.thread(70, "feed", "2", cgroup="/system.slice/f.service")
        found = dataclasses.replace(self.facts, occupancy=self.look())
        _, head, row = table.occupancy(found)
        self.assertEqual(
            ["CPU", "Who", "State", "Since (UTC)", "Share"],
            re.split("  +", head),
        )
        self.assertEqual(
            [
                *("2", "thread 'feed' of feed (f.service)", "pinned"),
                *("1970-01-01 00:16:50", "0 %"),
            ],
            re.split("  +", row),
        )
        self.assertEqual([], table.occupancy(self.facts))

    def test_one_look_for_a_guest_that_waits(self):
        self.host.thread(70, "feed", "2")
        self.host.thread(71, "top", "0-3")
        found = occupancy.taken(self.host.root, CpuSet((2, 3)))
        self.assertEqual(
            [("feed", CpuSet((2,)))],
            [(each.name, each.cpus) for each in found.occupants],
        )
        # Each is left out, however many there are.
        for number in range(100, 120):
            self.host.thread(number, f"feed{number}", "3")
        found = occupancy.taken(self.host.root, CpuSet((2, 3)))
        self.assertEqual(21, len(found.occupants))

    def test_a_guest_of_libvirts_has_it_left_out(self):
        self.host.thread(70, "feed", "2")
        self.host.write("sys/devices/system/cpu/isolated", "2-3\n")
        found = selected.observe(self.host.root, {"cpus", "occupancy"})
        (row,) = found.occupancy.occupants
        self.assertEqual("feed", row.name)
        self.assertIn(
            "occupancy", selected.parts_for(requests.parse(REALTIME))
        )
        # A guest that is not realtime does not wait for it.
        found = selected.observe(self.host.root, {"cpus"})
        self.assertIsInstance(found.occupancy.occupants, Unknown)

    def test_an_observer_of_the_host_has_it(self):
        root = trees.realtime_host(self.tree.path / "big").root
        seen = occupancy.Occupancy(root, pause=self.wait)
        bare = Observer(root, "h", "h", trees.SOURCES)
        self.assertEqual(
            facts.NOT_REPORTED, bare.observe().occupancy.occupants
        )
        with_it = Observer(root, "h", "h", trees.SOURCES, occupancy=seen)
        self.assertEqual((), with_it.observe().occupancy.occupants)

    def test_the_audit_sees_who_shares_a_cpu(self):
        unit = "/system.slice/feed.service"
        self.host.thread(70, "feed", "0-3", cpu=2, cgroup=unit)
        self.host.thread(71, "rx", "0-1", cpu=2)  # moved away since
        self.host.thread(72, "kvm-pit/90", "0-3", flags=KERNEL)
        self.host.thread(73, "kswapd0", "0-3", flags=KERNEL)
        self.host.thread(90, "qemu", "2")
        found = occupancy.on_cpus(
            self.host.root, {90: "guest"}, parse_cpu_list("2")
        )
        self.assertEqual(
            {
                ("feed", "", "feed.service"),
                ("kvm-pit/90", "guest", ""),
                ("qemu", "guest", ""),
            },
            {(each.name, each.instance, each.owner) for each in found},
        )


class SwitchTest(trees.TreeTest):
    """Open vSwitch's database, by a socket that answers as it does."""

    def serve(self, answer):
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        path = self.tree.path / ovs.SOCKET
        path.parent.mkdir(parents=True)
        server.bind(str(path))
        server.listen()

        def run():
            with server.accept()[0] as connection:
                connection.recv(4096)
                for piece in (answer[:7], answer[7:]):
                    connection.sendall(piece)

        threading.Thread(target=run, daemon=True).start()

    def read(self, answer):
        self.serve(answer)
        with mock.patch.object(Root, "is_running", return_value=True):
            return ovs.pmd_cpus(self.root)

    def config(self, *pairs):
        row = {"other_config": ["map", [list(each) for each in pairs]]}
        result = {"id": 0, "result": [{"rows": [row]}], "error": None}
        return json.dumps(result).encode()

    def test_a_mask(self):
        found = self.read(self.config(("pmd-cpu-mask", "0xc"), ("x", "y")))
        self.assertEqual(CpuSet((2, 3)), found)

    def test_no_mask(self):
        self.assertIsNone(self.read(self.config()))

    def test_no_switch(self):
        self.assertIsNone(ovs.pmd_cpus(self.root))

    def test_other_answers(self):
        self.assertIsInstance(self.read(b'{"result": [1]}'), Unknown)

    def test_no_mask_of_cpus(self):
        found = self.read(self.config(("pmd-cpu-mask", "f" * 2049)))
        self.assertIsInstance(found, Unknown)

    def test_a_mask_without_threads_yet(self):
        host = Host(self.tree.path / "small")
        with mock.patch.object(
            occupancy.ovs, "pmd_cpus", return_value=CpuSet((1, 2, 3))
        ):
            host.thread(70, "ovs-vswitchd", "0-1")
            host.thread(71, "pmd-c02/id:1", "2", process=70)
            found = occupancy.taken(host.root, CpuSet((2, 3))).occupants
        self.assertEqual(
            {("pmd-c02/id:1", CpuSet((2,))), ("pmd-cpu-mask", CpuSet((3,)))},
            {(each.name, each.cpus) for each in found},
        )
