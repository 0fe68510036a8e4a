# SPDX-License-Identifier: Apache-2.0

"""Backoff: delays between attempts."""

import random
from collections.abc import Callable


class Backoff:
    """Delays that double from one failure to the next, with jitter.

    Without the jitter, all agents of a cloud would try again at the same
    moment after an outage of RabbitMQ or Keystone.

    :param first_s: the longest first delay, seconds.
    :param limit_s: the longest delay of all, seconds.
    :param uniform: returns a random number between two bounds.
    """

    def __init__(
        self,
        first_s: float,
        limit_s: float,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._uniform = uniform
        self._next_s = first_s
        self.failures = 0

    def failed(self) -> float:
        """Count a failure and return the seconds to wait after it."""
        self.failures += 1
        longest = self._next_s
        self._next_s = min(2 * longest, self._limit_s)
        return self._uniform(longest / 2, longest)

    def succeeded(self) -> None:
        """Start again from the first delay."""
        self.failures = 0
        self._next_s = self._first_s
