# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import threading
import unittest
from unittest import mock

from sriov_rt.cmd import faults
from sriov_rt.cmd import progress
from sriov_rt.verify.latency import Progress

NAME = "network-host-send-1.json"


class ProgressTest(unittest.TestCase):
    def setUp(self):
        self.said = io.StringIO()
        self.enterContext(contextlib.redirect_stderr(self.said))
        self.watched = self.enterContext(
            mock.patch.object(faults, "is_watched", return_value=True)
        )

    def test_the_line_is_gone_when_the_work_has_ended(self):
        with (
            self.assertRaises(KeyboardInterrupt),
            progress.Line(is_quiet=False) as line,
        ):
            line.latency(Progress("oslat", 5.0, 900, 2700.4))
            raise KeyboardInterrupt
        self.assertEqual(
            "\roslat: 45m left\033[K\r\033[K", self.said.getvalue()
        )

    def test_nothing_is_shown_where_nobody_watches(self):
        self.watched.return_value = False
        with progress.Cells(is_quiet=False) as cells:
            cells.begin(NAME, 20, 2)
        self.assertEqual("", self.said.getvalue())

    def test_a_cell_shows_how_long_it_has_been_running(self):
        with progress.Cells(is_quiet=False) as cells:
            for left, elapsed, text in (
                (2, 0.0, f"{NAME}: 2 runs left"),
                (2, 1.9, f"{NAME}: 2 runs left"),
                (2, 2.1, f"{NAME}: 2s of 20s, 2 runs left"),
                (1, 61.0, f"{NAME}: 1m1s of 20s, 1 run left"),
            ):
                cells.begin(NAME, 20, left)
                self.assertEqual(text, cells.text(elapsed))
        self.assertIn(f"\r{NAME}: 1 run left\033[K", self.said.getvalue())

    def test_the_line_is_written_again_while_a_cell_runs(self):
        again = threading.Event()

        class Watched(io.StringIO):
            def write(self, text):
                if "of 20s" in text:
                    again.set()
                return super().write(text)

        with (
            mock.patch.object(progress, "_TICK_S", 0.001),
            mock.patch.object(progress, "_SOON_S", 0.0001),
            contextlib.redirect_stderr(Watched()),
            progress.Cells(is_quiet=False) as cells,
        ):
            cells.begin(NAME, 20, 1)
            self.assertTrue(again.wait(60))

    def test_a_long_name_takes_one_line_of_the_terminal(self):
        with (
            mock.patch.dict("os.environ", {"COLUMNS": "40"}),
            progress.Cells(is_quiet=False) as cells,
        ):
            cells.begin("x" * 100, 20, 1)
        self.assertIn("\r" + "x" * 39 + "\033[K", self.said.getvalue())
