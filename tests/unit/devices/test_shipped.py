# SPDX-License-Identifier: Apache-2.0

"""What is shipped beside the code says the same as the code."""

import configparser
import pathlib
import shlex
import unittest

from sriov_rt.cmd import device
from sriov_rt.devices import cleaning
from sriov_rt.devices import settings
from sriov_rt.host import reserved_devices
from tests.unit.cmd import command_lines

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNITS = ROOT / "etc/systemd"


def unit(kind: str) -> configparser.RawConfigParser:
    found = configparser.RawConfigParser(strict=False)
    found.optionxform = str
    found.read(UNITS / f"{settings.SERVICE}.{kind}")
    return found


class UnitTest(unittest.TestCase):
    def setUp(self):
        self.service = unit("service")["Service"]

    def test_it_runs_a_command_that_there_is(self):
        words = shlex.split(self.service["ExecStart"])
        self.assertEqual("sriov-rt", pathlib.Path(words[0]).name)
        self.assertEqual(["device", "clean"], words[1:])
        found = command_lines.parse(words[1:])
        self.assertFalse(found.dry_run)
        self.assertEqual([], found.address)

    def test_it_may_write_to_sysfs_and_the_record(self):
        self.assertNotIn("ProtectKernelTunables", self.service)
        place = pathlib.PurePath("/", self.service["ReadWritePaths"])
        for path in (reserved_devices.PATH, cleaning.LOCK):
            self.assertEqual(place, pathlib.PurePath("/", path).parent)

    def test_a_device_that_stays_reserved_is_no_failure(self):
        self.assertEqual(
            str(device.EXIT_RESERVED), self.service["SuccessExitStatus"]
        )

    def test_the_timer_starts_it_before_a_record_is_old(self):
        timer = unit("timer")
        self.assertEqual("timers.target", timer["Install"]["WantedBy"])
        self.assertNotIn("Unit", timer["Timer"])
        minutes = int(timer["Timer"]["OnUnitInactiveSec"].removesuffix("min"))
        self.assertLess(minutes * 60, reserved_devices.MAX_AGE_S / 10)
        # Not enabled by itself, as the service that nothing wants.
        self.assertNotIn("Install", unit("service"))
