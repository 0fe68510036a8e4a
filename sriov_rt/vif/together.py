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

"""What several threads want at once, done by one of them for all.

Threads that take turns hand over the GIL at each system call and are woken
for each turn, 50 µs and more in a virtual machine. Here whoever comes first
works off all that is wanted by then, and wakes the others when it is done
(flat combining: Hendler, Incze, Shavit and Tzafrir, SPAA 2010).
"""

import _thread
import logging
import threading
from collections.abc import Callable
from collections.abc import Sequence
from typing import Generic
from typing import TypeVar

from sriov_rt.exceptions import SriovRtError

LOG = logging.getLogger(__name__)

W = TypeVar("W")
R = TypeVar("R")

#: The most that one thread does in one go: who came first waits for the
#: last of them.
MAX_AT_ONCE = 16

#: Who waits for longer than this, in seconds, says so.
QUIET_S = 2.0


class Interrupted(SriovRtError):
    """The thread that was to do it has been stopped; do it again."""


class Job(Generic[W, R]):
    """What one thread wants; whoever works sets what comes of it."""

    def __init__(self, want: W) -> None:
        self.want = want
        self.leads = False
        self._result: list[R] = []
        self._error: SriovRtError | None = None
        self._woken = _thread.allocate_lock()
        self._woken.acquire()

    def finish(self, result: R) -> None:
        """Set what came of it."""
        self._result.append(result)

    def fail(self, error: SriovRtError) -> None:
        """Set why nothing did."""
        if not self._result and self._error is None:
            self._error = error

    def wake(self) -> None:
        """Let its thread go on."""
        self._woken.release()

    def wait(self, what: str) -> None:
        """Wait until it is done, or its thread is the one to work."""
        if not self._woken.acquire(timeout=QUIET_S):
            LOG.warning("waiting for those before at %s", what)
            self._woken.acquire()

    def result(self) -> R:
        """Return what came of it, or raise why nothing did."""
        if self._error is not None:
            raise self._error
        return self._result[0]


#: Gives the jobs that have come by now.
Take = Callable[[], Sequence[Job[W, R]]]


class Together(Generic[W, R]):
    """Does what is wanted of one thing in one go.

    :param work: is told of what; takes the jobs as late as it can, when
        nothing is to be waited for any more, and finishes or fails each.
        What it raises fails those that are neither.
    """

    def __init__(self, work: Callable[[str, Take[W, R]], None]) -> None:
        self._work = work
        self._mutex = threading.Lock()
        # Those that wait, of each thing that somebody is at work on.
        self._waiting: dict[str, list[Job[W, R]]] = {}

    def do(self, what: str, want: W) -> R:
        """Return what came of it, by this thread's work or another's.

        :raises SriovRtError: as the work does.
        :raises Interrupted: if another began it, and was stopped.
        """
        job: Job[W, R] = Job(want)
        with self._mutex:
            waiting = self._waiting.get(what)
            if waiting is None:
                self._waiting[what] = [job]
                job.leads = True
            else:
                waiting.append(job)
        if not job.leads:
            try:
                job.wait(what)
            except BaseException:
                # By eventlet's timeouts, or ^C.
                self._leave(what, job)
                raise
        if job.leads:
            self._lead(what, job)
        return job.result()

    def _lead(self, what: str, own: Job[W, R]) -> None:
        taken: list[Job[W, R]] = []
        try:
            self._work(what, lambda: self._take(what, taken))
        except SriovRtError as error:
            if not taken:
                # All that wait have waited for the same.
                self._take(what, taken)
            for job in taken:
                job.fail(error)
        finally:
            self._hand_over(what, own)
            for job in taken:
                if job is not own:
                    job.fail(Interrupted())
                    job.wake()

    def _take(self, what: str, taken: list[Job[W, R]]) -> Sequence[Job[W, R]]:
        """Return those that wait, as many as one is to do; they are taken."""
        with self._mutex:
            waiting = self._waiting[what]
            some = waiting[: MAX_AT_ONCE - len(taken)]
            del waiting[: len(some)]
        taken.extend(some)
        return some

    def _leave(self, what: str, own: Job[W, R]) -> None:
        """Wait no longer; another leads if this one was to."""
        with self._mutex:
            leads = own.leads
            if not leads and own in self._waiting.get(what, ()):
                self._waiting[what].remove(own)
        if leads:
            self._hand_over(what, own)

    def _hand_over(self, what: str, own: Job[W, R]) -> None:
        with self._mutex:
            waiting = [each for each in self._waiting[what] if each is not own]
            if waiting:
                self._waiting[what] = waiting
                waiting[0].leads = True
                waiting[0].wake()
            else:
                del self._waiting[what]
