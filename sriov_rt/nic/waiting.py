# SPDX-License-Identifier: Apache-2.0

"""Waits with a bound, by a clock that tests can put in place of time."""

import time
from collections.abc import Callable
from typing import Protocol
from typing import TypeVar

T = TypeVar("T")

#: The first wait and the longest, seconds; each is twice the one before.
FIRST_S = 0.01
LONGEST_S = 0.5


class Clock(Protocol):
    """Functions of the module time that waits need."""

    def monotonic(self) -> float:
        """Return seconds that only grow."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


def until(
    clock: Clock, seconds: float, probe: Callable[[], T | None]
) -> T | None:
    """Return what a probe finds as soon as that is not None.

    :param seconds: how long to go on; the probe is asked once in any case.
    :returns: None if it found nothing in time.
    """
    end = clock.monotonic() + seconds
    pause = FIRST_S
    while (found := probe()) is None:
        left = end - clock.monotonic()
        if left <= 0:
            return None
        clock.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_S)
    return found


def real() -> Clock:
    """Return the system's clock."""
    return time
