# SPDX-License-Identifier: Apache-2.0

"""Waits with a time limit, by a clock that tests can replace."""

import time
from collections.abc import Callable
from typing import Protocol
from typing import TypeVar

T = TypeVar("T")

#: The first and the longest wait, seconds; each is twice the last one.
FIRST_S = 0.01
LONGEST_S = 0.5


class Clock(Protocol):
    """Functions of the module time that are needed to wait."""

    def monotonic(self) -> float:
        """Return seconds that never decrease."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


def until(
    clock: Clock, seconds: float, probe: Callable[[], T | None]
) -> T | None:
    """Return the result of a probe as soon as it is not None.

    :param seconds: how long to try; the probe is called at least once.
    :returns: None if the probe found nothing in time.
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
