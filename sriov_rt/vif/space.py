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

"""One namespace, as a watch knows it."""

import dataclasses

from sriov_rt.vif import answers
from sriov_rt.vif import names
from sriov_rt.vif import requests
from sriov_rt.vif.edge import Link
from sriov_rt.vif.listener import Heard
from sriov_rt.vif.namespaces import Identity


@dataclasses.dataclass
class Space:
    """One namespace other than the caller's.

    :param name: as in Link.
    :param number: in the caller's.
    :param home: the number that the caller's has in it.
    :param links: by their index.
    :param told: what was last heard of links, and not yet read: of most
        changes nobody wants to know.
    :param process: whether it is known by a process only.
    """

    name: str
    identity: Identity
    number: int
    home: int | None = None
    links: dict[int, Link] = dataclasses.field(default_factory=dict)
    told: dict[int, bytes] = dataclasses.field(default_factory=dict)
    process: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.process = self.name.startswith(names.PID)

    def rename(self, name: str) -> None:
        """Be known by another name."""
        self.name = name
        self.process = name.startswith(names.PID)
        for index, link in self.links.items():
            self.links[index] = dataclasses.replace(link, namespace=name)

    def take(self, body: bytes) -> None:
        """Take in what was told of a link."""
        index = answers.index(body)
        if index is not None:
            self.told[index] = body

    def follow(self, event: Heard) -> None:
        """Take in an event."""
        if event.kind == requests.RTM_NEWLINK:
            self.take(event.body)
        elif event.kind == requests.RTM_DELLINK:
            index = answers.index(event.body)
            if index is not None:
                self.told.pop(index, None)
                self.links.pop(index, None)
