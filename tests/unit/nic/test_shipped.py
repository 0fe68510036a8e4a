# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What is shipped beside the code says the same as the code."""

import configparser
import pathlib
import re
import shlex
import unittest

from sriov_rt.nic import families
from tests.unit.cmd import command_lines

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = ROOT / "etc/systemd/sriov-rt-vfs.service"
GUIDE = ROOT / "doc/source/admin/nics.rst"


class UnitTest(unittest.TestCase):
    def setUp(self):
        # Of a key that comes twice this keeps the last.
        self.unit = configparser.RawConfigParser(strict=False)
        self.unit.optionxform = str
        self.unit.read(UNIT)

    def test_it_runs_a_command_that_there_is(self):
        for key in ("ExecStart", "ExecReload"):
            words = shlex.split(self.unit["Service"][key])
            self.assertEqual("sriov-rt", pathlib.Path(words[0]).name)
            self.assertEqual("vf", words[1])
            self.assertFalse(command_lines.parse(words[1:]).dry_run)

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


class GuideTest(unittest.TestCase):
    def row(self, name):
        text = GUIDE.read_text()
        (found,) = re.findall(rf"\* - {name}\n((?:     - .*\n)+)", text)
        cells = re.findall(r"- (.*)", found)
        return dict(
            zip((row.name for row in families.BUILT_IN), cells, strict=True)
        )

    def test_its_table_has_the_numbers_of_the_rows(self):
        rates, filters, vfs = (
            self.row(name)
            for name in ("max_tx_rate", "MAC filters of a VF", "VFs of a PF")
        )
        self.assertIn("11 to 10000", rates["ixgbe"])
        for row in families.BUILT_IN:
            with self.subTest(family=row.name):
                told = str(row.max_vfs or "``sriov_totalvfs``")
                self.assertEqual(told, vfs[row.name])
                for number in (row.mac_filters.each, row.mac_filters.shared):
                    if number is not None:
                        self.assertRegex(filters[row.name], rf"\b{number}\b")
