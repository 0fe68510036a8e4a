# SPDX-License-Identifier: Apache-2.0

"""Label source ``kubernetes``: the labels of the host's own Node."""

import logging
import math
import time
from collections.abc import Callable
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sriov_rt.kubernetes import errors
from sriov_rt.kubernetes import node
from sriov_rt.kubernetes import options
from sriov_rt.labels.label_source import Answer
from sriov_rt.labels.label_source import LabelSourceMissing
from sriov_rt.labels.label_source import Wiring
from sriov_rt.parse import features
from sriov_rt.service.backoff import Backoff
from sriov_rt.service.worker import Worker

if TYPE_CHECKING:
    # It imports the package kubernetes.
    from sriov_rt.kubernetes.api import NodeApi

LOG = logging.getLogger(__name__)

#: The longest first delay after a failure, seconds.
FIRST_DELAY_S = 1.0

#: Seconds; a watch that ends sooner without an event is a failure.
SHORT_S = 0.5

_NFD = f"{features.PREFIX}/"


def make(wiring: Wiring) -> "NodeLabels":
    """Return the configured source, which is not started yet.

    :raises LabelSourceMissing: without the package ``kubernetes``.
    """
    conf = wiring.conf
    options.check(conf, "sriov-rt-agent")
    group = conf.kubernetes
    try:
        from sriov_rt.kubernetes import api
    except ImportError as error:
        raise LabelSourceMissing(
            "kubernetes", f"{error}; run 'pip install sriov-rt[kubernetes]'"
        ) from error
    name = group.node_name or conf.host.lower()
    settings = api.Settings(
        node_name=name,
        kubeconfig=group.kubeconfig,
        context=group.context,
        api_server=group.api_server,
        token_file=group.token_file,
        ca_file=group.ca_file,
        connect_timeout_s=group.connect_timeout,
        read_timeout_s=group.read_timeout,
        watch_timeout_s=group.watch_timeout,
    )
    return NodeLabels(
        api.NodeApi(settings),
        name,
        Backoff(FIRST_DELAY_S, group.max_backoff),
        wiring.changed,
        wiring.crashed,
    )


class NodeLabels:
    """Labels of one Node, and the time when they were last confirmed.

    The Node is listed and then watched. When the watch ends for any reason,
    both are repeated.

    :param api: client of an API server.
    :param node_name: name of the Node, for the log.
    :param changed: called when :meth:`read` has a new answer.
    :param crashed: called if the thread meets an unexpected error.
    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        api: "NodeApi",
        node_name: str,
        backoff: Backoff,
        changed: Callable[[], None],
        crashed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._backoff = backoff
        self._changed = changed
        self._monotonic = monotonic
        self._node_problem: str | None = None
        # The answer of read(), replaced as a whole, so no lock is needed.
        self._answer = Answer(None)
        self._known: Mapping[str, str] = {}
        self._stopping = False
        self.worker = Worker("kubernetes", self.step, crashed, monotonic)

    def start(self, known: Mapping[str, str]) -> None:
        """Start following the Node."""
        self._known = known
        self.worker.start()

    def stop(self) -> None:
        """Stop the thread and interrupt its watch."""
        self._stopping = True
        self.worker.stop()
        self._api.interrupt()

    def read(self) -> Answer:
        """Return the current answer."""
        return self._answer

    def step(self) -> float:
        """List and watch once; return the seconds until the next time."""
        try:
            listing = self._api.list()
            self._take(listing.labels)
            self._watch(listing.version)
        except errors.ApiProblem as problem:
            return math.inf if self._stopping else self._failed(problem)
        # Begin again at once, so that no change is delayed.
        return 0.0

    def _watch(self, version: str) -> None:
        began, events = self._monotonic(), 0
        try:
            for event in self._api.watch(version):
                events += 1
                if event.type == node.BOOKMARK:
                    self._confirm()
                else:
                    deleted = event.type == node.DELETED
                    self._take(None if deleted else event.labels)
        finally:
            # A list alone is no success, as the watch may be refused.
            short = not events and self._monotonic() - began < SHORT_S
            if not short:
                self._backoff.succeeded()
        if short:
            raise errors.Unreachable("it ends watches at once")
        # The Node existed until now, without further changes.
        self._confirm()

    def _take(self, labels: Mapping[str, str] | None) -> None:
        """Process the Node's current labels; None if it does not exist."""
        self._node_problem = self._why_no_answer(labels)
        if labels is not None and self._node_problem is None:
            if labels != self._known or self._answer.labels is None:
                self._known = labels
            self._confirm()
        else:
            self._deny(self._node_problem)

    def _why_no_answer(self, labels: Mapping[str, str] | None) -> str | None:
        """Return why a Node does not describe its host; None if it does."""
        if labels is None:
            # Nodes may be deleted and register again, which does not change
            # the facts of the host.
            return (
                f"there is no Node '{self._node_name}'; join the host to "
                "the cluster, or correct [kubernetes] node_name"
            )
        had_nfd = any(key.startswith(_NFD) for key in self._known)
        if had_nfd and not any(key.startswith(_NFD) for key in labels):
            # A Node that NFD manages always has some of its labels. Without
            # any, NFD itself is gone: nfd-master restarts (its issue 2408).
            return (
                f"all labels of NFD are gone from Node '{self._node_name}'; "
                "check that nfd-worker and nfd-master run, or if NFD was "
                "removed for good, delete the file of [labels] store and "
                "restart sriov-rt-agent"
            )
        return None

    def _confirm(self) -> None:
        """Confirm that the known labels still apply, if they are valid."""
        if self._node_problem is not None:
            self._deny(self._node_problem)
            return
        self._set(Answer(self._known, self._monotonic()))

    def _deny(self, problem: str | None) -> None:
        """Note why the labels cannot be confirmed."""
        last = self._answer
        self._set(Answer(last.labels, last.confirmed, problem))

    def _set(self, answer: Answer) -> None:
        last, self._answer = self._answer, answer
        if answer.labels is not last.labels or answer.problem != last.problem:
            self._changed()

    def _failed(self, problem: errors.ApiProblem) -> float:
        self._deny(str(problem))
        delay_s = max(self._backoff.failed(), problem.retry_after_s)
        LOG.debug(
            "Node %s is listed again in %.1f s: %s",
            self._node_name,
            delay_s,
            problem,
        )
        return delay_s
