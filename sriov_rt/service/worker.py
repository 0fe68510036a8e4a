# SPDX-License-Identifier: Apache-2.0

"""Worker: a thread that calls a function whenever it is due."""

import logging
import math
import threading
import time
from collections.abc import Callable

LOG = logging.getLogger(__name__)


class Worker:
    """Call a function when it is due, in a thread of its own.

    :param step: does the work and returns the seconds until it is due again
        (infinite: not before :meth:`wake`).
    :param crashed: called once if ``step`` raises, which ends the thread.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        crashed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._step = step
        self._crashed = crashed
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._due = -math.inf
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        # A daemon thread: a hanging step must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run, name=name, daemon=True
        )

    def start(self) -> None:
        """Start the thread; the first call is due at once."""
        self._thread.start()

    def wake(self, after_s: float = 0.0) -> None:
        """Make the next call due in so many seconds, if it is not earlier."""
        with self._lock:
            self._due = min(self._due, self._monotonic() + after_s)
        self._woken.set()

    def tick(self) -> float:
        """Call the function if it is due; return the seconds until it is."""
        with self._lock:
            if self._due > (now := self._monotonic()):
                return self._due - now
            self._due = math.inf
        after_s = self._step()
        with self._lock:
            now = self._monotonic()
            self._due = min(self._due, now + after_s)
            return max(0.0, self._due - now)

    def stop(self) -> None:
        """Stop the thread after its present call."""
        self._stopping.set()
        self._woken.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread; return whether it has ended."""
        if self._thread.ident is None:
            return True
        # From Python 3.13 on, join() of eventlet's threads does not return
        # after the timeout, but raises eventlet's Timeout, no Exception.
        if not self._ended.wait(max(0.0, timeout_s)):
            return False
        self._thread.join()
        return True

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                after_s = self.tick()
                self._woken.wait(min(after_s, threading.TIMEOUT_MAX))
                self._woken.clear()
        except BaseException:
            # A step handles expected errors. Any other is our bug: the process
            # has to end, so that systemd starts a new one.
            LOG.critical("%s: unexpected error", self._name, exc_info=True)
            self._crashed()
            raise
        finally:
            self._ended.set()
