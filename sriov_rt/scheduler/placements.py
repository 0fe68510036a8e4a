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

"""Instances that were just placed, until their hosts' facts tell of them."""

import collections
import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping

#: Placements that are kept. In the default hold time that is 150 a second.
MAX_PLACEMENTS = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """An instance that Onload will accelerate, and the host it goes to.

    :param host: Nova's name of it.
    :param instance: its UUID.
    :param networks: UUIDs of those that it is to have ports on.
    """

    host: str
    instance: str
    networks: tuple[str, ...]


class Placements:
    """What was placed in the last seconds, by this worker and by others.

    A placement counts as an accelerated endpoint on each of its networks
    until the host's facts have one of the instance, or its time is over: an
    instance that failed must not keep others off for good.

    :param hold_s: seconds that a placement counts.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self, hold_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._hold_s = hold_s
        self._monotonic = monotonic
        self._lock = threading.RLock()
        # Oldest first: every one counts for the same time.
        self._ending: dict[Placement, float] = {}
        self._hosts: dict[str, tuple[Placement, ...]] = {}
        self._instances: dict[str, Placement] = {}

    def __len__(self) -> int:
        return len(self._ending)

    def note(self, placement: Placement) -> None:
        """Note a placement, in the place of any earlier one of the instance.

        One that is known stays as it is.
        """
        with self._lock:
            self._forget_old()
            if placement in self._ending:
                return
            former = self._instances.get(placement.instance)
            if former is not None:
                self._drop(former)
            if len(self._ending) >= MAX_PLACEMENTS:
                self._drop(next(iter(self._ending)))
            self._ending[placement] = self._monotonic() + self._hold_s
            there = self._hosts.get(placement.host, ())
            self._hosts[placement.host] = (*there, placement)
            self._instances[placement.instance] = placement

    def arrived(self, host: str, instances: Collection[str]) -> None:
        """Let go of instances that the host's facts have endpoints of."""
        if host not in self._hosts:
            return
        with self._lock:
            for each in self._hosts.get(host, ()):
                if each.instance in instances:
                    self._drop(each)

    def coming(
        self, host: str, instance: str | None, *, settling: bool = False
    ) -> Mapping[str, int]:
        """Return by network how many instances are coming to a host.

        :param instance: the one that is being placed, which does not count.
        :param settling: it was placed there, and those count that are to
            stay if not all can. Who was noted before it is; of those that
            were placed without knowing of it, the lesser UUID is, for every
            worker alike.
        """
        # The common case takes no lock: nothing is coming.
        if host not in self._hosts:
            return {}
        now = self._monotonic()
        counts: collections.Counter[str] = collections.Counter()
        with self._lock:
            yielding = False
            for each in self._hosts.get(host, ()):
                if each.instance == instance:
                    yielding = settling
                elif yielding and each.instance > str(instance):
                    continue
                elif now < self._ending[each]:
                    counts.update(each.networks)
        return counts

    def choose(
        self,
        instance: str,
        networks: tuple[str, ...],
        hosts: Iterable[str],
        free: Callable[[str], bool],
    ) -> Placement | None:
        """Place an instance on the first host that is still free, and note it.

        Two threads never take the same place: this looks and notes at once.

        :param hosts: Nova's names, the best one first.
        :param free: tells whether the instance may go there, with all that
            was noted so far.
        :returns: None if there is no such host.
        """
        with self._lock:
            for host in hosts:
                if free(host):
                    placement = Placement(host, instance, networks)
                    self.note(placement)
                    return placement
        return None

    def of(self, instance: str) -> Placement | None:
        """Return where an instance was placed, while that counts."""
        with self._lock:
            self._forget_old()
            return self._instances.get(instance)

    def _forget_old(self) -> None:
        now = self._monotonic()
        while self._ending:
            oldest = next(iter(self._ending))
            if now < self._ending[oldest]:
                return
            self._drop(oldest)

    def _drop(self, placement: Placement) -> None:
        if self._ending.pop(placement, None) is None:
            return
        del self._instances[placement.instance]
        host = placement.host
        left = tuple(e for e in self._hosts[host] if e != placement)
        if left:
            self._hosts[host] = left
        else:
            del self._hosts[host]
