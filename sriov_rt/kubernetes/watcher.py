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

"""Follow one Node through everything that may befall its API server."""

import logging
import math
import random
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Protocol

from sriov_rt.agent.backoff import Backoff
from sriov_rt.agent.worker import Worker
from sriov_rt.kubernetes import node
from sriov_rt.kubernetes import problems
from sriov_rt.labels.source import Answer
from sriov_rt.parse import features

LOG = logging.getLogger(__name__)

#: The longest first delay after a failure, seconds.
FIRST_DELAY_S = 1.0

#: A watch that ended without an event in less than so many seconds failed:
#: what answers is no API server, or one that is about to end.
SHORT_S = 0.5

#: Seconds after which the Node is listed once more although watches went
#: well: an etcd that was restored from a backup counts its versions anew, and
#: a watch from a version to come hears nothing. A quarter more or less.
RESYNC_S = 3600.0

_NFD = f"{features.PREFIX}/"


class Api(Protocol):
    """What is asked of an API server."""

    def list(self) -> node.Listing:
        """Return the Node as it is now."""

    def watch(self, version: str) -> Iterator[node.Event]:
        """Yield what happens to it."""

    def interrupt(self) -> None:
        """End a request that is under way."""


class Watcher:
    """Know a Node's labels, and for how long nothing was heard of them.

    :param api: an API server.
    :param node_name: of the Node, for the log.
    :param backoff: the delays after failures.
    :param changed: called when :meth:`read` has something new to tell.
    :param crashed: called if the thread meets an error it should not.
    :param monotonic: the clock, seconds.
    :param uniform: a random number between two bounds.
    """

    def __init__(
        self,
        api: Api,
        node_name: str,
        backoff: Backoff,
        changed: Callable[[], None],
        crashed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._backoff = backoff
        self._changed = changed
        self._monotonic = monotonic
        self._uniform = uniform
        self._version = ""
        self._relists = 0
        self._resync_at = math.inf
        self._node_problem: str | None = None
        # What read() gives: replaced as a whole, so that no lock is needed.
        self._answer = Answer(None)
        self._known: Mapping[str, str] = {}
        self._stopping = False
        self.worker = Worker("kubernetes", self.step, crashed, monotonic)

    def start(self, known: Mapping[str, str]) -> None:
        """Start to follow the Node."""
        self._known = known
        self.worker.start()

    def stop(self) -> None:
        """Let the thread end; a request under way is cut off."""
        self._stopping = True
        self.worker.stop()
        self._api.interrupt()

    def read(self) -> Answer:
        """Return what is known now."""
        return self._answer

    def step(self) -> float:
        """List or watch once; return the seconds until the next time."""
        try:
            if not self._version or self._monotonic() > self._resync_at:
                self._list()
            return self._watch()
        except problems.Expired as problem:
            return self._expired(problem)
        except (problems.ApiProblem, node.Garbled) as problem:
            if self._stopping:
                return math.inf
            return self._failed(problem)

    def _list(self) -> None:
        listing = self._api.list()
        self._version = listing.version
        self._resync_at = self._monotonic() + self._uniform(
            0.75 * RESYNC_S, 1.25 * RESYNC_S
        )
        self._take(listing.labels)
        self._backoff.succeeded()

    def _watch(self) -> float:
        began = self._monotonic()
        heard = False
        for event in self._api.watch(self._version):
            heard |= event.kind is not node.Kind.OPENED
            self._event(event)
        if not heard and self._monotonic() - began < SHORT_S:
            raise problems.Unreachable("it ends watches at once")
        # It was there until now, and had nothing to tell.
        self._confirm()
        self._relists = 0
        self._backoff.succeeded()
        # At once: what changes now waits for nobody.
        return 0.0

    def _event(self, event: node.Event) -> None:
        if event.kind is node.Kind.ERROR:
            if event.code == problems.GONE:
                raise problems.Expired
            raise problems.Refused(event.code, event.message)
        if event.kind is node.Kind.OPENED:
            self._confirm()
            return
        self._version = event.version
        self._relists = 0
        self._backoff.succeeded()
        if event.kind is node.Kind.BOOKMARK:
            self._confirm()
        elif event.kind is node.Kind.DELETED:
            self._take(None)
        else:
            self._take(event.labels)

    def _take(self, labels: Mapping[str, str] | None) -> None:
        """Take what the Node is now; None if there is no such Node."""
        self._node_problem = self._why_no_answer(labels)
        if labels is not None and self._node_problem is None:
            if labels != self._known or self._answer.labels is None:
                self._known = labels
            self._confirm()
        else:
            self._deny(self._node_problem)

    def _why_no_answer(self, labels: Mapping[str, str] | None) -> str | None:
        """Return why a Node tells nothing of its host; None if it does."""
        if labels is None:
            # Nodes are deleted and register again: what the host is did not
            # change by that.
            return (
                f"there is no Node '{self._node_name}'; join the host to "
                "the cluster, or correct [kubernetes] node_name"
            )
        had_nfd = any(key.startswith(_NFD) for key in self._known)
        if had_nfd and not any(key.startswith(_NFD) for key in labels):
            # A Node that NFD looks after has some at all times: it is NFD
            # that went, as nfd-master's restarts make it (its issue 2408).
            return (
                f"all labels of NFD are gone from Node '{self._node_name}'; "
                "see that nfd-worker and nfd-master run, or if NFD was "
                "removed for good, delete the file of [labels] store and "
                "restart sriov-rt-agent"
            )
        return None

    def _confirm(self) -> None:
        """Note that what is known of the Node holds, if it is any good."""
        if self._node_problem is not None or not self._version:
            self._deny(self._node_problem)
            return
        self._tell(Answer(self._known, self._monotonic()))

    def _deny(self, problem: str | None) -> None:
        """Note why the labels cannot be confirmed."""
        last = self._answer
        self._tell(Answer(last.labels, last.confirmed, problem))

    def _tell(self, answer: Answer) -> None:
        last, self._answer = self._answer, answer
        if answer.labels is not last.labels or answer.problem != last.problem:
            self._changed()

    def _expired(self, problem: problems.Expired) -> float:
        self._version = ""
        self._relists += 1
        if self._relists == 1:
            LOG.debug("%s", problem)
            return 0.0
        return self._failed(problem)

    def _failed(self, problem: problems.ApiProblem | node.Garbled) -> float:
        if isinstance(problem, node.Garbled | problems.Refused):
            # Perhaps it is the version that it does not take.
            self._version = ""
        self._deny(str(problem))
        after_s = getattr(problem, "retry_after_s", 0.0)
        return max(self._backoff.failed(), after_s)
