# SPDX-License-Identifier: Apache-2.0

"""Label sources: what one is, and those that are installed."""

import dataclasses
import math
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Protocol

from oslo_config import cfg

from sriov_rt import entry_points
from sriov_rt import exceptions


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Current labels of a source.

    :param labels: full key to value; None if it never knew any.
    :param confirmed: monotonic time, in seconds, at which they last held;
        minus infinity for never.
    :param problem: why they cannot be confirmed now, a clause that names
        the remedy; None if they can.
    """

    labels: Mapping[str, str] | None
    confirmed: float = -math.inf
    problem: str | None = None


class LabelSource(Protocol):
    """Where labels come from."""

    def start(self, known: Mapping[str, str]) -> None:
        """Start to follow the labels; must not wait for anyone.

        :param known: those that are known from before a restart.
        """

    def stop(self) -> None:
        """Cease to."""

    def read(self) -> Answer:
        """Return what is known now; must not wait, nor raise."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wiring:
    """Configuration and callbacks for a source, from the agent that runs it.

    :param conf: the configuration; a source registers its own options.
    :param changed: to be called when :meth:`LabelSource.read` has news.
    :param crashed: to be called when a thread of the source met an error
        that it should not have: the agent then ends, to be started again.
    """

    conf: cfg.ConfigOpts
    changed: Callable[[], None]
    crashed: Callable[[], None]


NAMESPACE = "sriov_rt.label_sources"

#: The kernel is no source that can be named, moved or left out.
KERNEL = "kernel"


class LabelSourceMissing(exceptions.SriovRtError):
    """``[labels] sources`` names what cannot be had.

    :param name: of the source.
    :param why: a clause.
    """

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(
            f"there is no label source '{name}' ({why}); correct [labels] "
            "sources, or install the package that it comes with"
        )


def load(names: Sequence[str], wiring: Wiring) -> Mapping[str, LabelSource]:
    """Return the named sources in their order, not started.

    :raises LabelSourceMissing: if one is not installed or fails to load.
    """
    found: dict[str, LabelSource] = {}
    requested = dict.fromkeys(names)
    requested.pop(KERNEL, None)
    if not requested:
        return found
    factories, failed = entry_points.load(NAMESPACE, requested)
    for name in requested:
        if name not in factories:
            raise LabelSourceMissing(
                name, failed.get(name, f"nothing in {NAMESPACE}")
            )
        found[name] = factories[name](wiring)
    return found
