# SPDX-License-Identifier: Apache-2.0

"""Agents that report as one host.

An agent gets a new name whenever it starts, and its old name never reports
again. Two agents of one host report alternately.
"""

import dataclasses
import re
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[!-~]{1,300}")

#: Agents of a host that are remembered besides the last one.
_KEPT = 4


@dataclasses.dataclass(slots=True)
class _Heard:
    """Agents of a host.

    :param last: the agent that reported last.
    :param before: the agents that reported before it, the latest first.
    :param returned: monotonic time in seconds at which one of them last
        reported again.
    """

    last: str
    before: tuple[str, ...] = ()
    returned: float | None = None


class Rivals:
    """Agents by the host that they report as.

    :param max_hosts: most hosts to remember agents of.
    :param end_s: seconds after which the others are taken for gone if only
        one agent reports.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        max_hosts: int,
        end_s: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_hosts = max_hosts
        self._end_s = end_s
        self._monotonic = monotonic
        self._heard: dict[str, _Heard] = {}

    def hear(self, host: str, agent: Any) -> bool:
        """Note who reports; return whether it replaces another agent.

        :param agent: its name as received; an invalid name is ignored.
        """
        if type(agent) is not str or not _NAME.fullmatch(agent):
            return False
        found = self._heard.get(host)
        if found is None:
            if len(self._heard) < self._max_hosts:
                self._heard[host] = _Heard(agent)
            return False
        if found.last == agent:
            since = found.returned
            if since is not None and self._monotonic() - since > self._end_s:
                self._heard[host] = _Heard(agent)
            return False
        if agent in found.before:
            found.returned = self._monotonic()
        others = (each for each in found.before if each != agent)
        found.before = (found.last, *others)[:_KEPT]
        found.last = agent
        return True

    def of(self, host: str) -> str:
        """Return a list of alternating agents as text; empty for one agent."""
        found = self._heard.get(host)
        if found is None or found.returned is None:
            return ""
        return ", ".join(sorted((found.last, *found.before)))

    def __iter__(self) -> Iterator[str]:
        """Yield the hosts that several agents report as."""
        return (host for host in tuple(self._heard) if self.of(host))

    def forget(self, host: str) -> None:
        """Forget a host whose agent was stopped; another agent may remain."""
        self._heard.pop(host, None)
