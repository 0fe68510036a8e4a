# SPDX-License-Identifier: Apache-2.0

"""What is shipped beside the code says the same as the code."""

import configparser
import pathlib
import re
import shlex
import unittest

from tests.unit.cmd import command_lines

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = ROOT / "etc/systemd/sriov-rt-vfs.service"


class UnitTest(unittest.TestCase):
    def setUp(self):
        # Of a key that comes twice this keeps the last.
        self.unit = configparser.RawConfigParser(strict=False)
        self.unit.optionxform = str
        self.unit.read(UNIT)

    def test_it_runs_a_command_that_there_is(self):
        found = re.findall(
            r"(?m)^Exec(?:Start|Reload)=(.*)$", UNIT.read_text()
        )
        commands = [shlex.split(each) for each in found]
        for words in commands:
            self.assertEqual("sriov-rt", pathlib.Path(words[0]).name)
            self.assertFalse(command_lines.parse(words[1:]).dry_run)
        # Ports are plugged again once their VFs are made again.
        provision = ["vf", "provision"]
        self.assertEqual(
            [provision, provision, ["vif", "restore"]],
            [words[1:] for words in commands],
        )

    def test_vfs_are_there_before_who_takes_them(self):
        before = " ".join(re.findall(r"(?m)^Before=(.*)$", UNIT.read_text()))
        for name in (
            "libvirtd",
            "virtqemud",
            "nova-compute",
            "sriov-rt-agent",
        ):
            self.assertIn(f"{name}.service", before.split())
        self.assertEqual("oneshot", self.unit["Service"]["Type"])

    def test_it_can_write_to_sysfs(self):
        self.assertNotIn("ProtectKernelTunables", self.unit["Service"])
