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

"""This compute host's facts, and whether they satisfy a flavor."""

import dataclasses
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping

import nova.conf
from nova.virt import hardware

from sriov_rt import decide
from sriov_rt import request as requests
from sriov_rt.codec import Unknown
from sriov_rt.facts import NOT_TOLD
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.root import Root
from sriov_rt.reason import Reason
from sriov_rt.reason import reason

#: Seconds for which one observation of this host serves: the instances of
#: one request come together.
FACTS_S = 5.0


class LocalHost:
    """This compute host, as its kernel and its nova.conf describe it.

    :param root: where the host's files are.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        root: Root,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._observer: Observer | None = None
        self._facts: HostFacts | None = None
        self._observed = 0.0

    def facts(self) -> HostFacts:
        """Return the facts, at most :data:`FACTS_S` seconds old."""
        with self._lock:
            now = self._monotonic()
            if self._facts is None or now - self._observed > FACTS_S:
                if self._observer is None:
                    self._observer = self._make_observer()
                self._facts = _readable(self._observer.observe())
                self._observed = now
            return self._facts

    def _make_observer(self) -> Observer:
        host = nova.conf.CONF.host
        return Observer(
            self._root,
            host,
            host,
            {**load_sources(), "compute": _compute},
        )


def why_not(specs: Mapping[str, str], facts: HostFacts) -> tuple[Reason, ...]:
    """Return every Reason why this host does not satisfy a flavor.

    The scheduler's filter asks the same, unless the host was forced; it does
    so by facts that are some seconds older. A label selector is left to it:
    labels come to the agent, and nova-compute has none of them.

    :param specs: extra specs of the flavor.
    """
    try:
        request = requests.parse(specs)
    except requests.RequestError as error:
        return (reason("request_invalid", problems=str(error)),)
    request = dataclasses.replace(request, node_selector=None)
    return decide.why_not(request, facts, decide.View(time.time()))


def _readable(facts: HostFacts) -> HostFacts:
    """Return facts without what Nova's user may not read.

    How deep CPUs may sleep hangs on /dev/cpu_dma_latency, which is root's.
    The agent reads it, and the scheduler has judged the host by that.
    """
    if not isinstance(facts.cpus.idle_states, Unknown):
        return facts
    cpus = dataclasses.replace(facts.cpus, idle_states=NOT_TOLD)
    return dataclasses.replace(facts, cpus=cpus)


def _compute(root: Root) -> ComputeFacts:
    # What Nova itself goes by, whatever its files say meanwhile.
    dedicated = hardware.get_cpu_dedicated_set()
    shared = hardware.get_cpu_shared_set()
    return ComputeFacts(
        dedicated=None if dedicated is None else CpuSet(dedicated),
        shared=None if shared is None else CpuSet(shared),
    )
