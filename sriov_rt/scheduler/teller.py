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

"""Tell the other workers what was placed, without making a request wait."""

import logging
import queue
import uuid
from collections.abc import Callable

from sriov_rt.scheduler.placements import Placement

LOG = logging.getLogger(__name__)

#: Placements that wait to be told. Those beyond it are not: they would be
#: over by the time that the queue works again.
MAX_WAITING = 1000


class Teller:
    """Send placements from a thread of its own."""

    def __init__(self) -> None:
        #: By it a worker knows what it hears of itself.
        self.sender = uuid.uuid4().hex
        self._waiting: queue.Queue[Placement | None] = queue.Queue(MAX_WAITING)

    def tell(self, placement: Placement) -> None:
        """Have a placement told; returns at once."""
        try:
            self._waiting.put_nowait(placement)
        except queue.Full:
            LOG.warning(
                "Other workers not told of host=%s instance=%s: %d wait "
                "before it; see that the message queue works",
                placement.host,
                placement.instance,
                MAX_WAITING,
            )

    def stop(self) -> None:
        """Let :meth:`run` return."""
        while True:
            try:
                self._waiting.put_nowait(None)
                return
            except queue.Full:
                self._waiting.get_nowait()

    def run(self, cast: Callable[[Placement], None]) -> None:
        """Tell whatever there is to be told, until stopped.

        :param cast: sends a placement; raises if it can't be sent.
        """
        while (placement := self._waiting.get()) is not None:
            try:
                cast(placement)
            except Exception:
                # As in asker.Asker.ask: there is no common base. What the
                # others don't know, the compute host refuses.
                LOG.warning(
                    "Other workers not told of host=%s instance=%s",
                    placement.host,
                    placement.instance,
                    exc_info=True,
                )
