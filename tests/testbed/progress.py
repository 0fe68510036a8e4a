# SPDX-License-Identifier: Apache-2.0

"""Progress lines for a person, with elapsed seconds."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

#: A step that ends within this many seconds is one line, not two.
QUICK_SECONDS = 2.0
#: A longer one is reported again at this interval; later, each time it has
#: taken a tenth longer, but at least every two minutes.
REPEAT_SECONDS = 15.0
MOST_SECONDS = 120.0


class Progress:
    """Prints steps as they end, and which ones still run.

    Safe to use from several threads at once.

    :param stream: where the lines go; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Print one line with the seconds since the start before it.

        :param text: the line, without a newline.
        """
        elapsed = time.monotonic() - self._begun
        with self._lock:
            print(f"[{elapsed:6.1f} s] {text}", file=self._stream, flush=True)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Time the block under `with`, and report repeatedly that it runs.

        :param text: what the block does, as in "databases synchronised".
        """
        over = threading.Event()
        begun = time.monotonic()
        ticker = threading.Thread(
            target=self._tick, args=(text, begun, over), daemon=True
        )
        ticker.start()
        try:
            yield
        except BaseException:
            self.say(f"{text}: FAILED ({time.monotonic() - begun:.1f} s)")
            raise
        finally:
            over.set()
            ticker.join()
        self.say(f"{text}: done ({time.monotonic() - begun:.1f} s)")

    def _tick(self, text: str, begun: float, over: threading.Event) -> None:
        pause = QUICK_SECONDS
        while not over.wait(pause):
            elapsed = time.monotonic() - begun
            self.say(f"{text} ... {elapsed:.0f} s")
            pause = min(max(REPEAT_SECONDS, elapsed / 10), MOST_SECONDS)
