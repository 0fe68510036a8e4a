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

"""Ports made: one after the other on a parent, many threads' in one go."""

import contextlib
import dataclasses
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sriov_rt.exceptions import SriovRtError
from sriov_rt.nic.errors import NicError
from sriov_rt.vif import errors
from sriov_rt.vif import plan
from sriov_rt.vif import report
from sriov_rt.vif import tell
from sriov_rt.vif.edge import Link
from sriov_rt.vif.edge import Links
from sriov_rt.vif.errors import VifError
from sriov_rt.vif.journal import Journal
from sriov_rt.vif.lock import Held
from sriov_rt.vif.lock import Locks
from sriov_rt.vif.plan import PlugPlan
from sriov_rt.vif.pools import Pools
from sriov_rt.vif.recovery import Recovery
from sriov_rt.vif.rules import Rules
from sriov_rt.vif.steps import Steps
from sriov_rt.vif.together import Interrupted
from sriov_rt.vif.together import Job
from sriov_rt.vif.together import Take
from sriov_rt.vif.together import Together
from sriov_rt.vif.view import Vfs
from sriov_rt.vif.view import View
from sriov_rt.vif.view import observe
from sriov_rt.vif.words import Plug
from sriov_rt.vif.words import Plugged

LOG = logging.getLogger(__name__)

#: How often to look anew at a host that has changed meanwhile.
MAX_TRIES = 8

#: Why another parent may do.
_TAKEN = (
    errors.BudgetExceeded,
    errors.NoParent,
    errors.NoSuchLink,
    errors.ParentTaken,
    errors.SpreadNeeded,
)

#: The link if it was made now, and the port.
Made = tuple[Link | None, Plugged]


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A port that is to be made.

    :param held: whether its thread has its lock, and nothing of it is in
        the journal.
    """

    want: Plug
    held: bool


class _NotNow(VifError):
    """The port is at work elsewhere, or was left half done."""


class Plugging:
    """Makes ports, each under its own lock and its parent's.

    :param steps: do what a plan says.
    :param recovery: undoes what fails.
    """

    def __init__(
        self,
        links: Links,
        vfs: Vfs,
        pools: Pools,
        journal: Journal,
        locks: Locks,
        rules: Rules,
        steps: Steps,
        recovery: Recovery,
    ) -> None:
        self._links = links
        self._vfs = vfs
        self._pools = pools
        self._journal = journal
        self._locks = locks
        self._rules = rules
        self._steps = steps
        self._recovery = recovery
        self._together: Together[Asked, Made] = Together(self._on)

    def plan(self, want: Plug, view: View) -> PlugPlan:
        """Return the plan for a port that is not plugged."""
        return plan.make(want, view, self._pools, self._rules)

    def plug(self, want: Plug) -> Made:
        """Make a port, or return it as it is if it is there.

        :param want: a checked one.
        :raises VifError: or NicError, if it cannot be made; then nothing of
            it is left.
        """
        parent = want.parent or self._pools.only(want.physical_network)
        if parent is not None and not want.onload:
            try:
                return self._together.do(parent, Asked(want, held=False))
            except (_NotNow, Interrupted, *_TAKEN) as error:
                LOG.debug("%s: not at once (%s)", tell.about(want.port), error)
        with self._locks.port(want.port):
            self._recovery.settle(want.port)
            with self._alone(want):
                return self._chosen(want)

    def _alone(self, want: Plug) -> AbstractContextManager[object]:
        """Keep other accelerated ports of a network from choosing."""
        # Two VFs of one PF are two parents: their locks do not do.
        if want.onload and want.network is not None:
            return self._locks.network(want.network)
        return contextlib.nullcontext()

    def _chosen(self, want: Plug) -> Made:
        """Choose a parent for a port whose lock is held, and make it."""
        for _ in range(MAX_TRIES):
            parent, chosen = want.parent, want
            if parent is None:
                view = observe(self._links, self._vfs)
                if (there := report.standing(view, want)) is not None:
                    return None, there
                first = self.plan(want, view)
                parent = first.parent
                chosen = dataclasses.replace(first.want, parent=parent)
            try:
                return self._together.do(parent, Asked(chosen, held=True))
            except _TAKEN as error:
                if want.parent is not None:
                    raise
                # Another port was quicker: choose again.
                LOG.debug("%s: %s", tell.about(want.port), error)
            except Interrupted:
                LOG.debug("%s: interrupted", tell.about(want.port))
            # The next intent must not hide one that is not wholly undone.
            self._recovery.settle(want.port)
        raise errors.Busy(want.physical_network or "", port=want.port)

    def _on(self, parent: str, take: Take[Asked, Made]) -> None:
        """Make ports on one parent, those of many threads at one look."""
        with self._locks.parent(parent) as held:
            # A look is of use for those ports that were locked before it.
            self._these([job for job in take() if self._is_held(job, held)])

    def _these(self, jobs: Sequence[Job[Asked, Made]]) -> None:
        view: View | None = None
        for job in jobs:
            if view is None:
                view = observe(self._links, self._vfs)
            try:
                view = self._one(job, view)
            except SriovRtError as error:
                job.fail(error)
                view = None

    def _is_held(self, job: Job[Asked, Made], held: Held) -> bool:
        """Lock a port if that takes no waiting; tell whether it is."""
        if job.want.held:
            return True
        port = job.want.want.port
        try:
            held.add(port)
            if self._journal.get(port) is None:
                return True
        except errors.Busy:
            pass
        except VifError as error:
            job.fail(error)
        job.fail(_NotNow(port, port=port))
        return False

    def _one(self, job: Job[Asked, Made], view: View) -> View | None:
        """Make a port; return the host as it is then, None if not known."""
        want = job.want.want
        there = report.standing(view, want)
        if there is not None:
            job.finish((None, there))
            return view
        todo = self.plan(want, view)
        link, plugged = self._make(todo)
        job.finish((link, plugged))
        if todo.settings is None and todo.parent_up and link.namespace:
            view.add(link)
            return view
        return None

    def _make(self, todo: PlugPlan) -> tuple[Link, Plugged]:
        """Do a plan while its port and its parent are locked."""
        entry = report.intent(todo)
        self._journal.begin(entry)
        try:
            link = self._steps.run(todo)
            self._journal.end(entry.port)
        except (VifError, NicError) as error:
            LOG.warning("%s: undone (%s)", report.about(entry), error)
            self._recovery.undo(entry)
            raise
        name = f"{link.name} in {link.namespace or 'this namespace'}"
        LOG.info("%s: plugged: %s", report.about(entry), name)
        return link, report.made(todo, link)
