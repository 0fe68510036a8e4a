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

"""All links of all namespaces, by the best way that there is."""

import errno
import logging
import threading
from collections.abc import Sequence

from sriov_rt.vif import errors
from sriov_rt.vif import namespaces
from sriov_rt.vif.edge import Link
from sriov_rt.vif.places import opened
from sriov_rt.vif.places import telling
from sriov_rt.vif.space import Space
from sriov_rt.vif.watch import Watch

LOG = logging.getLogger(__name__)

#: How often to begin anew where more changes than a socket holds.
MAX_TRIES = 3


class Census:
    """Counts the links of a host; threads share one.

    They are watched, which costs what has changed; who may not hear of
    other namespaces (CAP_NET_BROADCAST) enters each of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._deaf = False

    def links(self) -> Sequence[Link]:
        """Return the links of all namespaces."""
        with self._lock:
            if not self._deaf:
                with telling("links", "watch"):
                    found = self._watched()
                if found is not None:
                    return found
        return visited()

    def expect(self, name: str, descriptor: int) -> Space | None:
        """Get to know a namespace that is about to get a link.

        :param descriptor: of its file.
        :returns: None for the caller's own, and where nothing is watched.
        """
        with self._lock, telling(name, "watch"):
            if self._watch is None or not self._watch.valid:
                return None
            return self._watch.expect(name, descriptor)

    def heard(self, space: Space, name: str) -> Link | None:
        """Return a link as the kernel has last told of it.

        :returns: None if nothing was heard of it.
        """
        with self._lock:
            if self._watch is None or not self._watch.knows(space):
                return None
            try:
                return self._watch.heard(space, name)
            except OSError:
                # Events were lost, and are not told of again.
                self._forget()
                return None

    def note(self, link: Link) -> None:
        """Take in how a link was just read."""
        with self._lock:
            if self._watch is None or link.namespace is None:
                return
            with telling(link.name, "watch"):
                if self._watch.valid:
                    self._watch.note(link)

    def close(self) -> None:
        """Watch no more, until asked again."""
        with self._lock:
            self._forget()

    def _watched(self) -> Sequence[Link] | None:
        """Return what is watched; None where that cannot be done."""
        if self._watch is not None and not self._watch.valid:
            self._forget()
        for _ in range(MAX_TRIES):
            try:
                if self._watch is None:
                    self._watch = Watch()
                found = self._watch.links()
                return [*self._watch.here(), *found]
            except PermissionError:
                self._deaf = True
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                LOG.debug("more has changed than was heard: begin anew")
                self._forget()
        self._forget()
        return None

    def _forget(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._watch = None


def here() -> list[Link]:
    """Return the links of the caller's namespace."""
    with opened(None) as place, telling("links", "list"):
        return place.all()


def visited() -> list[Link]:
    """Return the links of all namespaces, each entered; it takes its time.

    A namespace that goes meanwhile has none.
    """
    found = here()
    with namespaces.opened(None) as own:
        others = namespaces.others(namespaces.identity(own))
        for each in others:
            try:
                with (
                    opened(each.name, each.identity) as place,
                    telling(each.name, "list its links"),
                ):
                    found += place.all()
            except errors.NoSuchNamespace:
                continue
    return found
