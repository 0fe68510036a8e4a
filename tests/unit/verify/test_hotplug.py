# SPDX-License-Identifier: Apache-2.0

import os
import shutil
import signal
import subprocess
import sys
import time

from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import errors
from sriov_rt.verify import hotplug
from sriov_rt.verify import latency
from sriov_rt.verify import results
from sriov_rt.verify.load import LOADS
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.measurement import Step
from sriov_rt.verify.profiles import Profile
from tests.periodic import slow
from tests.unit.verify.programs import ProgramTest
from tests.unit.verify.test_latency import CYCLICTEST

#: Stands in for virsh: of one running guest, rt-2.
VIRSH = """\
echo "$@" >> {place}/calls
if [ $2 != rt-2 ]; then
    printf "error: failed to get domain '$2'\\n\\n" >&2
    exit 1
fi
case $1/$3 in
    vcpucount/--active) cat {place}/vcpus; echo;;
    vcpucount/--maximum) cat {place}/maximum; echo;;
    setvcpus/*)
        if [ -e {place}/refused ]; then
            cat {place}/refused >&2
            : > {place}/was-refused
            exit 1
        fi
        # At once or not at all: the test reads it meanwhile.
        echo $3 > {place}/new
        mv {place}/new {place}/vcpus;;
    *) exit 9;;
esac
"""

#: What libvirt says of a guest that has its maximum since its start.
NOT_PLUGGABLE = (
    "error: unsupported configuration: failed to find appropriate "
    "hotpluggable vcpus to reach the desired target vcpu count"
)


def until(condition):
    """Wait for something that comes within a few seconds."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come")
        time.sleep(0.05)


class GuestTest(ProgramTest):
    """With a virsh of one guest: three vCPUs, and room for a fourth."""

    def setUp(self):
        super().setUp()
        self.sleep = shutil.which("sleep")
        self.program("virsh", VIRSH.format(place=self.place))
        # Two seconds are long.
        self.program("sleep", f"exec {self.sleep} 0.1")
        self.write("vcpus", 3)
        self.write("maximum", 4)

    def write(self, name, value):
        (self.place / name).write_text(str(value))

    def read(self, name):
        return (self.place / name).read_text().strip()

    def changes(self):
        """Return the numbers of vCPUs that were set, in order."""
        calls = self.read("calls").splitlines()
        words = [each.split() for each in calls if "setvcpus" in each]
        for each in words:
            self.assertEqual(
                ["setvcpus", "rt-2", "--live"], each[:2] + each[3:]
            )
        return [int(each[2]) for each in words]

    def running(self, limit_s=60):
        # The first that there is.
        housekeeping = CpuSet((min(os.sched_getaffinity(0)),))
        return hotplug.running("rt-2", housekeeping, limit_s)

    def refused(self, problem, kind=errors.HotplugRefused):
        with self.assertRaisesRegex(kind, problem) as raised, self.running():
            self.fail("it began")
        return str(raised.exception)


class PlanTest(GuestTest):
    def test_one_more_where_there_is_room(self):
        self.assertEqual(hotplug.Hotplug("rt-2", 3, 4), hotplug.plan("rt-2"))

    def test_one_less_at_the_maximum(self):
        self.write("vcpus", 4)
        self.assertEqual(hotplug.Hotplug("rt-2", 4, 3), hotplug.plan("rt-2"))

    def test_one_vcpu(self):
        self.write("vcpus", 1)
        self.assertEqual(2, hotplug.plan("rt-2").other)
        self.write("maximum", 1)
        with self.assertRaisesRegex(
            errors.HotplugRefused, "^guest 'rt-2': it can't have two vCPUs; "
        ):
            hotplug.plan("rt-2")

    def test_a_guest_that_is_not_there(self):
        with self.assertRaisesRegex(
            errors.HotplugRefused,
            "^guest 'rt-3': failed to get domain 'rt-3'; name a running one",
        ):
            hotplug.plan("rt-3")

    def test_garbled_output(self):
        for text in ("", "x", "-1", "0", "3 4", "٣", "9" * 99, "1\n" * 9999):
            self.write("vcpus", text)
            with self.subTest(text[:9]):
                self.assertRaises(errors.OutputInvalid, hotplug.plan, "rt-2")

    def test_names(self):
        for name in ("rt-2", "instance-0000001a", "a" * 255, "7"):
            self.assertTrue(hotplug.DOMAIN.fullmatch(name), name)
        for name in (
            "",
            "-2",
            "--live",
            "a b",
            "a/b",
            "a\n",
            "a;b",
            "a" * 256,
        ):
            self.assertFalse(hotplug.DOMAIN.fullmatch(name), name)

    def test_the_command_stays_on_housekeeping_cpus(self):
        found = hotplug.command(
            hotplug.Hotplug("rt-2", 3, 4), CpuSet((0, 1, 5)), 90.5
        )
        line = " ".join(found)
        self.assertIn("nice --adjustment=10 taskset --cpu-list 0-1,5 ", line)
        self.assertIn("timeout --foreground 91s ", line)
        self.assertEqual(("rt-2", "3", "4"), found[-3:])


@slow
class RunningTest(GuestTest):
    def test_over_and_over_and_as_before_in_the_end(self):
        with self.running() as ended:
            # Once before anything is measured.
            self.assertEqual([4, 3], self.changes()[:2])
            self.assertEqual("", ended())
            until(lambda: len(self.changes()) >= 7)
            self.assertEqual("", ended())
        found = self.changes()
        self.assertEqual([4, 3] * 3, found[:6])
        self.assertEqual("3", self.read("vcpus"))
        # And nothing goes on.
        time.sleep(0.5)
        self.assertEqual(found, self.changes())

    def test_restored_from_the_other_number(self):
        for error in (KeyboardInterrupt(), errors.RunFailed("oslat", "x")):
            with (
                self.subTest(error),
                self.assertRaises(type(error)),
                self.running(),
            ):
                until(lambda: self.read("vcpus") == "4")
                raise error
            self.assertEqual("3", self.read("vcpus"))

    def test_a_guest_that_refuses(self):
        self.write("refused", NOT_PLUGGABLE)
        with self.assertNoLogs(hotplug.LOG):
            said = self.refused("it can't have 4 vCPUs: unsupported config")
        self.assertIn("vcpu count; name one that has fewer than", said)

    def test_an_error_is_bounded_and_printable(self):
        self.write("refused", "error: \x1b[31m" + "x" * 9999)
        said = self.refused("vCPUs: .x1b.31mxxx")
        self.assertLess(len(said), 400)
        self.assertTrue(said.isprintable())

    def test_a_guest_that_accepts_and_does_nothing(self):
        self.program(
            "virsh",
            f"[ $1 != setvcpus ] || exit 0\n{VIRSH.format(place=self.place)}",
        )
        self.refused("it can't have 4 vCPUs: it has 3 vCPUs")

    def test_what_is_plugged_and_not_unplugged(self):
        late = f"[ $1$3 != setvcpus3 ] || exec cat {self.place}/stuck >&2\n"
        self.program("virsh", late + VIRSH.format(place=self.place))
        self.write("stuck", "")
        with self.assertLogs(hotplug.LOG, "WARNING") as logged:
            # It says that it does, and does not.
            self.refused("it can't have 3 vCPUs: it has 4 vCPUs")
        (line,) = logged.output
        self.assertIn("guest 'rt-2' had 3 vCPUs, and may have 4 now", line)
        self.assertIn("run 'virsh setvcpus rt-2 3 --live'", line)

    def test_one_that_ends_in_the_middle(self):
        with self.running() as ended:
            self.write("refused", "error: domain is not running")
            until(ended)
            self.assertEqual(
                "the load (hotplug of guest 'rt-2') ended before it did",
                ended(),
            )
            (self.place / "refused").unlink()
        self.assertEqual("3", self.read("vcpus"))

    def test_its_time_is_limited(self):
        with self.running(limit_s=1) as ended:
            until(ended)
            # By itself: nobody else is there after a kill.
            self.assertEqual("3", self.read("vcpus"))

    def test_a_measurement_that_is_killed(self):
        with subprocess.Popen(
            (
                sys.executable,
                "-c",
                "import time\n"
                "from sriov_rt.parse.cpulist import CpuSet\n"
                "from sriov_rt.verify import hotplug\n"
                f"cpus = CpuSet(({min(os.sched_getaffinity(0))},))\n"
                "with hotplug.running('rt-2', cpus, 60): time.sleep(60)\n",
            )
        ) as child:
            calls = self.place / "calls"
            until(lambda: calls.exists() and len(self.changes()) > 4)
            until(lambda: self.read("vcpus") == "4")
            child.kill()
        until(lambda: self.read("vcpus") == "3")
        found = self.changes()
        time.sleep(0.5)
        self.assertEqual("3", self.read("vcpus"))
        self.assertLessEqual(len(self.changes()) - len(found), 1)

    def test_ctrl_c_in_the_first_round(self):
        # A shell's background jobs ignore it, and Python with them.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        pid = os.getpid()
        self.program(
            "virsh",
            f"{VIRSH.format(place=self.place)}\n"
            f"[ $1$3 != setvcpus4 ] || kill -{signal.SIGINT:d} {pid}",
        )
        with self.assertRaises(KeyboardInterrupt), self.running():
            self.fail("it began")
        self.assertEqual([4, 3], self.changes())
        self.assertEqual("3", self.read("vcpus"))


class LatencyTest(GuestTest):
    """As a part of the load of a latency measurement."""

    def setUp(self):
        super().setUp()
        self.program("stress-ng", f"exec {self.sleep} 60")
        self.load = LOADS["compute"].with_hotplug("rt-2")

    def measure(self, load=None, *, resume=False):
        run = latency.LatencyRun(
            self.root,
            Cpus(CpuSet((1,)), CpuSet((min(os.sched_getaffinity(0)),))),
            load or self.load,
            results.Results(self.place / "results"),
        )
        step = Step("cyclictest", 3, interval_us=200)
        (found,) = run.run(Profile("p", "", (step,)), resume=resume)
        return found

    def test_measured_under_it(self):
        # What measures ends once the guest has been changed again.
        waiting = (
            f"until [ $(grep -c setvcpus {self.place}/calls) -gt 4 ]; "
            f"do {self.sleep} 0.05; done\n"
        )
        self.program("cyclictest", waiting + CYCLICTEST)
        found = self.measure()
        self.assertEqual((), found.measurement.problems)
        self.assertEqual("compute+hotplug", found.load)
        self.assertEqual("3", self.read("vcpus"))
        # Where nothing is left to measure, no guest is touched.
        calls = self.read("calls")
        self.assertEqual(found, self.measure(resume=True))
        self.assertEqual(calls, self.read("calls"))

    def test_the_load_is_what_a_run_is_resumed_by(self):
        self.program("cyclictest", CYCLICTEST)
        plain = self.measure(LOADS["compute"])
        self.assertEqual("compute", plain.load)
        self.assertFalse((self.place / "calls").exists())
        self.assertEqual("compute+hotplug", self.measure(resume=True).load)

    def test_a_guest_that_ends_in_the_middle(self):
        # What measures ends a while after it.
        self.program(
            "cyclictest",
            f"echo 'error: domain is not running' > {self.place}/refused\n"
            f"until [ -e {self.place}/was-refused ]; do {self.sleep} 0.05; "
            f"done; rm {self.place}/refused; {self.sleep} 0.5\n" + CYCLICTEST,
        )
        found = self.measure()
        self.assertIn(
            "the load (hotplug of guest 'rt-2') ended before it did",
            found.measurement.problems,
        )
        self.assertEqual("3", self.read("vcpus"))

    def test_a_refused_guest_before_anything_is_measured(self):
        self.program("cyclictest", f"touch {self.place}/measured")
        self.write("refused", NOT_PLUGGABLE)
        self.assertRaises(errors.HotplugRefused, self.measure)
        self.assertFalse((self.place / "measured").exists())
