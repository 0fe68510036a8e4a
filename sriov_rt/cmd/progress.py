# SPDX-License-Identifier: Apache-2.0

"""Progress of a measurement, in one line of a terminal."""

import shutil
import sys
import threading
import time
from types import TracebackType

from sriov_rt.cmd import faults
from sriov_rt.parse import duration
from sriov_rt.verify import latency

#: Seconds after which a cell shows how long it has been running.
_SOON_S = 2.0

#: Seconds between two updates.
_TICK_S = 1.0


class Line:
    """The line, which is removed however the work ends.

    :param is_quiet: whether ``-q`` was given; then, or if standard error is
        not a terminal, nothing is shown.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self.is_shown = faults.is_watched(is_quiet=is_quiet)

    def __enter__(self) -> "Line":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("")

    def latency(self, found: latency.Progress) -> None:
        """Show which tool runs, and how much longer the run takes."""
        self._write(f"{found.tool}: {_seconds(found.left_s)} left")

    def _write(self, text: str) -> None:
        if self.is_shown:
            # One column less, since a full line would wrap.
            room = shutil.get_terminal_size((80, 24)).columns - 1
            # \033[K clears the rest of the old line.
            print(
                f"\r{text[:room]}\033[K", end="", file=sys.stderr, flush=True
            )


class Cells(Line):
    """The line of a measurement with many short runs."""

    def __init__(self, *, is_quiet: bool) -> None:
        super().__init__(is_quiet=is_quiet)
        self._cell = ("", 0.0, 0)
        self._began = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Cells":
        if self.is_shown:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        super().__exit__(kind, error, trace)

    def begin(self, name: str, expected_s: float, left: int) -> None:
        """Show that a cell has begun.

        :param expected_s: how long it runs, without preparations such as the
            layout of files.
        :param left: number of cells that are left, including this one.
        """
        self._cell, self._began = (name, expected_s, left), time.monotonic()
        self._write(self.text(0.0))

    def text(self, elapsed_s: float) -> str:
        """Return the line, given the time since the cell began."""
        name, expected_s, left = self._cell
        runs = "1 run" if left == 1 else f"{left} runs"
        if elapsed_s < _SOON_S:
            return f"{name}: {runs} left"
        return (
            f"{name}: {_seconds(elapsed_s)} of {_seconds(expected_s)}, "
            f"{runs} left"
        )

    def _run(self) -> None:
        while not self._ended.wait(_TICK_S):
            if self._began:
                self._write(self.text(time.monotonic() - self._began))


def _seconds(number: float) -> str:
    return duration.format_duration(int(number))
