# SPDX-License-Identifier: Apache-2.0

"""Limits to what has none of its own: a read in the kernel, another process.

What waits in the kernel cannot be interrupted. So it runs in a thread, whose
end its caller waits for as long as is sensible, and which may stay.
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
    """A call has not ended in time, and goes on in its thread."""


class Call(Generic[_T]):
    """A function that runs in a thread of its own.

    :param what: it does, as a noun.
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
        """Return what the function returns.

        :param limit_s: seconds to wait for it.
        :raises Expired: if it has not ended by then; it goes on.
        :raises BaseException: what the function raises.
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
    """Calls of which a few at most go on at once.

    :param what: they do, as a noun.
    """

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._free = threading.BoundedSemaphore(most)

    def result(self, act: Callable[[], _T], limit_s: float) -> _T:
        """Return what a function returns; see :meth:`Call.result`.

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
