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

"""The signals that an agent's main thread waits for."""

import queue
from collections.abc import Callable
from collections.abc import Mapping

#: Seconds after which a signal is handled at the latest.
INTERVAL_S = 1.0


def wait(signals: queue.SimpleQueue[int]) -> int:
    """Return the next signal, as its handler has put it.

    Python runs handlers between two instructions, and a wait is interrupted
    by a signal that comes during it. One that comes after the last
    instruction and before the wait would stay unhandled until the next: so
    no wait is longer than :data:`INTERVAL_S`.

    :param signals: what the handlers put into. A SimpleQueue may be put to
        from a handler; an Event may not, for the handler would wait for a
        lock that the thread it runs in has.
    """
    while True:
        try:
            return signals.get(timeout=INTERVAL_S)
        except queue.Empty:
            continue


def serve(
    signals: queue.SimpleQueue[int],
    actions: Mapping[int, Callable[[], object]],
) -> int:
    """Act on signals until one comes that has no action; return that one.

    :param signals: as :func:`wait` takes it.
    :param actions: what is done, by the number of the signal.
    """
    while (number := wait(signals)) in actions:
        actions[number]()
    return number
