# SPDX-License-Identifier: Apache-2.0

"""Disk and network measurements are matrices of cells, run by one loop."""

import dataclasses
import pathlib
import tempfile
import unittest

from sriov_rt.verify import disk
from sriov_rt.verify import fio
from sriov_rt.verify import matrix
from sriov_rt.verify import network

DISK = disk.Measured(
    disk.Cell(
        disk.MATRIX, "bare", 1, fio.Job("read", 65536, 8, 4, 1024, False, 30)
    ),
    *("ext4", "6.1", "fio-3.33", "fio", 0.0, False),
    fio.Figures(1e6, 10.0, 900.0, 2000.0, 5000.0),
)

NETWORK = network.Measured(
    network.Cell("host", network.SEND, 1, 20),
    *(network.TWO_HOSTS, "6.1", "3.12", "iperf3", 0.0, False, 9e9),
)

#: A table, a result with figures, and the same without.
MATRICES = (
    (disk.TABLE, DISK, dataclasses.replace(DISK, figures=None)),
    (network.TABLE, NETWORK, dataclasses.replace(NETWORK, figure=None)),
)

CELLS = [
    *disk.cells(disk.SUITES, ["bare", "container"], [1, 8], ["read"], 1, 1),
    *network.cells("host", [1, 36], 1, onload=True, packets=True),
]


class TableTest(unittest.TestCase):
    def test_each_row_has_a_text_in_each_column(self):
        for table, measured, _ in MATRICES:
            (row,) = table.rows([measured])
            with self.subTest(columns=table.names):
                self.assertEqual(len(table.names), len(row))
                self.assertTrue(all(row))

    def test_no_row_without_figures(self):
        for table, _, failed in MATRICES:
            self.assertEqual([], list(table.rows([failed])))
            self.assertEqual([], list(table.remarks([failed])))

    def test_published_figures_are_shown_on_request(self):
        for table, _, _ in MATRICES:
            for published in (False, True):
                shown = table.shown(published=published)
                self.assertEqual(published, matrix.PUBLISHED in shown)
                self.assertLessEqual({*shown}, {*table.names})
                self.assertNotIn(matrix.SAME_WAY, shown)


class RunTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.kept = network.Results(pathlib.Path(place.name))
        self.cells = [
            network.Cell("host", network.REQUESTS, n, 20) for n in (1, 2, 4)
        ]
        self.ran = []

    def measure(self, cell):
        self.ran.append(cell.streams)
        return dataclasses.replace(NETWORK, cell=cell)

    def run_it(self, measure=None, **options):
        options.setdefault("resume", True)
        return matrix.run(
            self.cells, self.kept, measure or self.measure, **options
        )

    def test_each_cell_has_a_file_of_its_own(self):
        names = [each.file for each in CELLS]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(each.duration_s == 1 for each in CELLS))

    def test_a_run_is_resumed_from_its_files(self):
        first, _ = self.run_it()
        self.assertEqual((first, False), self.run_it())
        self.assertEqual([1, 2, 4], self.ran)
        self.run_it(resume=False)
        self.assertEqual([1, 2, 4] * 2, self.ran)

    def test_a_result_that_is_not_usable_is_measured_again(self):
        self.run_it()
        self.run_it(is_usable=lambda found: found.cell.streams != 2)
        self.assertEqual([1, 2, 4, 2], self.ran)

    def test_a_result_without_figures_is_measured_again(self):
        def fail(cell):
            found = self.measure(cell)
            return dataclasses.replace(found, figure=None, problem="no route")

        found, _ = self.run_it(fail)
        self.assertEqual(["no route"] * 3, [each.problem for each in found])
        self.run_it()
        self.assertEqual([1, 2, 4] * 2, self.ran)

    def test_ctrl_c_keeps_the_results_so_far(self):
        def interrupted(cell):
            if cell.streams == 4:
                raise KeyboardInterrupt
            return self.measure(cell)

        found, ended = self.run_it(interrupted)
        self.assertTrue(ended)
        self.assertEqual(found, self.kept.all())
        self.assertEqual([1, 2], [each.cell.streams for each in found])

    def test_progress_says_how_many_are_left(self):
        left = []
        self.run_it(progress=lambda cell, each: left.append(each))
        self.assertEqual([3, 2, 1], left)
