# SPDX-License-Identifier: Apache-2.0

"""Profiles have the parameters that their sources publish."""

import getopt
import pathlib
import re
import unittest

from sriov_rt.parse import duration
from sriov_rt.parse.cpulist import CpuSet
from sriov_rt.verify import tools
from sriov_rt.verify.cyclictest import Cyclictest
from sriov_rt.verify.measurement import Cpus
from sriov_rt.verify.oslat import Oslat
from sriov_rt.verify.profiles import PROFILES

PAGE = (
    pathlib.Path(__file__).resolve().parents[3]
    / "doc/source/admin/latency.rst"
)

HOURS = 3600

CPUS = Cpus(CpuSet((2,)), CpuSet((0,)))

#: cyclictest's options that have a value, and their long names.
_LONG = {
    "-p": "--priority",
    "-i": "--interval",
    "-h": "--histogram",
    "-D": "--duration",
}


def published(line):
    """Return the options with values of a line of cyclictest."""
    options, _ = getopt.getopt(
        line.split(), "mqnvSp:i:h:D:l:", ["policy=", "mainaffinity="]
    )
    found = {_LONG.get(name, name): value for name, value in options}
    interval_us = int(found["--interval"])
    if loops := found.pop("-l", None):
        found["--duration"] = f"{int(loops) * interval_us // 10**6}s"
    seconds = duration.parse_duration(found["--duration"])
    found["--duration"] = str(seconds)
    return {name: each for name, each in found.items() if each}


class ProfilesTest(unittest.TestCase):
    def step(self, name, tool):
        (step,) = (x for x in PROFILES[name].steps if x.tool == tool)
        return step

    def tools(self, name):
        return [str(each.tool) for each in PROFILES[name].steps]

    def assert_published(self, name, line):
        """cyclictest has the options of a line, and their values."""
        words = Cyclictest(self.step(name, "cyclictest")).command(CPUS, "x")
        options = dict(each.partition("=")[::2] for each in words[1:])
        self.assertLessEqual(published(line).items(), options.items())
        self.assertIn("--mlockall", options)
        self.assertEqual("fifo", options["--policy"])

    def test_rhel(self):
        self.assertEqual(["cyclictest", "oslat"], self.tools("rhel"))
        self.assert_published(
            "rhel", "-m -q -p95 --policy=fifo -D 12h -h60 -i 200"
        )
        words = Oslat(self.step("rhel", "oslat")).command(CPUS, "x")
        # --rtprio 1 -D 12h -w memmove -m 4K
        self.assertLessEqual(
            {
                "--rtprio=1",
                f"--duration={12 * HOURS}",
                "--workload=memmove",
                "--workload-mem=4K",
            },
            set(words),
        )

    def test_osadl(self):
        self.assertEqual(["cyclictest"], self.tools("osadl"))
        self.assert_published("osadl", "-l100000000 -m -Sp90 -i200 -h400 -q")

    def test_ovirt(self):
        self.assertEqual(["hwlat", "cyclictest"], self.tools("ovirt"))
        self.assert_published("ovirt", "-m -n -v -p 95 -h 60 -i 200 -D 15m")
        hwlat = self.step("ovirt", "hwlat")
        self.assertEqual((60, 10), (hwlat.duration_s, hwlat.threshold_us))

    def test_acceptance(self):
        # Theirs are the first three, in that order; timerlat is ours.
        self.assertEqual(
            ["hwlat", "cyclictest", "oslat", "timerlat"],
            self.tools("acceptance"),
        )
        self.assertEqual(
            {12 * HOURS},
            {each.duration_s for each in PROFILES["acceptance"].steps},
        )

    def test_which_earn_no_certificate_is_documented(self):
        without = {
            name
            for name in PROFILES
            if not {*tools.CERTIFYING} <= {*self.tools(name)}
        }
        text = " ".join(PAGE.read_text().split())
        (sentence,) = re.findall(r"[^.]*earn no certificate[^.]*\.", text)
        self.assertEqual(without, {*re.findall("``([a-z0-9-]+)``", sentence)})
