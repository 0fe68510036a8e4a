# SPDX-License-Identifier: Apache-2.0

import contextlib
import dataclasses
import json
import math
import pathlib
import tempfile
import unittest
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from sriov_rt.verify import disk
from sriov_rt.verify import fio
from sriov_rt.verify.errors import OutputInvalid
from sriov_rt.verify.errors import RunFailed
from sriov_rt.verify.errors import TargetUnusable
from tests.unit.verify import recorded
from tests.unit.verify.programs import ProgramTest

FIO = recorded.read("fio-3.33.json")
KILLED = recorded.read("fio-3.33-killed.json")

#: What was recorded: two workers for a second.
JOB = fio.Job("randread", 65536, 8, 2, 4, shared=False, runtime_s=1)

#: Stands in for fio: it prints what the real one printed once.
PROGRAM = (
    "for each; do case $each in --directory=*)\n"
    "    touch ${each#*=}/0.dat;; esac; done\n"
    f"cat {pathlib.Path(recorded.__file__).parent}/recorded/fio-3.33.json\n"
)


def changed(**changes):
    """Return the recorded output with other values in its group."""
    found = json.loads(FIO)
    found["jobs"][0] |= changes
    return json.dumps(found).encode()


class FioTest(unittest.TestCase):
    def refused(self, output, problem=""):
        with self.assertRaises(OutputInvalid) as caught:
            fio.parse(output, JOB)
        self.assertIn("fio: output not understood", str(caught.exception))
        self.assertIn(problem, str(caught.exception))

    def test_recorded(self):
        version, found = fio.parse(FIO, JOB)
        self.assertEqual("fio-3.33", version)
        self.assertEqual(13222, math.floor(found.iops))
        self.assertLess(found.mean_us, found.p99_us)
        (job,) = json.loads(FIO)["jobs"]
        half = job[JOB.pattern.removeprefix("rand")]
        self.assertEqual(half["clat_ns"]["max"] / 1000, found.max_us)
        self.assertAlmostEqual(found.bandwidth, found.iops * 65536, -5)

    def test_a_later_version(self):
        version, found = fio.parse(recorded.read("fio-3.39.json"), JOB)
        self.assertEqual("fio-3.39", version)
        self.assertEqual(7991, math.floor(found.iops))
        self.assertAlmostEqual(found.bandwidth, found.iops * 65536, -5)
        self.assertLessEqual(found.p99_us, found.max_us)

    def test_a_version_that_does_not_report_its_workers(self):
        for version in ("fio-2.7", "fio-3.7", "fio-3.1-4-gabc"):
            found = json.loads(FIO) | {"fio version": version}
            del found["jobs"][0]["job_runtime"]
            with self.assertRaisesRegex(
                RunFailed, f"{version} does not.*install fio 3.8 or later"
            ):
                fio.parse(json.dumps(found).encode(), JOB)
        for version in ("fio-3.8", "fio-3.15", "fio-4.0"):
            found = json.loads(FIO) | {"fio version": version}
            parsed, _ = fio.parse(json.dumps(found).encode(), JOB)
            self.assertEqual(version, parsed)

    def test_a_note_before_the_json(self):
        self.assertEqual(
            fio.parse(FIO, JOB), fio.parse(b"note: all has ended\n" + FIO, JOB)
        )

    def test_a_key_that_is_there_twice(self):
        twice = FIO.replace(b'"error": 0,', b'"error": 0, "error": 0,')
        self.assertLess(len(FIO), len(twice))
        self.assertEqual(fio.parse(FIO, JOB), fio.parse(twice, JOB))

    def test_a_worker_that_was_killed(self):
        # Its error is 0 all the same.
        job = dataclasses.replace(JOB, pattern="read", runtime_s=4)
        with self.assertRaisesRegex(OutputInvalid, "4001 of 7920 ms"):
            fio.parse(KILLED, job)

    def test_garbled(self):
        for output in (b"", b"{", b"{}", b"[]", b"\xff", b"{" * 10**5):
            with self.subTest(output[:9]):
                self.refused(output)
        self.refused(b" " * (fio.MAX_OUTPUT + 1), "longer than")
        for changes, problem in (
            ({"error": 5}, "its error 5"),
            ({"job_runtime": 100}, "100 of 1980 ms"),
            ({"job_runtime": math.nan}, "job_runtime"),
            ({"read": {}}, "clat_ns"),
            ({"read": None}, "read"),
            ({"read": {"clat_ns": {}, "total_ios": 0}}, "no request"),
        ):
            with self.subTest(problem):
                self.refused(changed(**changes), problem)

    def test_wrong_values(self):
        half = json.loads(FIO)["jobs"][0]["read"]
        for key in ("bw_bytes", "iops", "total_ios"):
            for value in (-1, None, "1", True, 1e300):
                with self.subTest(key=key, value=value):
                    self.refused(changed(read=half | {key: value}), key)

    @hypothesis.settings(deadline=None)
    @hypothesis.given(st.integers(0, len(FIO) - 3))
    def test_cut_anywhere(self, end):
        self.refused(FIO[:end])


class CommandTest(unittest.TestCase):
    def test_workers_of_one_file_all_have_it(self):
        own = dataclasses.replace(JOB, shared=True)
        self.assertIn("--filename=shared.dat", fio.command(own))
        self.assertIn("--filename_format=$jobnum.dat", fio.command(JOB))


class FileSystemTest(unittest.TestCase):
    def test_places(self):
        for kind, source, options, emulated, place in (
            ("virtiofs", "share", ("rw",), True, "virtio-fs"),
            ("virtiofs", "share", ("dax=always",), True, "virtio-fs-dax"),
            ("virtiofs", "share", ("dax=never",), True, "virtio-fs"),
            ("9p", "share", ("trans=virtio",), True, "9p"),
            ("ext4", "/dev/vda1", ("rw",), True, "virtio-blk"),
            ("xfs", "/dev/nvme0n1", ("rw",), False, "bare"),
            ("xfs", "/dev/sda", ("rw",), True, "guest"),
        ):
            with self.subTest(place):
                found = disk.FileSystem(kind, source, options)
                self.assertEqual(place, found.place(emulated))

    def test_of_a_directory(self):
        found = disk.file_system(pathlib.Path("/proc/self"))
        self.assertEqual("proc", found.kind)


class TargetTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )
        self.target = disk.Target(self.place / "t")

    def refused(self, problem, space=0, resume=False):
        with self.assertRaisesRegex(TargetUnusable, problem):
            self.target.prepare(space, resume=resume)

    def test_missing_is_made(self):
        self.target.prepare(0, resume=False)
        self.assertTrue(self.target.directory.is_dir())

    def test_a_file(self):
        self.target.directory.write_text("")
        self.refused("Not a directory")

    def test_of_another(self):
        self.target.directory.mkdir()
        (self.target.directory / "photos").mkdir()
        for resume in (False, True):
            self.refused("'photos' in it is none of ours", resume=resume)

    def test_results_are_kept_unless_resumed(self):
        self.target.directory.mkdir()
        (self.target.directory / "disk-matrix.json").touch()
        # What a run leaves that was killed while it wrote one.
        (self.target.directory / ".disk-matrix.json.new").touch()
        self.refused("--resume")
        self.target.prepare(0, resume=True)

    def test_data_of_another(self):
        data = self.target.data
        self.target.directory.mkdir()
        (self.target.directory / "data").symlink_to("/etc")
        self.refused("no directory", resume=True)
        self.target.clean()
        self.assertTrue(pathlib.Path("/etc").exists())
        (self.target.directory / "data").unlink()
        (data() / "0.dat").symlink_to("/etc/passwd")
        self.refused("'data/0.dat' in it is none of ours", resume=True)

    def test_no_room(self):
        self.refused("GiB are free; give a smaller --size", space=2**60)
        self.assertFalse(self.target.directory.exists())


class FittedTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory())
        )

    def fitted(self, free_gib, resume=False):
        """Return the MiB of each file of 273 workers."""
        with mock.patch.object(disk, "_free", return_value=free_gib * 2**30):
            found = disk.fitted(
                self.place,
                lambda size: list(
                    disk.cells(
                        disk.SUITES, ["9p"], [1, 64], ["read"], size, 30
                    )
                ),
                resume=resume,
            )
        self.assertLessEqual(disk.data_size(found), free_gib * 2**28)
        return found[0].job.size_mib

    def test_a_quarter_of_what_is_free(self):
        for free_gib, size in ((4000, 1024), (1000, 512), (40, 32), (2, 1)):
            with self.subTest(free_gib):
                self.assertEqual(size, self.fitted(free_gib))

    def test_what_was_measured_has_the_size_of_a_resumed_run(self):
        job = dataclasses.replace(JOB, size_mib=16)
        disk.Target(self.place).put(
            disk.Measured(
                disk.Cell(disk.MATRIX, "9p", 1, job),
                *("ext4", "6.1", "fio-3.33", "fio", 0.0, True, None),
            )
        )
        self.assertEqual(16, self.fitted(4000, resume=True))

    def test_how_long_and_how_much_is_said(self):
        cells = list(disk.cells(["sweep"], ["9p"], [], [], 1024, 30))
        with mock.patch.object(disk, "_free", return_value=2**33):
            self.assertEqual(
                "18 runs, 9m and the time to write 1.0 GiB of data; 8.0 GiB "
                "are free",
                disk.extent(cells, self.place),
            )


class RunTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.program("fio", PROGRAM)
        self.target = disk.Target(self.place / "t")
        self.target.prepare(0, resume=False)
        job = JOB
        self.cells = [
            disk.Cell(disk.MATRIX, "bare", count, job) for count in (1, 8)
        ]

    def run_it(self, resume=False):
        return disk.run(self.target, self.cells, self.root, resume=resume)

    def files(self):
        return sorted(each.name for each in self.target.directory.iterdir())

    def test_a_file_a_cell_and_no_data_left(self):
        found, interrupted = self.run_it()
        self.assertFalse(interrupted)
        self.assertEqual(13222, math.floor(found[1].figures.iops))
        self.assertEqual(
            [
                "disk-matrix-bare-randread-1-64k.json",
                "disk-matrix-bare-randread-8-64k.json",
            ],
            self.files(),
        )

    def test_a_relative_path_and_one_that_fio_would_split(self):
        # As fio does: its directory has to be there.
        self.program(
            "fio",
            "for each; do case $each in --directory=*:*)\n"
            " exit 1;; --directory=*) cd ${each#*=} || exit 1"
            ";; esac; done\n"
            "pwd > 0.dat\n" + PROGRAM,
        )
        self.enterContext(contextlib.chdir(self.place))
        for name in ("relative", "a:b"):
            self.target = disk.Target(pathlib.Path(name))
            self.target.prepare(0, resume=False)
            found, _ = self.run_it()
            self.assertEqual(["", ""], [each.problem for each in found])
            self.assertEqual(2, len(self.files()))

    def test_a_cell_that_fails_is_measured_again(self):
        self.program("fio", "echo 'fio: Invalid argument' >&2\nexit 1")
        found, _ = self.run_it()
        self.assertEqual(
            ["fio failed: fio: Invalid argument"] * 2,
            [each.problem for each in found],
        )
        self.assertEqual([], list(disk.TABLE.rows(found)))
        self.program("fio", PROGRAM)
        found, _ = self.run_it(resume=True)
        self.assertEqual(["", ""], [each.problem for each in found])
        # And what was measured is not.
        self.program("fio", "exit 1")
        self.assertEqual(found, self.run_it(resume=True)[0])

    def test_interrupted(self):
        with mock.patch.object(
            disk, "_measure", side_effect=KeyboardInterrupt
        ):
            self.assertEqual(([], True), self.run_it())
        self.assertEqual([], self.files())

    def test_a_killed_fio(self):
        self.program("fio", "echo '{'\nkill -9 $$")
        found, _ = self.run_it()
        self.assertIn("exit code -9", found[0].problem)

    def test_garbled_results_are_measured_again(self):
        self.run_it()
        for text in ("", "{", "[]", '{"schema": 1}', "x" * 10**6):
            (self.target.directory / self.cells[0].file).write_text(text)
            self.assertIsNone(self.target.get(self.cells[0]))


class TableTest(unittest.TestCase):
    def measured(self, cell, iops):
        figures = fio.Figures(1e6, iops, 1.0, 2.0, 3.0)
        return disk.Measured(
            cell, "ext4", "6.1", "fio-3.33", "fio", 0.0, True, figures
        )

    def test_parity_beside_what_was_published(self):
        job = fio.Job("randread", 32768, 1, 512, 4, True, 30)
        cells = [
            disk.Cell(disk.SWEEP, place, 1, job)
            for place in ("bare", disk.CONTAINER)
        ]
        first, second = disk.TABLE.rows(
            [
                self.measured(each, iops)
                for each, iops in zip(cells, (1000, 521), strict=True)
            ]
        )
        way = "no: a file system, not a raw NVMe drive; namespaces, not LXC"
        self.assertEqual(("-", "-", way), first[-3:])
        self.assertEqual(("52.1 %", "52.1 %", way), second[-3:])

    def test_the_matrix_is_stackhpc_s(self):
        found = list(
            disk.cells(
                [disk.MATRIX], ["9p"], disk.CLIENTS, fio.PATTERNS, 32768, 30
            )
        )
        self.assertEqual(12, len(found))
        self.assertTrue(all(disk.same_way(each) == "yes" for each in found))
        self.assertEqual({4, 32, 256}, {each.job.workers for each in found})

    def test_space_is_that_of_the_greatest(self):
        found = disk.cells(disk.SUITES, ["bare"], [1, 8], fio.PATTERNS, 1, 30)
        # 32 files of the matrix, and the one of the sweep.
        self.assertEqual(33 * 2**20, disk.data_size(found))
