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

"""The namespaces that a watch knows, and the links in them."""

import dataclasses
from collections.abc import Iterator

from sriov_rt.vif import answers
from sriov_rt.vif import names
from sriov_rt.vif import requests
from sriov_rt.vif.edge import Link
from sriov_rt.vif.listener import Heard
from sriov_rt.vif.namespaces import Identity

#: The number of a namespace, and the index of a link in it.
Key = tuple[int, int]


@dataclasses.dataclass
class Space:
    """One namespace other than the caller's.

    :param name: as in Link.
    :param number: in the caller's.
    :param home: the number that the caller's has in it.
    :param indices: of the links in it.
    """

    name: str
    identity: Identity
    number: int
    home: int | None = None
    indices: set[int] = dataclasses.field(default_factory=set)


class Spaces:
    """Namespaces by their numbers, and all their links in one place.

    A look at a host with hundreds of containers costs what has changed.
    """

    def __init__(self) -> None:
        self._by_number: dict[int, Space] = {}
        self._by_identity: dict[Identity, Space] = {}
        self._of_processes: dict[int, Space] = {}
        self._links: dict[Key, Link] = {}
        # What was last heard of links, and not yet read: of most changes
        # nobody wants to know.
        self._told: dict[Key, bytes] = {}

    def __iter__(self) -> Iterator[Space]:
        return iter(tuple(self._by_number.values()))

    def numbered(self, number: int) -> Space | None:
        """Return the namespace of a number."""
        return self._by_number.get(number)

    def identified(self, identity: Identity) -> Space | None:
        """Return the namespace that is this one."""
        return self._by_identity.get(identity)

    def of_processes(self) -> Iterator[Space]:
        """Yield those with links that are known by a process only."""
        return (each for each in self._of_processes.values() if each.indices)

    def add(self, space: Space) -> None:
        """Know a namespace."""
        self._by_number[space.number] = space
        self._by_identity[space.identity] = space
        self._name(space, space.name)

    def remove(self, number: int) -> None:
        """Know a namespace no more, nor what is in it."""
        space = self._by_number.pop(number, None)
        if space is None:
            return
        del self._by_identity[space.identity]
        self._of_processes.pop(number, None)
        for index in space.indices:
            del self._links[number, index]
        for key in tuple(self._told):
            if key[0] == number:
                del self._told[key]

    def rename(self, space: Space, name: str) -> None:
        """Know a namespace by another name."""
        self._name(space, name)
        for index in space.indices:
            link = self._links[space.number, index]
            link = dataclasses.replace(link, namespace=name)
            self._links[space.number, index] = link

    def _name(self, space: Space, name: str) -> None:
        space.name = name
        if name.startswith(names.PID):
            self._of_processes[space.number] = space
        else:
            self._of_processes.pop(space.number, None)

    def links(self) -> list[Link]:
        """Return all links that were read."""
        return list(self._links.values())

    def find(self, space: Space, name: str) -> Link | None:
        """Return the link of a name."""
        for index in space.indices:
            link = self._links[space.number, index]
            if link.name == name:
                return link
        return None

    def put(self, space: Space, link: Link) -> None:
        """Take in a link as it was just read."""
        self._told.pop((space.number, link.index), None)
        self._links[space.number, link.index] = link
        space.indices.add(link.index)

    def follow(self, space: Space, event: Heard) -> None:
        """Take in an event on a link."""
        index = answers.index(event.body)
        if index is None:
            return
        if event.kind == requests.RTM_NEWLINK:
            self._told[space.number, index] = event.body
        elif event.kind == requests.RTM_DELLINK:
            self._told.pop((space.number, index), None)
            self._links.pop((space.number, index), None)
            space.indices.discard(index)

    def told(self) -> Iterator[tuple[Space, bytes]]:
        """Yield what was told and not read; it counts as read then."""
        for key, body in tuple(self._told.items()):
            yield self._by_number[key[0]], body
            self._told.pop(key, None)
