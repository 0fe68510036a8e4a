# SPDX-License-Identifier: Apache-2.0

"""What is shipped beside the code says the same as the code."""

import configparser
import pathlib
import re
import shlex
import unittest

from sriov_rt.cmd import vif_restore
from tests.unit.cmd import command_lines

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = ROOT / "etc/systemd/sriov-rt-vfs.service"
RESTORE = ROOT / "etc/systemd/sriov-rt-restore.service"
RULES = ROOT / "etc/udev/90-sriov-rt.rules"


def parsed(path):
    # Of a key that comes twice this keeps the last.
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(path)
    return unit


class UnitTest(unittest.TestCase):
    def setUp(self):
        self.unit = parsed(UNIT)

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


class RestoreTest(unittest.TestCase):
    """What runs when a PF comes back."""

    def setUp(self):
        self.unit = parsed(RESTORE)

    def test_it_provisions_and_restores(self):
        found = re.findall(r"(?m)^ExecStart=-?(.*)$", RESTORE.read_text())
        words = [shlex.split(each)[1:] for each in found]
        self.assertEqual([["vf", "provision"], ["vif", "restore"]], words)
        for each in words:
            self.assertFalse(command_lines.parse(each).dry_run)
        # A PF that gets no VFs keeps no other PF's ports waiting.
        self.assertEqual(
            ["-/usr/bin/sriov-rt", "/usr/bin/sriov-rt"],
            re.findall(r"(?m)^ExecStart=(\S+)", RESTORE.read_text()),
        )

    def test_its_path_is_enabled_with_the_making_of_vfs(self):
        path = RESTORE.with_suffix(".path")
        self.assertEqual(path.name, parsed(UNIT)["Install"]["Also"])
        install = parsed(path)["Install"]
        self.assertEqual(UNIT.name, install["WantedBy"])

    def test_it_goes_on_until_no_later_run_would_help(self):
        service = self.unit["Service"]
        self.assertEqual("on-failure", service["Restart"])
        self.assertEqual("0", self.unit["Unit"]["StartLimitIntervalSec"])
        self.assertEqual(
            f"{vif_restore.EXIT_GUESTS} SIGTERM", service["SuccessExitStatus"]
        )

    def test_it_may_do_what_the_other_may(self):
        ways = ("Exec", "Restart", "RemainAfter", "SuccessExit")
        each, other = (
            {
                key: value
                for key, value in unit["Service"].items()
                if not key.startswith(ways)
            }
            for unit in (self.unit, parsed(UNIT))
        )
        self.assertEqual(other, each)

    def test_the_rule_notes_it_and_is_one_of_udevs(self):
        text = RULES.read_text()
        path = RESTORE.with_suffix(".path")
        file = parsed(path)["Path"]["PathExists"]
        # What comes after the service has begun makes the file again.
        before = parsed(RESTORE)["Service"]["ExecStartPre"]
        self.assertEqual(f"/bin/rm -f {file}", before)
        # A rule that starts a unit starts what an operator has disabled.
        self.assertEqual(
            [f"/usr/bin/touch {file}"], re.findall(r'RUN\+="([^"]+)"', text)
        )
        # A plug binds its VF's driver, and must not start it.
        (interface,) = re.findall(r'.*SUBSYSTEM=="net".*', text)
        self.assertIn('TEST!="device/physfn"', interface)
        # Each label that is gone to is there (udevadm verify is of 254).
        gone = set(re.findall(r'GOTO="(\w+)"', text))
        self.assertEqual(gone, set(re.findall(r'LABEL="(\w+)"', text)))
        for line in text.splitlines():
            if line and not line.startswith("#"):
                self.assertRegex(
                    line,
                    r'^(?:[A-Z]+(?:\{[a-z_/A-Z]+\})?(?:==|!=|=|\+=)"[^"]*"'
                    r"(?:, |$))+$",
                )
