# SPDX-License-Identifier: Apache-2.0

"""A message queue that a test can take down."""

from collections.abc import Callable
from typing import Any

from sriov_rt.agent.publisher import BusUnreachable


class FakeBus:
    """Keeps what is cast; fails while ``down``."""

    def __init__(self) -> None:
        self.down = False
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.during: Callable[[], None] = lambda: None

    def cast(self, method: str, **arguments: Any) -> None:
        self.during()
        if self.down:
            raise BusUnreachable(method, "refused")
        self.sent.append((method, arguments))

    def close(self) -> None:
        self.down = True

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.sent]
