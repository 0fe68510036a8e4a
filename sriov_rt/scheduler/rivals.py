# SPDX-License-Identifier: Apache-2.0

"""Agents that report as one host.

An agent that starts again has another name, and its last one is never heard
again. Of two agents of one host each is heard by turns.
"""

import dataclasses
import re
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[!-~]{1,300}")

#: Agents of a host that are remembered beside the last one.
_KEPT = 4


@dataclasses.dataclass(slots=True)
class _Heard:
    """Agents of a host.

    :param last: the one that reported last.
    :param before: those that did before it, the latest first.
    :param returned: when one of them was heard again, monotonic seconds.
    """

    last: str
    before: tuple[str, ...] = ()
    returned: float | None = None


class Rivals:
    """Agents by the host that they report as.

    :param max_hosts: of more none is remembered.
    :param end_s: seconds of one alone after which the others are gone.
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
        """Note who reports; return whether it took another one's place.

        :param agent: its name, as it came; one without a name is any.
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
        """Return the agents that report by turns, a list; empty for one."""
        found = self._heard.get(host)
        if found is None or found.returned is None:
            return ""
        return ", ".join(sorted((found.last, *found.before)))

    def __iter__(self) -> Iterator[str]:
        """Yield the hosts of two agents."""
        return (host for host in tuple(self._heard) if self.of(host))

    def forget(self, host: str) -> None:
        """Forget a host whose agent was stopped; another may be left."""
        self._heard.pop(host, None)
