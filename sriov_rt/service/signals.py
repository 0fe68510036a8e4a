# SPDX-License-Identifier: Apache-2.0

"""The signals that an agent's process acts on."""

import contextlib
import logging
import queue
import signal
import time
from collections.abc import Callable
from collections.abc import Mapping

LOG = logging.getLogger(__name__)

#: Value that a crashed thread puts into the queue of signal numbers.
CRASHED = 0

#: Exit code after an unexpected error.
EXIT_CRASHED = 1

#: The longest delay before a signal is handled, seconds.
INTERVAL_S = 1.0


def handle(received: queue.SimpleQueue[int]) -> None:
    """Put SIGTERM, SIGINT and SIGHUP into a queue.

    :param received: a SimpleQueue, since a handler may put into it. It may not
        set an Event: its own thread may hold the Event's lock.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: received.put(number))


def wait(received: queue.SimpleQueue[int]) -> int:
    """Wait for the next signal and return its number.

    :param received: the queue that the handlers fill.
    """
    while (number := within(received, INTERVAL_S)) is None:
        pass
    return number


def within(received: queue.SimpleQueue[int], seconds: float) -> int | None:
    """Return the next signal; None if none comes in so many seconds.

    Python runs handlers between two instructions, and a signal interrupts a
    wait. But a signal between the last instruction and the wait would stay
    unhandled until the next signal, so no wait is longer than
    :data:`INTERVAL_S`.

    :param received: the queue that the handlers fill.
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

    :param received: see :func:`wait`.
    :param actions: action by signal number. Any other signal ends the agent,
        as :data:`CRASHED` does.
    """
    while (number := wait(received)) in actions:
        actions[number]()
    if number == CRASHED:
        LOG.info("stopping on an error")
        return EXIT_CRASHED
    LOG.info("stopping on %s", signal.Signals(number).name)
    return 0
