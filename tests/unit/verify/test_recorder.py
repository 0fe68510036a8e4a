# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib

from sriov_rt.facts import culprit
from sriov_rt.host import compute
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import breach
from sriov_rt.verify import hwlat
from sriov_rt.verify import packages
from sriov_rt.verify import recorder
from sriov_rt.verify.cyclictest import Cyclictest
from sriov_rt.verify.hwlat import Hwlat
from sriov_rt.verify.measurement import CpuLatency
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.oslat import Oslat
from sriov_rt.verify.timerlat import Timerlat
from tests.unit import documented_host
from tests.unit.verify import test_blame
from tests.unit.verify.programs import ProgramTest

RECORDED = pathlib.Path(__file__).with_name("recorded")

TRACE = test_blame.SCHEDULE.replace(b"[002]", b"[001]") % {
    b"who": b"hog",
    b"pid": b"9",
    b"more": b"",
    b"task": b"hog",
}

STEP = Step("cyclictest", 3, interval_us=200)
CPUS = Cpus(CpuSet((1,)), CpuSet((0,)))


class RecorderTest(ProgramTest):
    """On a directory in tracefs's place; the VM tests have the real one."""

    def setUp(self):
        super().setUp()
        self.instance = (
            self.tree.path / hwlat.TRACING / "instances" / recorder.INSTANCE
        )
        (self.place / "trace").write_bytes(TRACE)
        # It traces by itself what the kernel would: its own late sample.
        self.program(
            "cyclictest",
            f"mkdir -p {self.instance}/per_cpu/cpu1\n"
            f"cp {self.place}/trace {self.instance}/per_cpu/cpu1/trace\n"
            "for each; do case $each in --json=*) "
            f'cp {RECORDED}/cyclictest-2.40.json "${{each#*=}}";; esac; done\n'
            'echo "       0:       0:      25"\n'
            'echo "       0:       1:     505"\n'
            'echo "       0:       2:     300"\n',
        )

    def measure(self, bound_us):
        tool = Cyclictest(STEP, bound_us)
        return tool.run(CPUS, self.root, lambda elapsed: None).culprits

    def test_a_sample_above_the_bound_is_named(self):
        self.instance.parent.mkdir(parents=True)
        (found,) = self.measure(400)
        self.assertEqual(
            ("hog:9", 1, 505, 500),
            (found.name, found.cpu, found.latency_us, found.duration_us),
        )
        for name, value in (
            ("trace_clock", "mono"),
            ("tracing_cpumask", "2"),
            ("tracing_on", "1"),
        ):
            self.assertEqual(value, (self.instance / name).read_text())

    def test_without_a_bound_nothing_is_traced(self):
        self.instance.parent.mkdir(parents=True)
        self.assertEqual((), self.measure(None))
        self.assertFalse((self.instance / "trace_clock").exists())

    def test_without_tracefs_it_says_so(self):
        (found,) = self.measure(400)
        self.assertIn("there is no tracefs", found.why)

    def test_below_the_bound_nobody_is_to_blame(self):
        self.instance.parent.mkdir(parents=True)
        self.assertEqual((), self.measure(1000))

    def test_a_sample_that_was_not_seen(self):
        self.instance.parent.mkdir(parents=True)
        # The greatest of the recording is 981 µs; the greatest seen 505.
        (found,) = self.measure(600)
        self.assertIn("not seen in time", found.why)

    def test_an_instance_of_a_run_that_was_killed_is_removed(self):
        self.instance.mkdir(parents=True)
        with recorder.running(self.root, CpuSet((1,))) as found:
            self.assertIsNotNone(found)

    def test_other_tools(self):
        cpus = [CpuLatency(2, 10, 50), CpuLatency(3, 10, 5)]
        for tool, kind in ((Hwlat, "firmware"), (Oslat, culprit.UNKNOWN)):
            (found,) = tool(STEP, 20).culprits(cpus)
            self.assertEqual(
                (kind, 2, 50), (found.kind, found.cpu, found.latency_us)
            )
            self.assertEqual((), tool(STEP).culprits(cpus))
        (found,) = Hwlat(STEP, 20).culprits(cpus)
        self.assertIn("SMI", found.sentence)


class TimerlatTest(ProgramTest):
    """Its table does not say when the worst sample was."""

    def measure(self, again):
        analysis = self.place / "analysis"
        analysis.write_bytes(test_blame.ANALYSIS)
        self.program("taskset", 'shift 2; exec "$@"')
        self.program(
            "rtla",
            'case $* in *--help) echo "--no-aa"; exit;; *--thread=*)\n'
            f"{again.format(analysis=analysis)} ;; esac\n"
            f"cat {RECORDED}/timerlat-6.1-overflow.txt",
        )
        step = Step("timerlat", 1, interval_us=1000, buckets=256)
        cpus = Cpus(CpuSet((2,)), CpuSet((0,)))
        tool = Timerlat(step, 500)
        return tool.run(cpus, self.root, lambda elapsed: None).culprits

    def test_one_more_is_waited_for(self):
        (found,) = self.measure("cat {analysis}")
        self.assertEqual(
            ("objtool:49256", 70625), (found.name, found.latency_us)
        )

    def test_none_that_comes_or_a_run_that_fails(self):
        for again in ("true", "exit 3", "echo garbage; exit", "kill -9 $$"):
            (found,) = self.measure(again)
            self.assertEqual(
                (culprit.UNKNOWN, 70625), (found.kind, found.latency_us)
            )
            self.assertIn("came again within 1 s", found.why)


class PackagesTest(ProgramTest):
    def test_those_of_rpm(self):
        self.program("rpm", "printf 'qemu-kvm 9.1-1.el9\\nvim 9-1\\nx\\n'")
        self.assertEqual(("qemu-kvm 9.1-1.el9",), packages.observe(self.root))

    def test_an_rpm_that_fails(self):
        for program, why in (
            ("exit 1", "exit code 1"),
            ("echo 'qemu-kvm 9.1-1'; echo 'error: db' >&2; exit 1", "db"),
        ):
            self.program("rpm", program)
            self.assertIn(why, packages.observe(self.root).reason)

    def test_one_that_is_being_upgraded_is_there(self):
        self.tree.write(
            packages.STATUS,
            "\n".join(
                f"Package: {name}\nStatus: install ok {state}\nVersion: 1\n"
                for name, state in (
                    ("ovmf", "half-configured"),
                    ("seabios", "unpacked"),
                    ("tuned", "config-files"),
                    ("vdsm", "not-installed"),
                )
            ),
        )
        self.assertEqual(("ovmf 1", "seabios 1"), packages.observe(self.root))

    def test_a_ticket_says_that_packages_cannot_be_read(self):
        self.program("rpm", "exit 1")
        found = dataclasses.replace(
            documented_host.ISSUED, packages=("ovmf 1",)
        )
        named = culprit.Culprit("thread", "stress", 2, 40, 35, "timerlat")
        nova = compute.observe(self.root)
        ticket = breach.observe(self.root, nova, found, named, 30)
        lines = [each for each in ticket.changed if "package" in each]
        self.assertEqual(
            ["unknown for the packages (rpm: exit code 1)"], lines
        )
        self.assertEqual(len(found.conditions), ticket.compared)

    def test_what_came_and_went(self):
        found = packages.changes(("a 1", "b 1", "c 1"), ("a 1", "b 2", "d 1"))
        self.assertEqual(
            [
                "package b changed from '1' to '2'",
                "package c changed from '1' to '-'",
                "package d changed from '-' to '1'",
            ],
            list(found),
        )

    def test_a_status_that_is_none(self):
        self.tree.write(packages.STATUS, "\x00 garbage\n\nPackage: kvm\n: \n")
        self.assertEqual((), packages.observe(self.root))
