# SPDX-License-Identifier: Apache-2.0

"""Threads that stand ready and begin at once."""

import _thread
import threading
import time
from collections.abc import Callable
from typing import Any
from typing import Self


class Crew:
    """As many threads as are to be at work at once.

    What an executor takes to hand out work, 40 µs a thread, is not of what
    is measured; here each waits on a lock of its own, and the last that is
    done wakes who waits for all.

    :param count: how many; 1 works in the caller's.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._left = 0
        self._verb: Callable[[int], Any] | None = None
        self._errors: list[BaseException] = []
        self._mutex = _thread.allocate_lock()
        self._done = _closed()
        self._begin = [_closed() for _ in range(count if count > 1 else 0)]
        self._threads = [
            threading.Thread(target=self._run, args=(number,))
            for number in range(len(self._begin))
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._verb = None
        for each in self._begin:
            each.release()
        for thread in self._threads:
            thread.join()

    def seconds(self, verb: Callable[[int], Any]) -> float:
        """Return the seconds that a number took, when all were done.

        :param verb: is given 0, 1 and so on, each in a thread of its own.
        """
        self._verb = verb
        self._left = self._count
        began = time.perf_counter()
        if not self._begin:
            verb(0)
        else:
            for each in self._begin:
                each.release()
            self._done.acquire()
        took = (time.perf_counter() - began) / self._count
        if self._errors:
            raise self._errors.pop()
        return took

    def _run(self, number: int) -> None:
        while True:
            self._begin[number].acquire()
            if self._verb is None:
                return
            try:
                self._verb(number)
            except BaseException as error:  # noqa: BLE001
                self._errors.append(error)
            with self._mutex:
                self._left -= 1
                last = not self._left
            if last:
                self._done.release()


def _closed() -> Any:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock
