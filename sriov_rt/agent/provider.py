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

"""Keep the traits of the host's resource provider in step."""

import logging
from collections.abc import Set
from typing import Protocol

from sriov_rt.agent import placement
from sriov_rt.agent import traits

LOG = logging.getLogger(__name__)

#: How often a provider that others change meanwhile is read again at once,
#: before the agent waits. nova-compute writes to it once a minute.
ATTEMPTS = 4


class Traits(Protocol):
    """What reads and sets the traits of providers."""

    def find(self, name: str) -> str:
        """Return the uuid of the provider of this name."""

    def traits(self, uuid: str) -> placement.ProviderTraits:
        """Return the provider's traits."""

    def create_trait(self, name: str) -> None:
        """Have a trait known."""

    def set_traits(self, uuid: str, traits: Set[str], generation: int) -> None:
        """Replace all traits of the provider."""


class Provider:
    """The resource provider of one host.

    :param client: reads and sets.
    :param host: the name that Nova calls the host by; for the log.
    :param node: the provider's name.
    """

    def __init__(self, client: Traits, host: str, node: str) -> None:
        self._client = client
        self._host = host
        self._node = node

    def set_traits(self, wanted: frozenset[str]) -> None:
        """Give the provider those of our traits, and no other of ours.

        :param wanted: names that begin with one of
            :data:`traits.PREFIXES`.
        :raises NotYet: whatever stands in the way; trying again may help.
        """
        try:
            uuid = self._client.find(self._node)
        except placement.ProviderMissing:
            if wanted:
                raise
            # No provider has none of our traits: that was to be reached.
            return
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._set_traits(uuid, wanted)
            except placement.GenerationConflict:
                if attempt == ATTEMPTS:
                    raise
                LOG.debug("provider %s changed; reading it again", uuid)
            else:
                return

    def _set_traits(self, uuid: str, wanted: frozenset[str]) -> None:
        there = self._client.traits(uuid)
        merged = traits.merged(there.traits, wanted)
        if merged == there.traits:
            return
        added, removed = merged - there.traits, there.traits - merged
        for name in sorted(added):
            self._client.create_trait(name)
        self._client.set_traits(uuid, merged, there.generation)
        LOG.info(
            "traits set: host=%s node=%s provider=%s added=%s removed=%s",
            self._host,
            self._node,
            uuid,
            ",".join(sorted(added)) or "none",
            ",".join(sorted(removed)) or "none",
        )
