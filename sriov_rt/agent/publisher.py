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

"""Publish the host's facts to the schedulers."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable

from sriov_rt.agent.bus import Caster
from sriov_rt.facts import HostFacts

LOG = logging.getLogger(__name__)


class Publisher:
    """Say what the host is: all of it when it changed, else its digest.

    Each call of :meth:`publish` stands for an observation just made, and no
    sign of life is sent without one: an agent that can no longer observe
    falls silent, and its facts go stale.

    :param host: the name that Nova calls the host by.
    :param node: the name of its resource provider.
    :param caster: sends the messages.
    :param heartbeat_s: seconds between signs of life; never more of them
        than observations.
    :param slack_s: how much earlier one may be, seconds, so that
        observations that are not quite regular do not halve their number.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        host: str,
        node: str,
        caster: Caster,
        *,
        heartbeat_s: float,
        slack_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = {"host": host, "node": node}
        self._caster = caster
        self._heartbeat_s = heartbeat_s - slack_s
        self._monotonic = monotonic
        self._asked = threading.Event()
        self._sent_digest = ""
        self._sent_at = -math.inf

    def report_in_full(self) -> None:
        """Send all facts with the next observation."""
        self._asked.set()

    def publish(self, facts: HostFacts | None) -> None:
        """Send what has to be sent.

        :param facts: as observed; None to say that the agent is gone.
        :raises BusUnreachable: if the message queue did not take it.
        """
        if facts is None:
            self._cast("gone")
            return
        digest = facts.digest()
        asked = self._asked.is_set()
        # Cleared before the cast: who asks during it may have missed it.
        self._asked.clear()
        try:
            if asked or digest != self._sent_digest:
                self._send_facts(facts, digest)
            elif self._monotonic() - self._sent_at >= self._heartbeat_s:
                self._cast("heartbeat", digest=digest)
        except BaseException:
            if asked:
                self._asked.set()
            raise

    def _send_facts(self, facts: HostFacts, digest: str) -> None:
        document = json.dumps(facts.to_plain(), separators=(",", ":"))
        self._cast("facts", digest=digest, document=document)
        self._sent_digest = digest
        LOG.debug(
            "facts sent: host=%s node=%s digest=%s bytes=%d",
            facts.host,
            facts.node,
            digest[:12],
            len(document),
        )

    def _cast(self, method: str, **arguments: str) -> None:
        self._caster.cast(method, **self._names, **arguments)
        self._sent_at = self._monotonic()
