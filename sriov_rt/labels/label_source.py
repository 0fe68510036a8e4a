# SPDX-License-Identifier: Apache-2.0

"""Label sources: their interface, and the installed ones."""

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

    :param labels: full key to value; None if it never had any.
    :param confirmed: monotonic time of their last confirmation, seconds;
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
        """Start to follow the labels; must not block.

        :param known: the labels known from before a restart.
        """

    def stop(self) -> None:
        """Stop following the labels."""

    def read(self) -> Answer:
        """Return the current answer; must not block or raise."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wiring:
    """Configuration and callbacks for a source, from the agent that runs it.

    :param conf: the configuration; a source registers its own options.
    :param changed: the source calls it when :meth:`LabelSource.read` has
        changed.
    :param crashed: the source calls it when one of its threads meets an
        unexpected error; the agent then exits, and is started again.
    """

    conf: cfg.ConfigOpts
    changed: Callable[[], None]
    crashed: Callable[[], None]


NAMESPACE = "sriov_rt.label_sources"

#: Name of the kernel, which is not a configurable source.
KERNEL = "kernel"


class LabelSourceMissing(exceptions.SriovRtError):
    """``[labels] sources`` names an unavailable source.

    :param name: name of the source.
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
