# SPDX-License-Identifier: Apache-2.0

"""Display of the demonstration: its steps with their times."""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from tests.testbed.steps import Step


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, as in "2:05"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


class Screen:
    """Prints each step, with the time since the start and how long it takes.

    At a terminal tick() rewrites the line of the present step; elsewhere each
    step is one line.

    :param stream: the output stream.
    :param first: additional seconds that the first step takes.
    :param now: returns the time in seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        first: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._now = now
        self._first = first
        self._start = now()
        self._step: Step | None = None
        self._begun = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._now() - self._start

    def begin(self, step: Step) -> None:
        """End the present step and begin another one.

        :param step: the step.
        """
        self.end()
        self._step, self._begun = step, self.elapsed
        if self._live:
            self.tick()
        else:
            self._print(f"{self._title()}, about {clock(self._expected())}")

    def tick(self) -> None:
        """Show how long the present step has taken, at a terminal."""
        if self._live and self._step is not None:
            taken = clock(self.elapsed - self._begun)
            self._write(f"{taken} of about {clock(self._expected())}", end="")

    def note(self, text: str) -> None:
        """Show a line of its own, under the present step's.

        :param text: the line.
        """
        self._stream.write("\n" if self._live and self._step else "")
        self._print(f"       {text}")
        self.tick()

    def end(self, how: str = "took") -> None:
        """End the present step, if there is one.

        :param how: text before the time that it has taken.
        """
        if self._live and self._step is not None:
            self._write(f"{how} {clock(self.elapsed - self._begun)}", end="\n")
        self._step = None

    def _title(self) -> str:
        assert self._step is not None
        number = list(Step).index(self._step) + 1
        return (
            f"{clock(self._begun):>5}  {number}/{len(Step)} "
            f"{self._step.value.title}"
        )

    def _expected(self) -> int:
        assert self._step is not None
        more = self._first if self._step is Step.PREPARE else 0
        return self._step.value.seconds + more

    def _write(self, text: str, end: str) -> None:
        """Write the present step's line again, within the terminal."""
        width = shutil.get_terminal_size().columns - 1
        line = f"{self._title():<58}  {text}"[:width]
        # CSI K erases the rest of the line (console_codes(4)).
        self._stream.write(f"\r{line}\x1b[K{end}")
        self._stream.flush()

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)
