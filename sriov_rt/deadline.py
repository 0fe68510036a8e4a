# SPDX-License-Identifier: Apache-2.0

"""Time limits for calls without one: reads in the kernel, other processes.

A call that waits in the kernel cannot be interrupted. So it runs in a thread,
for whose end the caller waits a limited time; the thread may stay behind.
"""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent import futures
from typing import Generic
from typing import TypeVar

from sriov_rt import exceptions

LOG = logging.getLogger(__name__)

_T = TypeVar("_T")


class Expired(exceptions.SriovRtError):
    """A call has not ended in time, and continues in its thread."""


class Call(Generic[_T]):
    """A function that runs in its own thread.

    :param what: noun for what the function does.
    """

    def __init__(self, what: str, act: Callable[[], _T]) -> None:
        self._what = what
        self._end: futures.Future[_T] = futures.Future()
        self._thread = threading.Thread(
            target=self._run, args=(act,), name=what, daemon=True
        )
        self._thread.start()

    def _run(self, act: Callable[[], _T]) -> None:
        try:
            self._end.set_result(act())
        except BaseException as error:  # noqa: BLE001 - raised by result()
            self._end.set_exception(error)

    @property
    def has_ended(self) -> bool:
        """Whether the function has returned or raised."""
        return self._end.done()

    def result(self, limit_s: float) -> _T:
        """Return the function's result.

        :param limit_s: seconds to wait for it.
        :raises Expired: if it has not ended by then; it continues.
        :raises BaseException: any error that the function raises.
        """
        if not futures.wait((self._end,), max(0.0, limit_s)).done:
            problem = f"{self._what} has not ended within {limit_s:.3g} s"
            frame = sys._current_frames().get(  # noqa: SLF001
                self._thread.ident or 0
            )
            stack = traceback.format_stack(frame) if frame else ()
            LOG.error("%s; it is in\n%s", problem, "".join(stack))
            raise Expired(
                f"{problem}; 'cat /proc/{os.getpid()}/task/"
                f"{self._thread.native_id}/stack', as root, shows where it "
                "waits"
            )
        return self._end.result()


class Calls:
    """Calls, of which only a few may run at once.

    :param what: noun for what the calls do.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._free = threading.BoundedSemaphore(most)

    def result(self, act: Callable[[], _T], limit_s: float) -> _T:
        """Return a function's result; see :meth:`Call.result`.

        :raises Expired: also if it could not begin in time.
        """
        until = time.monotonic() + limit_s
        if not self._free.acquire(timeout=limit_s):
            raise Expired(f"{self._what} did not begin within {limit_s:.3g} s")

        def run() -> _T:
            try:
                return act()
            finally:
                self._free.release()

        return Call(self._what, run).result(until - time.monotonic())
