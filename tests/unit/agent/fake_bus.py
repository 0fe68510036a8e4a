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
