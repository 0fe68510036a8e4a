# SPDX-License-Identifier: Apache-2.0

"""Placement with one resource provider."""

from collections.abc import Callable
from typing import Any

from sriov_rt.placement import resource_provider


class FakePlacement:
    """One resource provider and its traits.

    :param meddle: called before each write, for changes of others.
    """

    def __init__(self, name: str = "rt-1", *traits: str) -> None:
        self.name = name
        self.provider: set[str] | None = set(traits)
        self.known = set(traits)
        self.generation = 5
        self.writes = 0
        self.meddle: Callable[[], None] = lambda: None

    def find(self, name: str) -> str:
        if self.provider is None or name != self.name:
            raise resource_provider.ProviderMissing(name)
        return "uuid-1"

    def traits(self, uuid: str) -> resource_provider.ProviderTraits:
        assert self.provider is not None
        return resource_provider.ProviderTraits(
            frozenset(self.provider), self.generation
        )

    def create_trait(self, name: str) -> None:
        self.known.add(name)

    def set_traits(self, uuid: str, traits: Any, generation: int) -> None:
        self.meddle()
        if generation != self.generation:
            raise resource_provider.GenerationConflict(uuid)
        assert traits <= self.known, "Placement refuses unknown traits"
        self.provider = set(traits)
        self.generation += 1
        self.writes += 1
