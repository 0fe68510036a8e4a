# SPDX-License-Identifier: Apache-2.0

"""RabbitMQ's driver over an in-memory queue, idle for as long as a test runs.

An idle listener waits longer and longer, up to 5 s, before it sees that it is
to stop. Here its first wait takes an hour: who stops it has to end that wait,
or the test sees that it did not stop.
"""

import threading
from typing import Any
from unittest import mock

from oslo_messaging._drivers import impl_rabbit

URL = "kombu+memory:///"

#: Longer than any test waits, seconds.
_HOUR = 3600.0


class Idle:
    """Have the first wait of each connection last."""

    def __init__(self) -> None:
        self._waits = threading.Semaphore(0)
        self._began: set[int] = set()
        self._consume = impl_rabbit.Connection.consume

    def patch(self) -> Any:
        """Return the patch of the driver, to be started."""

        def consume(connection: Any, timeout: float | None = None) -> None:
            if id(connection) not in self._began:
                self._began.add(id(connection))
                connection._poll_timeout = timeout = _HOUR  # noqa: SLF001
                self._waits.release()
            self._consume(connection, timeout)

        return mock.patch.object(impl_rabbit.Connection, "consume", consume)

    def wait(self, listeners: int) -> None:
        """Return once so many listeners are in their wait."""
        for _ in range(listeners):
            assert self._waits.acquire(timeout=60)
