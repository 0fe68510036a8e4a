# SPDX-License-Identifier: Apache-2.0

"""Reconciler: brings an external service into a desired state."""

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Generic
from typing import TypeVar

from sriov_rt import exceptions
from sriov_rt.service.backoff import Backoff
from sriov_rt.service.worker import Worker

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class NotYet(exceptions.SriovRtError):
    """The service cannot be changed now; trying again may help."""


class Reconciler(Generic[T]):
    """Apply the latest desired state in a thread, so that only it waits.

    A state that is replaced before it could be applied is never applied.

    :param name: the thread's name, also for the log.
    :param apply: applies a state; raises :class:`NotYet` to be called again
        after a delay.
    :param again_s: seconds after which an unchanged state is applied again;
        infinite for never.
    :param crashed: called once if ``apply`` raises any other error.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        name: str,
        apply: Callable[[T], None],
        *,
        backoff: Backoff,
        crashed: Callable[[], None],
        again_s: float = math.inf,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._apply = apply
        self._backoff = backoff
        self._again_s = again_s
        self._lock = threading.Lock()
        self._desired: tuple[T] | None = None
        self._final = False
        self._finished = threading.Event()
        self._last_failure = ""
        self.worker = Worker(name, self._step, crashed, monotonic)

    def start(self) -> None:
        """Start the thread."""
        self.worker.start()

    def set_desired(self, state: T) -> None:
        """Set the desired state, unless the final one is set already.

        While attempts fail, the delay before the next one is kept.
        """
        with self._lock:
            if self._final:
                return
            self._desired = (state,)
            failing = self._backoff.failures > 0
        if not failing:
            self.worker.wake()

    def finish(self, state: T) -> None:
        """Set the final state, and try to apply it immediately."""
        with self._lock:
            self._desired = (state,)
            self._final = True
        self.worker.wake()

    def join(self, timeout_s: float) -> bool:
        """Wait for the final state, end the thread; return if it succeeded."""
        finished = self._finished.wait(max(0.0, timeout_s))
        self.worker.stop()
        return finished

    def _step(self) -> float:
        with self._lock:
            desired, final = self._desired, self._final
        if desired is None:
            return math.inf
        failure = self._attempt(desired[0])
        if failure is not None:
            delay_s = self._backoff.failed()
            self._log_failure(failure, delay_s)
            return delay_s
        if self._backoff.failures:
            LOG.info(
                "%s: succeeded after %d attempts",
                self._name,
                self._backoff.failures + 1,
            )
        self._backoff.succeeded()
        self._last_failure = ""
        if final:
            self._finished.set()
            return math.inf
        with self._lock:
            overtaken = self._desired is not desired
        return 0.0 if overtaken else self._again_s

    def _attempt(self, state: T) -> str | None:
        try:
            self._apply(state)
        except NotYet as error:
            # Not logged here, where oslo.log would log it twice.
            return str(error)
        return None

    def _log_failure(self, failure: str, delay_s: float) -> None:
        # A new failure is logged for the operator, a repeated one at DEBUG.
        level = (
            logging.DEBUG if failure == self._last_failure else logging.WARNING
        )
        self._last_failure = failure
        LOG.log(
            level,
            "%s: %s (attempt %d; trying again in %.1f s)",
            self._name,
            failure,
            self._backoff.failures,
            delay_s,
        )
