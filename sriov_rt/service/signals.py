# SPDX-License-Identifier: Apache-2.0

"""The signals that the process of an agent acts on."""

import contextlib
import logging
import queue
import signal
import time
from collections.abc import Callable
from collections.abc import Mapping

LOG = logging.getLogger(__name__)

#: What threads put beside the numbers of signals: one of them crashed.
CRASHED = 0

#: Exit code after an error that the agent should not have met.
EXIT_CRASHED = 1

#: Seconds after which a signal is handled at the latest.
INTERVAL_S = 1.0


def handle(received: queue.SimpleQueue[int]) -> None:
    """Put SIGTERM, SIGINT and SIGHUP into a queue.

    :param received: a SimpleQueue may be put to from a handler; an Event may
        not, for the handler would wait for a lock that the thread it runs in
        has.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: received.put(number))


def wait(received: queue.SimpleQueue[int]) -> int:
    """Return the next signal, as its handler has put it.

    :param received: what the handlers put into.
    """
    while (number := within(received, INTERVAL_S)) is None:
        pass
    return number


def within(received: queue.SimpleQueue[int], seconds: float) -> int | None:
    """Return the next signal, None if none comes in so many seconds.

    Python runs handlers between two instructions, and a wait is interrupted
    by a signal that comes during it. One that comes after the last
    instruction and before the wait would stay unhandled until the next: so
    no wait is longer than :data:`INTERVAL_S`.

    :param received: what the handlers put into.
    """
    ending = time.monotonic() + seconds
    while (left := ending - time.monotonic()) > 0:
        with contextlib.suppress(queue.Empty):
            return received.get(timeout=min(INTERVAL_S, left))
    return None


def serve(
    received: queue.SimpleQueue[int],
    actions: Mapping[int, Callable[[], object]],
) -> int:
    """Act on signals until one ends the agent; return its exit code.

    :param received: as :func:`wait` takes it.
    :param actions: what is done, by the number of the signal. Any other ends
        the agent, as :data:`CRASHED` does.
    """
    while (number := wait(received)) in actions:
        actions[number]()
    if number == CRASHED:
        LOG.info("stopping on an error")
        return EXIT_CRASHED
    LOG.info("stopping on %s", signal.Signals(number).name)
    return 0
