# SPDX-License-Identifier: Apache-2.0

"""Programs that a test run starts and stops."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import BinaryIO

#: Seconds that a program has to clean up after a signal.
_GRACE = 60.0


class Interrupted(Exception):
    """Raised in a lane whose program was stopped by Ctrl-C."""


class Children:
    """Programs that this run has started, each in its own session.

    They don't get Ctrl-C from the terminal; :meth:`end` passes it on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._has_ended = False

    def run(
        self,
        command: Sequence[str],
        sink: BinaryIO,
        limit: float,
        env: Mapping[str, str] = os.environ,
    ) -> int:
        """Run a program to its end, and return its exit code.

        :param limit: seconds after which it is stopped.
        :raises TimeoutExpired: if it took longer.
        :raises Interrupted: if :meth:`end` is called meanwhile.
        """
        with self._lock:
            if self._has_ended:
                raise Interrupted
            child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(child)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            _end([child])
            raise
        finally:
            with self._lock:
                self._running.discard(child)
        if self._has_ended:
            raise Interrupted
        return code

    def end(self) -> None:
        """Stop all running programs, and start no more."""
        with self._lock:
            self._has_ended = True
            running = [*self._running]
        _end(running)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop programs and their children: by Ctrl-C's signal at first."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        left = [each for each in children if each.poll() is None]
        for each in left:
            os.killpg(each.pid, number)
        until = time.monotonic() + _GRACE
        for each in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(max(until - time.monotonic(), 0.0))
