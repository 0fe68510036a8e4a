# SPDX-License-Identifier: Apache-2.0

import dataclasses
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import errors
from sriov_rt.verify import latency
from sriov_rt.verify import results
from sriov_rt.verify.latency_tool import TRACERS
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.profiles import PROFILES
from sriov_rt.verify.profiles import Profile
from tests.unit.host import trees
from tests.unit.verify.programs import ProgramTest

RECORDED = pathlib.Path(__file__).with_name("recorded")

#: Stands in for cyclictest: it writes what the real one wrote once.
CYCLICTEST = f"""\
for each; do
    case $each in --json=*) cp {RECORDED}/cyclictest-2.40.json "${{each#*=}}";;
    esac
done
echo "       0:       0:      25"
"""

#: Stand in for both tools that need no tracer.
COPYING = {
    "cyclictest": CYCLICTEST,
    "oslat": CYCLICTEST.replace("cyclictest", "oslat"),
}

STEP = Step("cyclictest", 3, interval_us=200)


class CpusTest(unittest.TestCase):
    def cpus(self, online, isolated):
        with tempfile.TemporaryDirectory() as place:
            tree = trees.Tree(place)
            tree.write("sys/devices/system/cpu/online", online)
            tree.write("sys/devices/system/cpu/isolated", isolated)
            return latency.cpus_of(tree.root)

    def test_isolated_and_online(self):
        found = self.cpus("0-5\n", "2-7\n")
        self.assertEqual(CpuSet((2, 3, 4, 5)), found.measured)
        self.assertEqual(CpuSet((0, 1)), found.housekeeping)

    def test_those_of_a_partition_cannot_be_reached(self):
        with tempfile.TemporaryDirectory() as place:
            tree = trees.realtime_host(place)
            tree.write("sys/devices/system/cpu/isolated", "\n")
            tree.guest_cgroup("1-3", "1-3", "isolated")
            with self.assertRaisesRegex(
                errors.NotIsolated, "CPUs 1-3 are isolated by the partition"
            ):
                latency.cpus_of(tree.root)

    def test_pcpus_that_nova_took_offline_earn_no_certificate(self):
        with tempfile.TemporaryDirectory() as place:
            tree = trees.realtime_host(place)
            tree.take_offline("2-3")
            found = latency.cpus_of(tree.root)
            latency.check_online(tree.root, found)
            tree.write(
                "etc/nova/nova.conf.d/power.conf",
                "[libvirt]\ncpu_power_management = true\n",
            )
            with self.assertRaisesRegex(
                errors.CpusOffline, "pCPUs 2-3 are offline .* restart nova"
            ):
                latency.check_online(tree.root, found)

    def test_none(self):
        for online, isolated, problem in (
            ("0-3\n", "\n", "no CPU is isolated"),
            ("0-3\n", "8\n", "no CPU is isolated"),
            ("0-3\n", "0-3\n", "all CPUs are isolated"),
            ("x\n", "2\n", "online"),
        ):
            with (
                self.subTest(isolated),
                self.assertRaisesRegex(errors.NotIsolated, problem),
            ):
                self.cpus(online, isolated)


class RunTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.program("cyclictest", CYCLICTEST)
        self.results = results.Results(self.place / "results")

    def run_it(self, resume=False, cpus=(1,), step=STEP, load="none"):
        run = latency.LatencyRun(
            self.root,
            Cpus(CpuSet(cpus), CpuSet((0,))),
            LOADS[load],
            self.results,
        )
        return run.run(Profile("p", "", (step,)), resume=resume)

    def test_measured_and_kept(self):
        (found,) = self.run_it()
        self.assertEqual(981, found.measurement.max_us)
        self.assertEqual(
            ["cyclictest.json"],
            [each.name for each in self.results.directory.iterdir()],
        )

    def test_progress_counts_down_to_the_end_of_the_run(self):
        seen = []
        for name in ("cyclictest", "oslat"):
            self.program(name, "sleep 0.2\n" + COPYING[name])
        steps = (STEP, Step("oslat", 5, priority=1))
        latency.LatencyRun(
            self.root,
            Cpus(CpuSet((1,)), CpuSet((0,))),
            LOADS["none"],
            self.results,
            seen.append,
        ).run(Profile("p", "", steps), resume=False)
        left = [each.left_s for each in seen]
        self.assertEqual(sorted(left, reverse=True), left)
        # The whole run first, the last tool's time at the end.
        self.assertTrue(5 < left[0] <= 8, left)
        self.assertTrue(0 < left[-1] < 5, left)
        self.assertEqual(
            [("cyclictest", 3), ("oslat", 5)],
            list(dict.fromkeys((e.tool, e.duration_s) for e in seen)),
        )

    def test_a_stall_is_never_a_good_figure(self):
        # What was recorded at 200 µs is half of what 100 µs would be.
        step = dataclasses.replace(STEP, interval_us=100)
        (found,) = self.run_it(step=step)
        (problem,) = found.measurement.problems
        self.assertIn("14909 of 30000 samples", problem)

    def test_a_load_that_ended_is_none(self):
        pid = self.place / "pid"
        self.program("stress-ng", f"echo $$ >{pid}\nexit 1\n")
        # What measures ends after it, however busy the machine is: a zombie
        # until somebody looks whether it still runs.
        waiting = (
            f"until grep -sq '^State:.Z' /proc/$(cat {pid})/status; "
            "do sleep 0.01; done 2>/dev/null\n"
        )
        self.program("cyclictest", waiting + CYCLICTEST)
        (found,) = self.run_it(load="compute")
        (problem,) = found.measurement.problems
        self.assertIn("the load (stress-ng) ended", problem)
        # So that nothing measured without it is ever resumed from.
        self.program("stress-ng", "exec sleep 60\n")
        self.program("cyclictest", CYCLICTEST)
        (found,) = self.run_it(load="compute", resume=True)
        self.assertEqual((), found.measurement.problems)

    def test_the_load_writes_beside_the_results(self):
        words = self.place / "words"
        self.program(
            "stress-ng",
            f'echo "$@" >{words}.new; mv {words}.new {words}\nexec sleep 60\n',
        )
        self.program(
            "cyclictest",
            f"until [ -e {words} ]; do sleep 0.01; done\n" + CYCLICTEST,
        )
        self.run_it(load="compute")
        (written,) = re.findall(r"--temp-path (\S+)", words.read_text())
        self.assertEqual(self.results.directory, pathlib.Path(written).parent)
        # And nothing of it stays there.
        self.assertEqual(
            ["cyclictest.json"],
            [each.name for each in self.results.directory.iterdir()],
        )

    def test_of_an_emulated_host(self):
        (found,) = self.run_it()
        self.assertFalse(found.emulated)
        self.tree.write("proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
        (found,) = self.run_it()
        self.assertTrue(found.emulated)

    def test_resumed(self):
        (found,) = self.run_it()
        self.program("cyclictest", "exit 9\n")
        self.assertEqual([found], self.run_it(resume=True))
        # Not without being told to, nor with other parameters.
        for resume, step in (
            (False, STEP),
            (True, dataclasses.replace(STEP, duration_s=4)),
        ):
            with self.assertRaises(errors.RunFailed):
                self.run_it(resume, step=step)

    def test_an_interrupted_run_does_not_count(self):
        """Neither as a good figure, nor to be resumed from."""
        # As it does on SIGINT: it writes what it has.
        waiting = "trap ended=1 INT\nuntil [ $ended ]; do sleep 0.01; done\n"
        self.program("cyclictest", waiting + CYCLICTEST)
        self.program("oslat", COPYING["oslat"])
        profile = Profile("p", "", (STEP, Step("oslat", 5, priority=1)))
        run = latency.LatencyRun(
            self.root,
            Cpus(CpuSet((1,)), CpuSet((0,))),
            LOADS["none"],
            self.results,
            mock.Mock(side_effect=[None, KeyboardInterrupt, *[None] * 99]),
        )
        (found,) = run.run(profile, resume=False)
        self.assertEqual("cyclictest", found.measurement.tool)
        self.assertEqual(
            ("it was interrupted before its end",),
            found.measurement.problems,
        )
        # It is kept, for a person to look at, and measured again.
        self.assertEqual(found, self.results.get(STEP))
        self.program("cyclictest", "exit 9\n")
        with self.assertRaises(errors.RunFailed):
            self.run_it(resume=True)

    def test_what_does_not_count_is_measured_again(self):
        step = dataclasses.replace(STEP, interval_us=100)
        self.run_it(step=step)
        self.program("cyclictest", "exit 9\n")
        with self.assertRaises(errors.RunFailed):
            self.run_it(resume=True, step=step)

    def test_a_tool_that_fails(self):
        self.program(
            "cyclictest",
            "echo 'Unable to change scheduling policy!' >&2\nexit 1\n",
        )
        with self.assertRaisesRegex(
            errors.RunFailed,
            "cyclictest failed: Unable to change scheduling policy!",
        ):
            self.run_it()

    def test_a_tool_that_was_killed(self):
        self.program("cyclictest", "kill -9 $$\n")
        with self.assertRaisesRegex(errors.RunFailed, "exit code -9"):
            self.run_it()
        self.assertFalse(self.results.directory.exists())

    def test_a_tool_that_writes_nothing(self):
        self.program("cyclictest", "exit 0\n")
        with self.assertRaises(errors.RunFailed):
            self.run_it()

    def test_a_cpu_that_was_not_measured(self):
        (found,) = self.run_it(cpus=(1, 2))
        self.assertIn("CPU 2 was not measured", found.measurement.problems)

    def test_missing_programs(self):
        with mock.patch.dict(os.environ, {"PATH": str(self.place)}):
            self.assertEqual(
                [
                    ("oslat", "rt-tests"),
                    ("rtla", "rtla"),
                    ("stress-ng", "stress-ng"),
                ],
                list(latency.missing(PROFILES["quick"], LOADS["compute"])),
            )
        self.assertEqual(
            "not installed: oslat, rtla; install rt-tests rtla",
            str(
                errors.ToolsMissing((("oslat", "rt-tests"), ("rtla", "rtla")))
            ),
        )


class TracersTest(trees.TreeTest):
    def chosen(self, profile):
        found, said = latency.without_tracers(profile, self.root)
        return [each.tool for each in found.steps], said

    def test_tools_whose_tracer_the_kernel_has_not_are_left_out(self):
        for tracers, tools, said in (
            (
                "blk hwlat timerlat nop\n",
                ["hwlat", "cyclictest", "oslat", "timerlat"],
                (),
            ),
            (
                "hwlat nop\n",
                ["hwlat", "cyclictest", "oslat"],
                (
                    "timerlat is left out: the kernel has no timerlat tracer "
                    "(CONFIG_TIMERLAT_TRACER)",
                ),
            ),
        ):
            with self.subTest(tracers):
                self.tree.write(TRACERS, tracers)
                self.assertEqual((tools, said), self.chosen(PROFILES["quick"]))

    def test_without_tracefs(self):
        tools, said = self.chosen(PROFILES["quick"])
        self.assertEqual(["cyclictest", "oslat"], tools)
        for each in said:
            self.assertRegex(each, "is left out: .* mount tracefs there")
        only = PROFILES["quick"].without(["cyclictest", "oslat"])
        with self.assertRaisesRegex(errors.RunFailed, "hwlat is left out"):
            self.chosen(only)


class ExclusiveTest(unittest.TestCase):
    def test_two_at_once(self):
        with tempfile.TemporaryDirectory() as place:
            lock = pathlib.Path(place) / "lock"
            with results.exclusive(lock):
                second = results.exclusive(lock)
                self.assertRaises(errors.Busy, second.__enter__)
            with results.exclusive(lock):
                pass

    def test_nobody_else_can_hold_roots(self):
        place = results.lock_of(0).parent.stat()
        self.assertEqual((0, 0), (place.st_uid, place.st_mode & 0o022))
        self.assertNotEqual(results.lock_of(0), results.lock_of(65534))

    def test_a_link_of_somebody_else_is_not_followed(self):
        with tempfile.TemporaryDirectory() as place:
            lock = pathlib.Path(place) / "lock"
            lock.symlink_to(pathlib.Path(place) / "victim")
            self.assertRaises(OSError, results.exclusive(lock).__enter__)
            self.assertFalse((pathlib.Path(place) / "victim").exists())


class ResultsTest(unittest.TestCase):
    def test_garbage_is_measured_again(self):
        with tempfile.TemporaryDirectory() as place:
            found = results.Results(pathlib.Path(place))
            for text in ("", "{", "[]", '{"schema": 1}', "x" * 100):
                (pathlib.Path(place) / "cyclictest.json").write_text(text)
                self.assertIsNone(found.get(STEP))
