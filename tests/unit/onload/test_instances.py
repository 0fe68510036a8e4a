# SPDX-License-Identifier: Apache-2.0

"""Whose a process is, and what became of the instance."""

import unittest

from sriov_rt.codec import Unknown
from sriov_rt.facts import Workload
from sriov_rt.guest import running
from sriov_rt.onload import instances
from sriov_rt.onload import onload_facts
from sriov_rt.onload import status
from sriov_rt.onload.instances import Container
from sriov_rt.onload.status import Effect
from sriov_rt.onload.status import Process
from sriov_rt.onload.status import State
from tests.unit.host import trees

A = "5c4a1a8e-7f0f-4f0e-8a53-1df1d3e4c0aa"
B = "7a5e1f6c-2f43-4a53-9a2a-5a3c07d5f0c1"

#: As libvirt 9.0 writes it.
STATUS = """<!--
WARNING: THIS IS AN AUTO-GENERATED FILE. CHANGES TO IT ARE LIKELY TO BE
OVERWRITTEN AND LOST. Changes to this xml configuration should be made using:
  virsh edit instance-00000001
or other application using the libvirt API.
-->

<domstatus state='running' reason='booted' pid='{pid}'>
  <init pid='{init}'/>
  <domain type='lxc' id='{pid}'>
    <name>instance-00000001</name>
    <uuid>{uuid}</uuid>
    <metadata>{metadata}
    </metadata>
    <os>
      <type arch='x86_64'>exe</type>
      <init>/sbin/init</init>{more}
    </os>
  </domain>
</domstatus>
"""
ASKS = "<initenv name='LD_PRELOAD'>/opt/sriov-rt/onload/libonload.so</initenv>"
PLAIN = (
    "<s:guest xmlns:s='https://docs.openstack.org/sriov-rt/guest/1.0'"
    " class='standard' version='1' onload='unaccelerated'>onload: initenv"
    "</s:guest>"
)
MAP = "7f00-7f01 r-xp 00000000 08:01 42 {}\n"


class HostTest(trees.TreeTest):
    """A host with two containers of libvirt's."""

    def setUp(self):
        super().setUp()
        self.tree.remove("sys/module/onload")
        self.process(1, 0, "systemd")
        self.container("a", A, 100, more=ASKS)
        self.container("b", B, 200)

    def container(self, name, uuid, pid, more="", metadata=""):
        text = STATUS.format(
            pid=pid, init=pid + 1, uuid=uuid, more=more, metadata=metadata
        )
        self.tree.write(f"run/libvirt/lxc/{name}.xml", text)
        self.process(pid, 1, running.KEEPER)
        self.process(pid + 1, pid, "init")
        self.process(pid + 2, pid + 1, "server")

    def process(self, pid, parent, name, library=None, preload=None):
        place = f"proc/{pid}"
        self.tree.write(f"{place}/comm", f"{name}\n")
        self.tree.write(
            f"{place}/status", f"Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\n"
        )
        self.tree.write(f"{place}/maps", MAP.format(library or "/bin/x"))
        preload = f"LD_PRELOAD={preload}\0" if preload else ""
        self.tree.write(f"{place}/environ", f"A=b\0{preload}")

    def run_onload(self, pid, parent):
        place = "/opt/sriov-rt/onload/libonload.so"
        self.process(pid, parent, "server", library=place, preload=place)


class InstancesTest(HostTest):
    def test_containers_are_those_that_libvirt_knows(self):
        self.assertEqual(
            (
                Container(A, 100, requested=True, is_plain=False),
                Container(B, 200, requested=False, is_plain=False),
            ),
            instances.containers(self.root),
        )

    def test_their_processes_are_below_their_keepers(self):
        found = instances.processes(self.root, instances.containers(self.root))
        self.assertEqual({101: A, 102: A, 201: B, 202: B}, dict(found))

    def test_a_process_that_names_itself_a_keeper_is_none(self):
        # In a's container, with what an instance of its choice would have.
        self.process(103, 102, running.KEEPER)
        self.process(104, 103, "init")
        found = instances.processes(self.root, instances.containers(self.root))
        self.assertEqual((A, A), (found[103], found[104]))

    def test_a_file_that_a_dead_libvirtd_left_is_nobodys(self):
        self.process(100, 1, "sshd")
        (found,) = instances.containers(self.root)
        self.assertEqual(B, found.instance)
        self.tree.remove("proc/200")
        self.assertEqual((), instances.containers(self.root))

    def test_one_whose_injection_was_taken_out_asks_still(self):
        self.container("b", B, 200, metadata=PLAIN)
        found = instances.containers(self.root)[1]
        self.assertEqual((True, True), (found.requested, found.is_plain))

    def test_what_is_not_onloads_is_no_asking(self):
        for more in (
            "<initenv name='LD_PRELOAD'>/lib/libjemalloc.so</initenv>",
            "<initenv name='EF_POLL_USEC'>1</initenv>",
            "<initenv/>",
        ):
            self.container("a", A, 100, more=more)
            self.assertFalse(instances.containers(self.root)[0].requested)

    def test_a_host_without_containers(self):
        self.tree.remove("run/libvirt/lxc")
        self.assertEqual((), instances.containers(self.root))
        self.assertEqual({}, instances.processes(self.root, ()))

    def test_who_may_not_read_does_not_know(self):
        self.tree.make_unreadable("run/libvirt/lxc/a.xml")
        self.assertIsInstance(instances.containers(self.root), Unknown)
        self.tree.remove("run/libvirt/lxc")
        self.tree.link("run/libvirt/lxc", "lxc")
        self.assertIsInstance(instances.containers(self.root), Unknown)

    def test_processes_that_are_read_in_a_ring(self):
        self.process(300, 301, "x")
        self.process(301, 300, "x")
        found = instances.processes(self.root, instances.containers(self.root))
        self.assertNotIn(300, found)


class WorkloadsTest(HostTest):
    def told(self):
        (found,) = instances.observe(self.root)
        self.assertEqual(A, found.instance)
        return found.state, found.why

    def test_asked_and_nothing_of_it_is_there(self):
        self.assertEqual(
            ("asked", "no process of it has Onload's library or preload"),
            self.told(),
        )

    def test_asked_and_started_so(self):
        self.process(101, 100, "init", preload="libonload.so")
        self.assertEqual(("asked", "its library is not mapped"), self.told())

    def test_injected_without_a_module_is_not_accelerated(self):
        self.process(101, 100, "init", preload="libonload.so")
        self.run_onload(102, 101)
        self.assertEqual(("injected", "no onload module"), self.told())

    def test_accelerated_when_the_driver_counts_its_stacks(self):
        self.run_onload(102, 101)
        self.tree.write("sys/module/onload/initstate", "live\n")
        stacks = "proc/driver/onload/stacks_ul"
        self.tree.write(stacks, "0: 202 0 1\n")
        self.assertEqual("injected", self.told()[0])
        self.tree.write(stacks, "0: 202 0 1\n1: 102 0 1\n")
        self.assertEqual(("accelerated", ""), self.told())

    def test_processes_of_others_do_not_count(self):
        self.run_onload(202, 201)
        self.run_onload(300, 1)
        self.assertEqual("asked", self.told()[0])

    def test_one_that_runs_over_the_kernel_says_so(self):
        self.container("a", A, 100, metadata=PLAIN)
        state, why = self.told()
        self.assertEqual("asked", state)
        self.assertIn("runs over the kernel", why)

    def test_what_may_not_be_looked_at_is_not_judged(self):
        for pid in (101, 102):
            self.tree.make_unreadable(f"proc/{pid}/maps")
        self.assertEqual(
            ("asked", "its processes can't be looked at"), self.told()
        )

    def test_nothing_is_looked_at_where_nobody_asks(self):
        self.container("a", A, 100)
        self.assertEqual((), instances.observe(self.root))

    def test_the_facts_have_it(self):
        self.assertEqual(
            (
                Workload(
                    A,
                    "asked",
                    "no process of it has Onload's library or preload",
                ),
            ),
            onload_facts.observe(self.root).workloads,
        )
        self.tree.make_unreadable("run/libvirt/lxc/a.xml")
        self.assertIsInstance(
            onload_facts.observe(self.root).workloads, Unknown
        )


class JudgeTest(unittest.TestCase):
    def test_a_stand_in_is_called_so_in_each_state(self):
        requesting = Container(A, 100, requested=True, is_plain=False)
        process = Process(1, "x", {}, "/libonload.so")
        for state in State:
            found = instances.judge(
                requesting, [Effect(process, state, "why", is_stand_in=True)]
            )
            self.assertEqual(state.value, found.state)
            self.assertIn("stand-in", found.why)

    def test_the_furthest_process_counts(self):
        requesting = Container(A, 100, requested=True, is_plain=False)
        driver = status.Driver(is_loaded=True, stacks={2: 1})
        library = "/libonload.so"
        every = [
            Process(1, "x", {"LD_PRELOAD": library}, None),
            Process(2, "x", {}, library),
            Process(3, "x", {}, library),
        ]
        found = instances.judge(requesting, status.all_of(every, driver))
        self.assertEqual(Workload(A, "accelerated", ""), found)
        found = instances.judge(requesting, status.all_of(every[::2], driver))
        self.assertEqual("injected", found.state)
