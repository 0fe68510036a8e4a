# SPDX-License-Identifier: Apache-2.0

"""Labels of many sources merged into one set."""

import dataclasses
import types
from collections.abc import Iterable
from collections.abc import Mapping

from sriov_rt.codec import Unknown
from sriov_rt.facts import LabelFacts
from sriov_rt.parse import features

#: Labels below it are what the agent itself wrote for NFD. What comes back
#: of them is an echo, older than the facts that they were made of.
OWN_PREFIX = f"{features.PREFIX}/sriov-rt."

#: To NFD it says that the kernel could make CPUs nohz_full, to the kernel
#: that some are: the two differ on most hosts, and neither is wrong.
_OTHER_MEANING = frozenset({f"{features.PREFIX}/kernel-config.NO_HZ_FULL"})


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """Last labels of a source.

    :param labels: full key to value.
    :param stale: whether that is longer ago than the limit.
    """

    source: str
    labels: Mapping[str, str]
    stale: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Contradiction:
    """A label on which a source and the kernel differ.

    :param kernel: the value by the kernel; None if it knows of no such
        label.
    """

    label: str
    value: str
    source: str
    kernel: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Merged:
    """The labels that count, and what was said against the kernel."""

    labels: LabelFacts
    contradictions: tuple[Contradiction, ...]


def merge(kernel: LabelFacts, readings: Iterable[Reading]) -> Merged:
    """Return the labels of all sources as one.

    Of several values of one label the kernel's counts, then that of the
    first source that has one and is not stale, then that of the first stale
    one.

    :param kernel: the kernel's own.
    :param readings: of each source one, those that count first first.
    """
    if isinstance(kernel.values, Unknown):
        return Merged(kernel, ())
    if isinstance(kernel.sources, Unknown):
        return Merged(kernel, ())
    values, sources = dict(kernel.values), dict(kernel.sources)
    contradictions: list[Contradiction] = []
    ordered = sorted(readings, key=lambda each: each.stale)
    for reading in ordered:
        for key, value in reading.labels.items():
            if key.startswith(OWN_PREFIX):
                continue
            if key in kernel.sources:
                contradictions += _against(kernel.values, key, value, reading)
            elif key not in values:
                values[key] = value
                sources[key] = reading.source
    stale = sorted(each.source for each in ordered if each.stale)
    return Merged(
        LabelFacts(
            types.MappingProxyType(values),
            types.MappingProxyType(sources),
            tuple(stale),
        ),
        tuple(sorted(contradictions, key=lambda each: each.label)),
    )


def _against(
    kernel: Mapping[str, str], key: str, value: str, reading: Reading
) -> list[Contradiction]:
    actual = kernel.get(key)
    # What a source that is down said last may have been true then.
    if value == actual or reading.stale or key in _OTHER_MEANING:
        return []
    return [Contradiction(key, value, reading.source, actual)]
