# SPDX-License-Identifier: Apache-2.0

"""This compute host's facts, and whether they satisfy a flavor."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping

import nova.conf
from nova.virt import hardware

from sriov_rt import deadline
from sriov_rt import decide
from sriov_rt import request as requests
from sriov_rt.codec import Unknown
from sriov_rt.facts import ComputeFacts
from sriov_rt.facts import CpuSet
from sriov_rt.facts import HostFacts
from sriov_rt.facts import PowerManagement
from sriov_rt.facts import decisive
from sriov_rt.host import selected
from sriov_rt.host.observer import Observer
from sriov_rt.host.observer import load_sources
from sriov_rt.host.root import Root
from sriov_rt.labels import recorded
from sriov_rt.labels import store
from sriov_rt.reason import Reason
from sriov_rt.reason import reason
from sriov_rt.request import Request

LOG = logging.getLogger(__name__)

#: Seconds for which one observation of this host is used: the instances of
#: one request arrive together.
FACTS_S = 5.0

#: Seconds that an observation may take: it reads some hundred small files.
LIMIT_S = 60.0
_OBSERVATION = "the observation of this host"


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
        self._observing: deadline.Call[HostFacts] | None = None
        self._facts: HostFacts | None = None
        self._observed = 0.0
        self._labels_known = True

    def facts(self) -> HostFacts:
        """Return the facts, at most :data:`FACTS_S` seconds old.

        A read of procfs or sysfs may wait in the kernel: for rtnl, for a
        device that is being reset, for the memory map of another process.

        :raises Expired: if that takes longer than :data:`LIMIT_S`.
        """
        with self._lock:
            now = self._monotonic()
            if self._facts is not None and now - self._observed <= FACTS_S:
                return self._facts
            if self._observing is None or self._observing.has_ended:
                self._observing = deadline.Call(_OBSERVATION, self._observe)
            observing = self._observing
        return observing.result(LIMIT_S)

    def _observe(self) -> HostFacts:
        """Return the current facts; called by one thread at a time."""
        began = self._monotonic()
        if self._observer is None:
            self._observer = self._make_observer()
        found = selected.readable(self._observer.observe())
        with self._lock:
            self._facts, self._observed = found, began
        return found

    def _make_observer(self) -> Observer:
        host = nova.conf.CONF.host
        return Observer(
            self._root,
            host,
            host,
            {**load_sources(), "compute": _compute},
        )

    def why_not(self, specs: Mapping[str, str]) -> tuple[Reason, ...]:
        """Return every Reason why this host does not satisfy a flavor.

        Unless the host was forced, the scheduler's filter has applied the
        same rules to facts that are some seconds older.

        :param specs: extra specs of the flavor.
        :raises Expired: if the host cannot be read in time.
        """
        try:
            request = requests.parse(specs)
        except requests.RequestError as error:
            return (reason("request_invalid", problems=str(error)),)
        facts = self.facts()
        if request.node_selector is not None:
            request, facts = self._with_labels(request, facts)
        view = decide.View(time.time())
        return decide.why_not(request, decisive(facts), view)

    def _with_labels(
        self, request: Request, facts: HostFacts
    ) -> tuple[Request, HostFacts]:
        """Return facts with all labels, and a request that they can answer.

        Labels that don't come from the kernel are stored by the agent. If it
        has stored none, conditions on such labels are left to the filter.
        """
        found = deadline.Call(
            _OBSERVATION, lambda: recorded.complete(facts, self._root)
        ).result(LIMIT_S)
        if not found.known:
            request = _without_unknown_labels(request, facts)
            if self._labels_known:
                LOG.warning(
                    "No labels of this host are stored in %s: "
                    "sriov_rt:node_selector is judged by the labels of the "
                    "kernel alone, and the others are left to the "
                    "scheduler's filter, which a forced host does not pass. "
                    "Run sriov-rt-agent with [labels] store at its default, "
                    "and let nova-compute read it",
                    store.PATH,
                )
        self._labels_known = found.known
        return request, found.facts


def _without_unknown_labels(request: Request, facts: HostFacts) -> Request:
    """Return a request limited to the labels that the kernel provides."""
    selector, known = request.node_selector, facts.labels.sources
    if selector is None or isinstance(known, Unknown):
        return dataclasses.replace(request, node_selector=None)
    left = tuple(each for each in selector.requirements if each.key in known)
    return dataclasses.replace(
        request,
        node_selector=dataclasses.replace(selector, requirements=left),
    )


def _compute(root: Root) -> ComputeFacts:
    # The value that Nova uses, whatever its files say by now.
    dedicated = hardware.get_cpu_dedicated_set()
    shared = hardware.get_cpu_shared_set()
    return ComputeFacts(
        dedicated=None if dedicated is None else CpuSet(dedicated),
        shared=None if shared is None else CpuSet(shared),
        power_management=_power_management(),
    )


def _power_management() -> PowerManagement | None:
    libvirt = nova.conf.CONF.libvirt
    if not libvirt.cpu_power_management:
        return None
    return PowerManagement(
        libvirt.cpu_power_management_strategy,
        libvirt.cpu_power_governor_low,
        libvirt.cpu_power_governor_high,
    )
