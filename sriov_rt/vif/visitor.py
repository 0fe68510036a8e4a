# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A thread that goes into network namespaces for those that must not.

A thread that begins waits for a CPU on a busy host, half a millisecond in
the median; one that is woken waits 15 µs. So one is kept while it is in use.
"""

import _thread
import ctypes
import functools
import os
import queue
from collections.abc import Callable
from typing import Generic
from typing import TypeVar

_T = TypeVar("_T")

#: include/uapi/linux/sched.h.
CLONE_NEWNET = 0x40000000

#: Seconds after which a thread that nobody needs ends.
IDLE_S = 5.0

#: The namespace of the calling thread.
OWN = "/proc/thread-self/ns/net"


class _Job(Generic[_T]):
    """Something to do in a namespace.

    :param descriptor: of the namespace.
    """

    def __init__(self, descriptor: int, action: Callable[[], _T]) -> None:
        self._descriptor = descriptor
        self._action = action
        self._outcome: list[_T] = []
        self._failure: BaseException | None = None
        self._done = _thread.allocate_lock()
        self._done.acquire()

    def run(self) -> None:
        """Do it, in the thread that calls."""
        try:
            enter(self._descriptor)
            self._outcome.append(self._action())
        # Whatever it is, it is raised where it is waited for.
        except BaseException as error:  # noqa: BLE001
            self._failure = error

    def finish(self) -> None:
        """Let those go on who wait for it."""
        self._done.release()

    def wait(self) -> _T:
        """Return what came of it, or raise it."""
        self._done.acquire()
        if self._failure is not None:
            raise self._failure
        return self._outcome[0]


class Visitor:
    """Goes into namespaces, one after the other; threads share one."""

    def __init__(self) -> None:
        self._mutex = _thread.allocate_lock()
        self._jobs: queue.SimpleQueue[_Job[object]] = queue.SimpleQueue()
        self._lives = False

    def do(self, descriptor: int, action: Callable[[], _T]) -> _T:
        """Return what a function returns when called in a namespace.

        :param descriptor: of the namespace.
        :raises OSError: if the namespace cannot be entered; and whatever
            else the function raises.
        """
        job = _Job(descriptor, action)
        with self._mutex:
            if not self._lives:
                _thread.start_new_thread(self._live, ())
                self._lives = True
            self._jobs.put(job)  # type: ignore[arg-type]
        return job.wait()

    def _live(self) -> None:
        home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while (job := self._next()) is not None:
                job.run()
                came_back = _left(home)
                if not came_back:
                    # It would keep the namespace that it is stuck in.
                    with self._mutex:
                        self._lives = False
                        self._start_again()
                job.finish()
                if not came_back:
                    return
        finally:
            os.close(home)

    def _start_again(self) -> None:
        if not self._jobs.empty():
            _thread.start_new_thread(self._live, ())
            self._lives = True

    def _next(self) -> _Job[object] | None:
        while True:
            try:
                return self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._mutex:
                    if self._jobs.empty():
                        self._lives = False
                        return None


def _left(home: int) -> bool:
    try:
        enter(home)
    except OSError:
        return False
    return True


def enter(descriptor: int) -> None:
    """Move the calling thread; os.setns comes with Python 3.12 only.

    :raises OSError: if it cannot be.
    """
    code = _setns()(descriptor, CLONE_NEWNET)
    if code != 0:
        raise OSError(code, f"setns: {os.strerror(code)}")


@functools.cache
def _setns() -> Callable[[int, int], int]:
    """Return setns(2) as a function that returns an errno."""
    # The program's own symbols: no library has to be found.
    libc = ctypes.CDLL(None, use_errno=True)

    def setns(descriptor: int, kind: int) -> int:
        failed = libc.setns(descriptor, kind) != 0
        return ctypes.get_errno() if failed else 0

    return setns


@functools.cache
def of_process(pid: int) -> Visitor:
    """Return the one of a process: a fork takes no threads along."""
    return Visitor()
