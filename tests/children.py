# SPDX-License-Identifier: Apache-2.0

"""Programs that a run of tests has started, and ends."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import BinaryIO

#: Seconds in which a program that is ended may tidy up.
_GRACE = 60.0


class Interrupted(Exception):
    """Ends a lane whose program was ended by Ctrl-C."""


class Children:
    """Programs that this run has started, each with a session of its own.

    So Ctrl-C at a terminal is not theirs: :meth:`end` passes it on.
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

        :param limit: seconds after which it is ended.
        :raises TimeoutExpired: if it was.
        :raises Interrupted: if all are ended meanwhile.
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
        """End those that run, and start none any more."""
        with self._lock:
            self._has_ended = True
            running = [*self._running]
        _end(running)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """End programs, and what they have started, as Ctrl-C does at first."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        left = [each for each in children if each.poll() is None]
        for each in left:
            os.killpg(each.pid, number)
        until = time.monotonic() + _GRACE
        for each in left:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(max(until - time.monotonic(), 0.0))
