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

"""Ask the agents to report."""

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger(__name__)

#: Seconds between two questions to the agents: what is wanted meanwhile goes
#: into one.
ASK_INTERVAL_S = 1.0

#: Hosts that are asked by name; all agents are asked if it is more.
MAX_ASKED = 500


class Asker:
    """Ask agents to report, all that is wanted in one question.

    :param cast: asks hosts by name, or all for None; raises if the question
        can't be sent.
    :param interval_s: seconds between two questions.
    """

    def __init__(
        self,
        cast: Callable[[list[str] | None], None],
        interval_s: float = ASK_INTERVAL_S,
    ) -> None:
        self._cast = cast
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._hosts: set[str] = set()
        self._all = False
        self._wanted = threading.Event()
        self._stopping = threading.Event()

    def want(self, host: str | None = None) -> None:
        """Want a report of a host, or of all hosts."""
        with self._lock:
            if host is None or len(self._hosts) >= MAX_ASKED:
                self._all = True
            else:
                self._hosts.add(host)
        self._wanted.set()

    def stop(self) -> None:
        """Let :meth:`run` return."""
        self._stopping.set()
        self._wanted.set()

    def run(self) -> None:
        """Ask whenever something is wanted, until stopped."""
        while True:
            self._wanted.wait()
            if self._stopping.is_set():
                return
            self._wanted.clear()
            self.ask()
            self._stopping.wait(self._interval_s)

    def ask(self) -> None:
        """Send one question for all that is wanted."""
        with self._lock:
            everyone, hosts = self._all, sorted(self._hosts)
            self._all, self._hosts = False, set()
        if not everyone and not hosts:
            return
        try:
            self._cast(None if everyone else hosts)
        except Exception:
            # oslo.messaging lets through what its driver's libraries raise
            # (kombu's, amqp's and socket's errors): there is no common base.
            LOG.warning(
                "Agents not asked to report; trying again", exc_info=True
            )
            with self._lock:
                self._all |= everyone
                self._hosts.update(hosts)
            self._wanted.set()
