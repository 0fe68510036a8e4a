# SPDX-License-Identifier: Apache-2.0

"""Debian's sos with our plug-in, of the tree of a realtime host."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from sriov_rt.cmd import main
from tests.testbed import packages
from tests.unit.host import trees

PLUGIN = pathlib.Path(__file__).parents[3] / "etc/sos/sriov_rt.py"
SOS = pathlib.Path("/usr/lib/python3/dist-packages/sos")

RUN = "import sys; from sos import SoS; SoS(sys.argv[1:]).execute()"


@unittest.skipUnless(os.geteuid() == 0, "sos wants root")
class SosTest(unittest.TestCase):
    def test_a_host_that_the_plug_in_collected(self):
        place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )
        packages.install(("sosreport",), place / "apt.log")
        # As its package has it, and beside it our file.
        shutil.copytree(SOS, place / "lib/sos")
        shutil.copy(PLUGIN, place / "lib/sos/report/plugins")
        tree = trees.realtime_host(place / "root")
        tree.write(
            "etc/sriov_rt/sriov-rt.conf",
            "[sriov_rt]\ntransport_url = rabbit://u:hunter2@mq/\n"
            "[x]\nadmin_password = hunter3\n",
        )
        tree.write("etc/sriov_rt/guests.conf", "[g]\nauth_token=hunter4\n")
        (place / "out").mkdir()
        done = subprocess.run(
            (
                *("/usr/bin/python3", "-c", RUN, "report", "--batch"),
                *("-o", "sriov_rt", "--sysroot", str(place / "root")),
                *("--tmp-dir", str(place / "out")),
                # The tree has no ls.
                *("--chroot", "never"),
            ),
            env={**os.environ, "PYTHONPATH": str(place / "lib")},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        found = list((place / "out").glob("*.tar.xz"))
        self.assertEqual(1, len(found), done.stdout + done.stderr)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            main.main(["host", "check", "--sos", str(found[0]), "--json"])
        codes = {
            (each["code"], each.get("fact"))
            for each in json.loads(out.getvalue())["reasons"]
        }
        # Nova's files are those of sos' own plug-in.
        self.assertLessEqual(
            codes,
            {
                ("fact_unknown", "compute.dedicated"),
                ("fact_unknown", "compute.driver"),
                ("compute_driver_missing", None),
            },
        )
        with tempfile.TemporaryDirectory() as inside:
            subprocess.run(
                ("tar", "-xf", str(found[0]), "-C", inside), check=True
            )
            (conf,) = pathlib.Path(inside).glob("*/etc/sriov_rt/sriov-rt.conf")
            self.assertIn("rabbit://u:********@mq/", conf.read_text())
            self.assertTrue(
                list(pathlib.Path(inside).glob("*/sos_commands/sriov_rt/ls_*"))
            )
            files = [
                each
                for each in pathlib.Path(inside).rglob("*")
                if each.is_file() and not each.is_symlink()
            ]
            self.assertGreater(len(files), 50)
            self.assertEqual(
                [], [x for x in files if b"hunter" in x.read_bytes()]
            )
