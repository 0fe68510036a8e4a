# SPDX-License-Identifier: Apache-2.0

"""fio as Debian has it runs each cell that ``verify disk`` would."""

import contextlib
import io
import json
import pathlib
import subprocess
import tempfile
import unittest

from sriov_rt.cmd import main
from sriov_rt.host.root import Root
from sriov_rt.verify import disk
from tests.periodic import periodic
from tests.testbed import packages
from tests.testbed import walk


class DiskTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            # Not in memory, which has no O_DIRECT before Linux 6.6.
            self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        )
        packages.install(("fio",), self.place / "apt.log")

    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.main(["-q", "verify", *map(str, arguments)])
        self.assertEqual((0, ""), (code, err.getvalue()))
        return json.loads(out.getvalue())

    def measured(self, *arguments):
        """Measure for a second each, and return the cells with figures."""
        target = self.place / "results"
        found = self.run_it(
            *("disk", target, "--size", "4m", "--duration", "1s"),
            *(*arguments, "--json"),
        )
        self.assertEqual({""}, {each["problem"] for each in found})
        shown = self.run_it("report", target, "--json")
        for each in disk.Target(target).all():
            name = each.cell.file.removesuffix(".json")
            (figure,) = [x["figure"] for x in shown if x["what"] == name]
            self.assertRegex(figure, r"^[0-9.]+ MB/s$")
        return [each["cell"] for each in found]

    def test_a_place_and_all_patterns_of_the_matrix(self):
        found = self.measured(
            *("--suite", "matrix", "--place", "container", "--clients", "1")
        )
        self.assertEqual(4, len(found))

    def test_readers_of_one_file_and_its_writer(self):
        """512 of them: each has the file, whatever its number is."""
        target = disk.Target(self.place / "results")
        target.prepare(0, resume=False)
        cells = disk.cells([disk.SWEEP], ["bare"], [], [], 4, 1)
        chosen = [each for each in cells if each.job.block == 4096]
        found, _ = disk.run(target, chosen, Root("/"), resume=False)
        self.assertEqual(["", ""], [each.problem for each in found])

    def test_the_walkthrough(self):
        environment = walk.install(self.place)

        def shell(script: str) -> tuple[int, str]:
            done = subprocess.run(
                script.replace("/srv/verify", f"{self.place}/verify"),
                shell=True,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            return done.returncode, done.stdout

        walk.run(self, walk.PAGES / "kata.rst", shell)

    @periodic
    def test_the_whole_sweep(self):
        found = self.measured("--suite", "sweep")
        self.assertEqual(36, len(found))
        self.assertEqual({512, 1}, {each["job"]["workers"] for each in found})

    @periodic
    def test_the_whole_matrix(self):
        self.assertEqual(24, len(self.measured("--suite", "matrix")))
