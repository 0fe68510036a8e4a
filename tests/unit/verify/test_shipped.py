# SPDX-License-Identifier: Apache-2.0

"""What is shipped beside the code says the same as the code."""

import configparser
import pathlib
import shlex
import unittest

from sriov_rt.cmd import faults
from sriov_rt.facts import certificate
from tests.unit.cmd import command_lines

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = ROOT / "etc/systemd/sriov-rt-verify-watch.service"


class UnitTest(unittest.TestCase):
    def setUp(self):
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str
        unit.read(UNIT)
        self.service = unit["Service"]

    def test_it_runs_a_command_that_there_is(self):
        words = shlex.split(self.service["ExecStart"])
        self.assertEqual("sriov-rt", pathlib.Path(words[0]).name)
        self.assertEqual(["verify", "watch"], words[1:3])
        self.assertFalse(command_lines.parse(words[1:]).once)

    def test_its_directory_is_that_of_the_certificate(self):
        directory = pathlib.PurePath("/", certificate.PATH).parent
        self.assertEqual(
            f"/var/lib/{self.service['StateDirectory']}", str(directory)
        )
        # The agent, which is no root, reads it.
        self.assertEqual("0755", self.service["StateDirectoryMode"])

    def test_ctrl_c_is_no_failure(self):
        self.assertEqual("SIGINT", self.service["KillSignal"])
        self.assertEqual(
            str(faults.EXIT_INTERRUPTED), self.service["SuccessExitStatus"]
        )

    def test_it_may_trace_and_schedule_in_real_time(self):
        for name in (
            "ProtectKernelTunables",
            "ProtectKernelLogs",
            "RestrictRealtime",
            "ProtectProc",
        ):
            self.assertNotIn(name, self.service)
        held = set(self.service["CapabilityBoundingSet"].split())
        self.assertLessEqual({"CAP_SYS_NICE", "CAP_SYS_ADMIN"}, held)
